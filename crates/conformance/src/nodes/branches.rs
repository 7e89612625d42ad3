//! `parallel_branches:` (conformance-adapter §5.4, pipeline-utilities §11).

use crate::failure::Outcome;
use crate::fields::LocatedNode;
use crate::middleware::{self, MiddlewareSpec};

use super::body::NodeBodySpec;
use super::fan_out::parse_collects_errors;
use super::parse_name_pairs;

/// Parallel branches as the fixture describes them.
#[derive(Debug, Clone)]
pub(crate) struct ParallelBranchesSpec {
    /// The branches, in order.
    pub(crate) branches: Vec<BranchSpec>,
    /// Whether failures are collected; the first one ends the node otherwise.
    pub(crate) collects_errors: Option<bool>,
    /// Where collected failures go.
    pub(crate) errors: Option<String>,
}

/// One branch.
#[derive(Debug, Clone)]
pub(crate) struct BranchSpec {
    /// Its name.
    pub(crate) name: String,
    /// The subgraph that it runs.
    pub(crate) subgraph: Option<String>,
    /// The function over the parent's state that it runs. That there are both, or neither, is the engine's to refuse.
    pub(crate) call: Option<Box<NodeBodySpec>>,
    /// Its inputs: the subgraph's field, the parent's.
    pub(crate) inputs: Option<Vec<(String, String)>>,
    /// Its outputs: the parent's field, the subgraph's.
    pub(crate) outputs: Option<Vec<(String, String)>>,
    /// Around the whole branch.
    pub(crate) middleware: Vec<MiddlewareSpec>,
    /// The field that, when it is not true, keeps the branch from running.
    pub(crate) when: Option<String>,
    /// Entries that the branch adds to the caller's metadata: the key, the entry of the item around it.
    pub(crate) augments: Vec<(String, String)>,
}

impl BranchSpec {
    /// A branch that is written as a name alone: it runs the graph of that name (observability 048, 055).
    fn of_subgraph(name: String) -> Self {
        Self {
            subgraph: Some(name.clone()),
            name,
            call: None,
            inputs: None,
            outputs: None,
            middleware: Vec::new(),
            when: None,
            augments: Vec::new(),
        }
    }
}

impl ParallelBranchesSpec {
    /// Reads parallel branches.
    ///
    /// # Errors
    /// When the fixture block has an unknown key or value.
    pub(super) fn from_yaml_node(spot: LocatedNode) -> Outcome<Self> {
        let mut block = spot.into_map_reader()?;
        let mut branches = Vec::new();
        let declared = block.take_required("branches")?;
        if let Ok(names) = declared.clone().into_texts() {
            branches.extend(names.into_iter().map(BranchSpec::of_subgraph));
        } else {
            let mut declared = declared.into_map_reader()?;
            while let Some((name, branch)) = declared.take_next_entry() {
                branches.push(parse_branch(name, branch)?);
            }
        }
        let spec = Self {
            branches,
            collects_errors: block
                .take_value("error_policy")
                .map(|value| parse_collects_errors(&value))
                .transpose()?,
            errors: block.take_text("errors_field")?,
        };
        block.reject_remaining_keys()?;
        Ok(spec)
    }
}

fn parse_branch(name: String, spot: LocatedNode) -> Outcome<BranchSpec> {
    let mut block = spot.into_map_reader()?;
    let call = block.take_value("call").map(|value| {
        let mut call = value.into_map_reader()?;
        let body = NodeBodySpec::take_from_block(&mut call)?;
        call.reject_remaining_keys()?;
        Ok(body)
    });
    let when = block.take_value("when").map(|value| {
        let mut when = value.into_map_reader()?;
        let field = when.take_required("field")?.as_text()?.to_owned();
        when.reject_remaining_keys()?;
        Ok(field)
    });
    let spec = BranchSpec {
        name,
        subgraph: block.take_text("subgraph")?,
        call: call.transpose()?.map(Box::new),
        inputs: block.take_value("inputs").map(parse_name_pairs).transpose()?,
        outputs: block.take_value("outputs").map(parse_name_pairs).transpose()?,
        middleware: block
            .take_value("middleware")
            .map(middleware::parse_middleware_list)
            .transpose()?
            .unwrap_or_default(),
        when: when.transpose()?,
        augments: block
            .take_value("augment_metadata_from_outer_item")
            .map(parse_name_pairs)
            .transpose()?
            .unwrap_or_default(),
    };
    block.reject_remaining_keys()?;
    Ok(spec)
}
