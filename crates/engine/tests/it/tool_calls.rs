//! Events about tool executions (graph-engine §6).

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use singletree_durable::{BoxError, BoxFuture};
use singletree_engine::{
    Ctx, END, GraphEvent, InvokeOptions, Observer, Snapshot, StateUpdate, ToolCallScope, ToolExecution,
    ToolRun,
};

use crate::rig::{int, invocation, map, over};

#[derive(Clone, Default)]
struct ToolRecorder(Arc<Mutex<Vec<Value>>>);

impl Observer for ToolRecorder {
    fn observe_event<'a>(&'a self, event: &'a GraphEvent) -> BoxFuture<'a, Result<(), BoxError>> {
        let told = match event {
            GraphEvent::Node(event) => json!(format!("{} {}", event.phase.as_str(), event.node_name)),
            GraphEvent::ToolCall(event) => {
                assert!(event.latency_ms.is_some_and(|latency| latency >= 0.0));
                json!(["returned", execution(&event.execution), event.result])
            }
            GraphEvent::ToolCallFailed(event) => {
                json!(["failed", execution(&event.execution), event.error_type, event.error_message])
            }
            other => panic!("{other:?}"),
        };
        self.0.lock().unwrap().push(told);
        Box::pin(async { Ok(()) })
    }
}

fn execution(of: &ToolExecution) -> Value {
    json!([
        of.call_id.as_ref(),
        of.source.node_name.as_ref(),
        of.source.step,
        of.tool_name,
        of.tool_call_id,
        of.arguments
    ])
}

#[derive(Debug, thiserror::Error)]
#[error("no weather there")]
struct NoWeather;

// spec: graph-engine §6: one event of each execution, and the error goes on; an execution belongs to the node that began
// it, wherever its outcome is known.
#[tokio::test]
async fn each_execution_is_one_event_of_the_node_that_began_it() {
    let arguments = map(json!({"city": "Paris"}));
    let open: Arc<Mutex<Option<ToolCallScope>>> = Arc::default();
    let (begun, ended) = (open.clone(), open);
    let first = move |cx: Ctx<Snapshot>| {
        let (begun, arguments) = (begun.clone(), arguments.clone());
        async move {
            let calls = cx.calls();
            let tool =
                ToolRun { tool_name: "weather", arguments: Some(&arguments), tool_call_id: Some("call-1") };
            let returned =
                calls.run_tool(tool, async { Ok::<_, NoWeather>(20) }, |degrees| json!(degrees)).await;
            assert_eq!(returned.unwrap(), 20);
            let bare = ToolRun { tool_name: "weather", arguments: None, tool_call_id: None };
            let failed = calls.run_tool(bare, async { Err::<(), _>(NoWeather) }, |()| Value::Null).await;
            failed.unwrap_err();
            *begun.lock().unwrap() = Some(calls.begin_tool_call(bare));
            drop(calls.begin_tool_call(bare));
            Ok(StateUpdate::new())
        }
    };
    let second = move |_: Ctx<Snapshot>| {
        let scope = ended.lock().unwrap().take().unwrap();
        scope.complete(|| json!({"late": true}));
        async { Ok(StateUpdate::new()) }
    };
    let builder = over([int("v")]).node("first", first).node("second", second).entry("first");
    let graph = builder.edge("first", "second").edge("second", END).compile().unwrap();
    let seen = ToolRecorder::default();
    let options = InvokeOptions::new().invocation(invocation("i")).observer(seen.clone());
    graph.invoke(StateUpdate::new(), options).await.unwrap();
    graph.drain(None).await.unwrap();
    let error_type = std::any::type_name::<NoWeather>();
    let expected = [
        json!("started first"),
        json!(["returned", ["i:0.0:call-1", "first", 0, "weather", "call-1", {"city": "Paris"}], 20]),
        json!(["failed", ["i:0.0.0", "first", 0, "weather", null, null], error_type, "no weather there"]),
        json!("completed first"),
        json!("started second"),
        json!(["returned", ["i:0.0.1", "first", 0, "weather", null, null], {"late": true}]),
        json!("completed second"),
    ];
    assert_eq!(*seen.0.lock().unwrap(), expected);
}
