//! `parallel_branches:` (conformance-adapter §5.4, pipeline-utilities §11).

use crate::failure::{Failure, Outcome};
use crate::fields::Spot;
use crate::middleware::{self, MiddlewareSpec};

use super::body::BodySpec;
use super::fan_out::collects;
use super::pairs;

/// Parallel branches as the fixture describes them.
#[derive(Debug, Clone)]
#[expect(dead_code, reason = "branches are read strictly before the engine has them")]
pub(crate) struct BranchesSpec {
    /// The branches, in order.
    pub(crate) branches: Vec<BranchSpec>,
    /// Whether failures are collected; the first one ends the node otherwise.
    pub(crate) collects_errors: Option<bool>,
    /// Where collected failures go.
    pub(crate) errors: Option<String>,
}

/// One branch.
#[derive(Debug, Clone)]
#[expect(dead_code, reason = "branches are read strictly before the engine has them")]
pub(crate) struct BranchSpec {
    /// Its name.
    pub(crate) name: String,
    /// What it runs.
    pub(crate) runs: BranchRuns,
    /// What it is given: the subgraph's field, the parent's.
    pub(crate) inputs: Option<Vec<(String, String)>>,
    /// What it gives: the parent's field, the subgraph's.
    pub(crate) outputs: Option<Vec<(String, String)>>,
    /// Around the whole branch.
    pub(crate) middleware: Vec<MiddlewareSpec>,
    /// The field that, when it is not true, keeps the branch from running.
    pub(crate) when: Option<String>,
}

/// What a branch runs.
#[derive(Debug, Clone)]
#[expect(dead_code, reason = "branches are read strictly before the engine has them")]
pub(crate) enum BranchRuns {
    /// A subgraph.
    Subgraph(String),
    /// A function over the parent's state.
    Call(Box<BodySpec>),
}

impl BranchesSpec {
    /// Reads parallel branches.
    ///
    /// # Errors
    /// For what is unknown in them.
    pub(super) fn read(spot: Spot) -> Outcome<Self> {
        let mut block = spot.fields()?;
        let mut branches = Vec::new();
        let mut declared = block.need("branches")?.fields()?;
        while let Some((name, it)) = declared.next() {
            branches.push(branch(name, it)?);
        }
        let spec = Self {
            branches,
            collects_errors: block.take("error_policy").map(|it| collects(&it)).transpose()?,
            errors: block.text("errors_field")?,
        };
        block.finish()?;
        Ok(spec)
    }
}

fn branch(name: String, spot: Spot) -> Outcome<BranchSpec> {
    let mut block = spot.fields()?;
    let call = block.take("call").map(|it| {
        let mut call = it.fields()?;
        let body = BodySpec::take(&mut call)?;
        call.finish()?;
        Ok(body)
    });
    let runs = match (block.text("subgraph")?, call.transpose()?) {
        (Some(graph), None) => BranchRuns::Subgraph(graph),
        (None, Some(body)) => BranchRuns::Call(Box::new(body)),
        _ => return Err(Failure::reader(block.path(), "a branch is a subgraph or a call")),
    };
    let when = block.take("when").map(|it| {
        let mut when = it.fields()?;
        let field = when.need("field")?.text()?.to_owned();
        when.finish()?;
        Ok(field)
    });
    let spec = BranchSpec {
        name,
        runs,
        inputs: block.take("inputs").map(pairs).transpose()?,
        outputs: block.take("outputs").map(pairs).transpose()?,
        middleware: block.take("middleware").map(middleware::list).transpose()?.unwrap_or_default(),
        when: when.transpose()?,
    };
    block.finish()?;
    Ok(spec)
}
