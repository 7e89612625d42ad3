//! Calls to models (llm-provider): a real provider, and a server that is a script.
//!
//! The provider is the crates' own, over a transport that keeps the bytes of each request and sends the answers of
//! the case. A call is made as an application makes it, by `ProviderCall`; a call under `retry_middleware` in a graph of one
//! node, by the engine's own retry.

mod attempts;
mod call;
mod calling;
mod expect;
mod graph_model;
mod invariants;
mod node;
mod observed;
mod peer;
mod rules;
mod spec;
mod streamed;
mod tried;
mod values;
mod wire;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::case::UnparsedCase;
use crate::check::AssertionChecker;
use crate::failure::{CaseFailure, Outcome};

pub(crate) use graph_model::{GraphModel, GraphModelSpec, ModelCallSpec, RenderedPrompt};

use calling::ProviderCallResult;
use peer::MockProviderServer;
use spec::LlmCaseSpec;

/// Reads and runs a case of llm-provider.
///
/// # Errors
/// When the case has an unknown key or value, or cannot be built.
pub(crate) async fn run_llm_case(case: UnparsedCase, checker: &mut AssertionChecker) -> Outcome<()> {
    let case = LlmCaseSpec::from_case(case)?;
    let peer = Arc::new(MockProviderServer::new(case.mapping, case.answers.clone(), case.health.clone()));
    let provider = Arc::new(case.build_provider(peer.clone())?);
    let mut all = Vec::new();
    for spec in &case.calls {
        let called = calling::run_provider_call(spec, &provider, &peer).await?;
        expect::check_call(checker, spec, case.mapping, &called)?;
        all.push(called);
    }
    if let Some(identical) = case.identical {
        wire::check_identical_requests(checker, identical, &all)?;
    }
    for block in case.invariants {
        let subjects: Vec<&ProviderCallResult> = all.iter().collect();
        invariants::check_invariants(checker, block, &subjects);
    }
    // Last, so that the call's own failures come before these complaints.
    for complaint in peer.complaints() {
        checker.failures.push(CaseFailure::assertion_error("mock_provider", complaint));
    }
    Ok(())
}
