//! `parallel_branches:` (conformance-adapter §5.4, pipeline-utilities §11).

use crate::failure::Outcome;
use crate::fields::LocatedNode;
use crate::middleware::{self, MiddlewareSpec};

use super::body::NodeBodySpec;
use super::fan_out::collects;
use super::pairs;

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
    pub(super) fn read(spot: LocatedNode) -> Outcome<Self> {
        let mut block = spot.fields()?;
        let mut branches = Vec::new();
        let mut declared = block.need("branches")?.fields()?;
        while let Some((name, it)) = declared.next() {
            branches.push(branch(name, it)?);
        }
        let spec = Self {
            branches,
            collects_errors: block.take("error_policy").map(|value| collects(&value)).transpose()?,
            errors: block.text("errors_field")?,
        };
        block.finish()?;
        Ok(spec)
    }
}

fn branch(name: String, spot: LocatedNode) -> Outcome<BranchSpec> {
    let mut block = spot.fields()?;
    let call = block.take("call").map(|value| {
        let mut call = value.fields()?;
        let body = NodeBodySpec::take(&mut call)?;
        call.finish()?;
        Ok(body)
    });
    let when = block.take("when").map(|value| {
        let mut when = value.fields()?;
        let field = when.need("field")?.text()?.to_owned();
        when.finish()?;
        Ok(field)
    });
    let spec = BranchSpec {
        name,
        subgraph: block.text("subgraph")?,
        call: call.transpose()?.map(Box::new),
        inputs: block.take("inputs").map(pairs).transpose()?,
        outputs: block.take("outputs").map(pairs).transpose()?,
        middleware: block.take("middleware").map(middleware::list).transpose()?.unwrap_or_default(),
        when: when.transpose()?,
    };
    block.finish()?;
    Ok(spec)
}
