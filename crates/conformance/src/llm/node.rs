//! A call in a graph of one node, under the engine's own retry (pipeline-utilities §6.1).

use std::sync::{Arc, Mutex, PoisonError};

use singletree::engine::{END, Graph, InvokeOptions, NodeError, Retry, Snapshot, StateSchema, StateUpdate};
use singletree::llm::{Error, Provider, Request, Response};
use singletree_providers::HttpProvider;

use crate::failure::{CaseFailure, Outcome};

const NODE: &str = "call";

/// Makes a call in a node that is tried so often at most.
///
/// # Errors
/// When the graph cannot be built, or fails otherwise than its node.
pub(super) async fn complete_in_node(
    provider: &Arc<HttpProvider>,
    request: &Request,
    attempts: u32,
) -> Outcome<Result<Response, Error>> {
    let failed = |it: String| CaseFailure::build_error("retry_middleware", it);
    let ended: Arc<Mutex<Option<Result<Response, Error>>>> = Arc::default();
    let (provider, request, keeps) = (provider.clone(), Arc::new(request.clone()), ended.clone());
    let body = move |_| {
        let (provider, request, keeps) = (provider.clone(), request.clone(), keeps.clone());
        async move {
            let outcome = provider.complete(&request).await;
            let told = match &outcome {
                Ok(_) => Ok(StateUpdate::new()),
                Err(error) => Err(NodeError::new(error.to_string()).with_category(error.category())),
            };
            *keeps.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
            told
        }
    };
    let graph = Graph::<Snapshot>::builder_with(StateSchema::new("call", Vec::new()))
        .node(NODE, body)
        .edge(NODE, END)
        .entry(NODE)
        .node_middleware(NODE, Retry::new().max_attempts(attempts))
        .compile()
        .map_err(|error| failed(error.to_string()))?;
    let invoked = graph.invoke(StateUpdate::new(), InvokeOptions::new()).await;
    let ended = ended.lock().unwrap_or_else(PoisonError::into_inner).take();
    match (invoked, ended) {
        (Ok(_), Some(Ok(response))) => Ok(Ok(response)),
        (Err(error), Some(Err(cause))) if error.derived_category() == cause.category() => Ok(Err(cause)),
        (invoked, _) => Err(failed(format!("the graph ended otherwise than its node: {invoked:?}"))),
    }
}
