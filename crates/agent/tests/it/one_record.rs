//! One retry record for both levels: a node, and a call to a model (llm-provider §7.1).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use singletree_engine::{
    END, Graph, InvokeOptions, NodeError, Retry, RetryBackoff, Snapshot, StateSchema, StateUpdate, Timer,
};
use singletree_llm::{
    BoxFuture, ChatMessage, ConstantRandomSource, ModelRetryPolicy, ProviderCall, Request, Script,
    ScriptedProvider,
};

const CATEGORY: &str = "provider_rate_limit";

/// A timer that records its waits and lets no time pass.
#[derive(Debug, Default)]
struct RecordedWaits(Mutex<Vec<Duration>>);

impl Timer for RecordedWaits {
    fn sleep_for(&self, span: Duration) -> BoxFuture<'_, ()> {
        self.0.lock().unwrap().push(span);
        Box::pin(std::future::ready(()))
    }
}

/// Runs a node that always fails, and returns the waits.
async fn around_a_node(retry: Retry) -> Vec<Duration> {
    let timer = Arc::new(RecordedWaits::default());
    let graph = Graph::<Snapshot>::builder_with(StateSchema::new("s", Vec::new()))
        .node("a", |_| async { Err::<StateUpdate, _>(NodeError::new("slow").with_category(CATEGORY)) })
        .edge("a", END)
        .entry("a")
        .timer(timer.clone())
        .node_middleware("a", retry)
        .compile()
        .unwrap();
    graph.invoke(StateUpdate::new(), InvokeOptions::new()).await.unwrap_err();
    timer.0.lock().unwrap().clone()
}

/// Calls a model that always fails, and returns the waits.
async fn around_a_call(retry: Retry, retry_after_ms: u64) -> Vec<Duration> {
    let error = serde_json::json!({
        "category": CATEGORY, "message": "slow", "retry_after_ms": retry_after_ms });
    let script = serde_json::json!({ "model": "m", "rules": [], "fallback": { "error": error } });
    let provider = ScriptedProvider::new(Script::from_json(&script.to_string()).unwrap());
    let (retry, timer) = (ModelRetryPolicy::from(retry), RecordedWaits::default());
    let request = Request::new(vec![Arc::new(ChatMessage::user("go"))]);
    let highest = ConstantRandomSource::from_fraction(1.0);
    let call = ProviderCall::of(&provider).retrying(&retry, &timer, &highest);
    assert_eq!(call.complete(&request).await.unwrap_err().category(), CATEGORY);
    timer.0.into_inner().unwrap()
}

// spec: llm-provider §7.1: the same record instance as pipeline-utilities §6.1
#[tokio::test]
async fn one_record_serves_a_node_and_a_call() {
    let seconds = Duration::from_secs;
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let hears = Arc::clone(&heard);
    let hearing = Retry::new().backoff(RetryBackoff::Constant(seconds(1))).on_retry(move |error, attempt| {
        hears.lock().unwrap().push(format!("{attempt} {}", error.category().unwrap_or("none")));
        let announced = if attempt == 1 { Err(NodeError::new("enough").into()) } else { Ok(()) };
        Box::pin(async move { announced })
    });
    let growing = RetryBackoff::from_function(|attempt| Duration::from_secs(u64::from(attempt) + 1));
    for (record, waits) in [
        (Retry::new().max_attempts(1), vec![]),
        (Retry::new().classifier(|error, _| error.category() != Some(CATEGORY)), vec![]),
        (Retry::new().max_attempts(4).backoff(growing), vec![seconds(1), seconds(2), seconds(3)]),
        (hearing, vec![seconds(1)]),
    ] {
        assert_eq!(around_a_node(record.clone()).await, waits);
        assert_eq!(around_a_call(record, 20_000).await, waits);
    }
    let once = ["0 provider_rate_limit", "1 provider_rate_limit"];
    assert_eq!(*heard.lock().unwrap(), [once, once].concat());
    // The wait that a provider asks for is known at a call only.
    assert_eq!(around_a_call(Retry::new(), 20_000).await, [seconds(20), seconds(20)]);
}

#[tokio::test]
async fn a_classifier_sees_the_state_around_a_node_and_none_at_a_call() {
    let record = Retry::new()
        .backoff(RetryBackoff::Constant(Duration::from_secs(1)))
        .classifier(|_, state| state.is::<Snapshot>());
    assert_eq!(around_a_node(record.clone()).await.len(), 2);
    assert_eq!(around_a_call(record, 0).await, []);
}
