//! One retry record for both levels: a node, and a call within it (spec: llm-provider §7.1).

use std::ops::ControlFlow;
use std::sync::Arc;

use futures_util::FutureExt;
use singletree_engine::{NodeError, Snapshot};
use singletree_llm::{Error, ModelRetryBackoff, ModelRetryPolicy};

/// Makes the retry of calls that the engine's [`Retry`](singletree_engine::Retry) describes: as many attempts, the same
/// classifier, waits and callback. Options that only calls have, overrides and reask, are added to the result.
///
/// The classifier is asked with the call's error as a node's, which has its category and words, and with `state`: the
/// state that the node began with, or any other that the classifier understands. A wait with jitter is also as long as
/// the provider asks for, up to a minute, which a node cannot know. A callback that fails ends the attempts, and the
/// call fails with the error that it heard of.
#[must_use]
pub fn call_retry(node: &singletree_engine::Retry, state: Snapshot) -> ModelRetryPolicy {
    let node = Arc::new(node.clone());
    let (classifier, hears) = (Arc::clone(&node), Arc::clone(&node));
    let backoff = match node.waits() {
        singletree_engine::RetryBackoff::Jittered { base, cap } => ModelRetryBackoff::jittered(*base, *cap),
        singletree_engine::RetryBackoff::Constant(wait) => ModelRetryBackoff::Constant(*wait),
        singletree_engine::RetryBackoff::By(wait) => ModelRetryBackoff::By(Arc::clone(wait)),
    };
    ModelRetryPolicy::new()
        .max_attempts(node.attempts())
        .backoff(backoff)
        .classifier(move |error| classifier.is_retryable(&as_of_a_node(error), &state))
        .on_retry(move |error, attempt| {
            let (hears, error) = (Arc::clone(&hears), as_of_a_node(error));
            async move {
                match hears.announce(&error, attempt).await {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(_) => ControlFlow::Break(()),
                }
            }
            .boxed()
        })
}

fn as_of_a_node(error: &Error) -> NodeError {
    NodeError::new(error.to_string()).with_category(error.category())
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use singletree_engine::{END, Graph, InvokeOptions, StateSchema, StateUpdate};
    use singletree_llm::{
        AsyncSleep, BoxFuture, ChatMessage, ProviderCall, Request, Script, ScriptedProvider,
    };

    use super::*;

    #[derive(Debug, Default)]
    struct Pauses(Mutex<Vec<Duration>>);

    impl AsyncSleep for Pauses {
        fn pause(&self, length: Duration) -> BoxFuture<'_, ()> {
            self.0.lock().unwrap().push(length);
            async {}.boxed()
        }
    }

    /// A state: the only one of a graph without fields.
    async fn state() -> Snapshot {
        let graph = Graph::<Snapshot>::builder_with(StateSchema::new("s", Vec::new()))
            .node("a", |_| async { Ok(StateUpdate::new()) })
            .edge("a", END)
            .entry("a")
            .compile()
            .unwrap();
        graph.invoke(StateUpdate::new(), InvokeOptions::new()).await.unwrap().state().clone()
    }

    /// Asks a model that is always down, and returns the category of its error and the waits.
    fn ask(node: &singletree_engine::Retry, state: Snapshot) -> (&'static str, Vec<Duration>) {
        let script = r#"{"model": "m", "rules": [], "fallback": {"error":
            {"category": "provider_rate_limit", "message": "slow", "retry_after_ms": 20000}}}"#;
        let provider = ScriptedProvider::new(Script::from_json(script).unwrap());
        let retry = call_retry(node, state);
        let request = Request::new(vec![Arc::new(ChatMessage::user("go"))]);
        let pauses = Pauses::default();
        let ask = ProviderCall::of(&provider).retrying(&retry, &pauses, &|| 1.0);
        let error = ask.complete(&request).now_or_never().expect("nothing here waits").unwrap_err();
        (error.category(), pauses.0.into_inner().unwrap())
    }

    // spec: llm-provider §7.1: the same record as pipeline-utilities §6.1
    #[tokio::test]
    async fn attempts_waits_classifier_and_callback_are_the_nodes() {
        let seconds = Duration::from_secs;
        let node = singletree_engine::Retry::new;
        let heard = Arc::new(Mutex::new(Vec::new()));
        let hears = Arc::clone(&heard);
        let hearing = node().backoff(singletree_engine::RetryBackoff::Constant(seconds(1))).on_retry(
            move |error, attempt| {
                hears.lock().unwrap().push(format!("{attempt} {}", error.category().unwrap_or("none")));
                let ends = attempt == 1;
                async move { if ends { Err(NodeError::new("enough")) } else { Ok(()) } }.boxed()
            },
        );
        for (node, waits) in [
            (node(), vec![seconds(20), seconds(20)]),
            (node().max_attempts(1), vec![]),
            (node().classifier(|error, _| error.category() != Some("provider_rate_limit")), vec![]),
            (
                node().max_attempts(4).backoff(singletree_engine::RetryBackoff::by(|it| {
                    Duration::from_secs(u64::from(it) + 1)
                })),
                vec![seconds(1), seconds(2), seconds(3)],
            ),
            (hearing, vec![seconds(1)]),
        ] {
            assert_eq!(ask(&node, state().await), ("provider_rate_limit", waits));
        }
        assert_eq!(*heard.lock().unwrap(), ["0 provider_rate_limit", "1 provider_rate_limit"]);
    }
}
