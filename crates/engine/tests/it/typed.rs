//! Typed states: the derive, typed nodes, and a pause.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, json};
use singletree_engine::{
    Ctx, CustomReducer, END, FieldContent, Graph, InvokeOptions, Item, NodeResult, PersistentList, Reducer,
    ReducerFault, RunOutcome, SharedList, Signal, StateUpdate,
};
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
    let RunOutcome::Suspended(paused) = graph.invoke(StateUpdate::new(), InvokeOptions::new()).await.unwrap()
    else {
        panic!("it suspends");
    };
    assert_eq!(paused.descriptor.signal_id, "approval");
    assert_eq!(paused.descriptor.metadata, Some(json!({"action": "send_email"})));
    let payload = Map::from_iter([("approved".to_owned(), json!(true))]);
    let id = paused.identity.invocation_id.clone();
    let RunOutcome::Completed(done) = graph.resume(&id, payload, InvokeOptions::new()).await.unwrap() else {
        panic!("it completes");
    };
    assert_eq!((done.state.log, done.state.approved, done.state.tries), (vec!["sent".to_owned()], false, 4));
    assert_eq!(done.identity.invocation_id, id);
    let again = graph.resume(&id, Map::new(), InvokeOptions::new()).await.unwrap_err();
    assert_eq!(again.category(), "suspension_record_invalid");
}

fn largest() -> Reducer {
    Reducer::Custom(Arc::new(Largest))
}

struct Largest;

impl CustomReducer for Largest {
    fn name(&self) -> &'static str {
        "largest"
    }
    fn reduce_update(
        &self,
        prior: &FieldContent,
        update: FieldContent,
    ) -> Result<FieldContent, ReducerFault> {
        let number = |it: &FieldContent| it.to_json().map(|it| it.as_i64());
        Ok(if number(prior)? > number(&update)? { prior.clone() } else { update })
    }
    fn is_round_trip_idempotent(&self) -> Option<bool> {
        Some(true)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Entry {
    id: i64,
    text: String,
}

fn entry(id: i64, text: &str) -> Entry {
    Entry { id, text: text.into() }
}

fn zero() -> SharedList<Entry> {
    PersistentList::new([Item::from_typed(entry(0, "zero"))]).into()
}

#[derive(Debug, State)]
#[state(engine = singletree_engine, version = "2")]
struct Attributes {
    #[state(required)]
    who: String,
    #[state(reducer = largest)]
    peak: i64,
    #[state(merge_by_key = "id")]
    entries: SharedList<Entry>,
    #[state(dedupe_append = "id", default = zero())]
    once: SharedList<Entry>,
    #[state(bounded_append = 2)]
    recent: Vec<i64>,
}

#[tokio::test]
async fn every_attribute_does_what_it_says() {
    let update = || Attributes::update();
    let first = move |_: Ctx<Attributes>| async move {
        let peak = |it: i64| FieldContent::One(Item::from_typed(it));
        Ok(update().peak(peak(5)).peak(peak(3)).entries([entry(1, "a"), entry(2, "b")]).recent([1, 2, 3]))
    };
    let second = move |_: Ctx<Attributes>| async move {
        Ok(update().entries([entry(1, "new")]).once([entry(0, "no"), entry(4, "four")]))
    };
    let builder = Graph::<Attributes>::builder().node("first", first).node("second", second);
    let graph = builder.edge("first", "second").edge("second", END).entry("first").compile().unwrap();
    assert_eq!(graph.schema().version(), "2");
    let missing = graph.invoke(StateUpdate::new(), InvokeOptions::new()).await.unwrap_err();
    assert_eq!(missing.category(), "state_validation_error");
    let RunOutcome::Completed(done) = graph.invoke(update().who("me"), InvokeOptions::new()).await.unwrap()
    else {
        panic!("it completes");
    };
    let plain = |it: &SharedList<Entry>| it.iter().map(|it| (*it).clone()).collect::<Vec<_>>();
    let it = done.state;
    assert_eq!((it.who.as_str(), it.peak, it.recent), ("me", 5, vec![2, 3]));
    assert_eq!(plain(&it.entries), [entry(1, "new"), entry(2, "b")]);
    assert_eq!(plain(&it.once), [entry(0, "zero"), entry(4, "four")]);
}
