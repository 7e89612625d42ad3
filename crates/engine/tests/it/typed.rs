//! Typed states: the derive, typed nodes, and a pause.

use serde_json::{Map, json};
use singletree_engine::{Ctx, END, Graph, InvokeOptions, NodeResult, Outcome, Signal, Update};
use singletree_macros::State;

#[derive(Debug, State)]
#[state(engine = singletree_engine)]
struct Support {
    #[state(append)]
    log: Vec<String>,
    approved: bool,
    #[state(default = 3)]
    tries: i64,
}

async fn gate(cx: Ctx<Support>) -> NodeResult<Support> {
    cx.suspend(Signal::new("approval").with("action", "send_email")).await
}

async fn send(cx: Ctx<Support>) -> NodeResult<Support> {
    let word = if cx.state().approved { "sent" } else { "not sent" };
    Ok(Support::update().approved(false).log([word]).tries(cx.state().tries + 1))
}

fn graph() -> Graph<Support> {
    let builder = Graph::<Support>::builder().node("gate", gate).node("send", send);
    builder.edge("gate", "send").edge("send", END).entry("gate").compile().unwrap()
}

// spec: suspension §3, §6, §7
#[tokio::test]
async fn a_typed_graph_pauses_and_goes_on_with_the_payload() {
    let graph = graph();
    let Outcome::Suspended(paused) = graph.invoke(Update::new(), InvokeOptions::new()).await.unwrap() else {
        panic!("it suspends");
    };
    assert_eq!(paused.descriptor.signal_id, "approval");
    assert_eq!(paused.descriptor.metadata, Some(json!({"action": "send_email"})));
    let payload = Map::from_iter([("approved".to_owned(), json!(true))]);
    let id = paused.identity.invocation_id.clone();
    let Outcome::Completed(done) = graph.resume(&id, payload, InvokeOptions::new()).await.unwrap() else {
        panic!("it completes");
    };
    assert_eq!((done.state.log, done.state.approved, done.state.tries), (vec!["sent".to_owned()], false, 4));
    assert_eq!(done.identity.invocation_id, id);
    let again = graph.resume(&id, Map::new(), InvokeOptions::new()).await.unwrap_err();
    assert_eq!(again.category(), "suspension_record_invalid");
}
