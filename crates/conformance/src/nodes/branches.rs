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
}

impl ParallelBranchesSpec {
    /// Reads parallel branches.
    ///
    /// # Errors
    /// When the fixture block has an unknown key or value.
    pub(super) fn from_yaml_node(spot: LocatedNode) -> Outcome<Self> {
        let mut block = spot.into_map_reader()?;
        let mut branches = Vec::new();
        let mut declared = block.take_required("branches")?.into_map_reader()?;
        while let Some((name, it)) = declared.take_next_entry() {
            branches.push(parse_branch(name, it)?);
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
    };
    block.reject_remaining_keys()?;
    Ok(spec)
}
