//! Pauses of an agent inside of containers and subgraphs, answered in another process (suspension §8, INV-2, INV-8).

use std::future::ready;

use serde_json::{Value, json};
use singletree_engine::{
    Branch, Branches, Ctx, END, FailureIsolation, FanOut, FieldContent, FieldShape, FieldSpec, Graph,
    GraphBuilder, NodeResult, Projection, Reducer, Retry, RetryBackoff, Signal, Snapshot, StateSchema,
    StateUpdate,
};
use singletree_harness::{Chat, ChatTurnOutcome, Durability, GraphAgent, MESSAGE_SHAPE};
use singletree_test_store::TestStore;

use crate::bench::{approve, at, check_rows, history, line, user};
use crate::doctor::sound;

type Builder = GraphBuilder<Snapshot>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Site {
    Node,
    FanOut,
    Branches,
}

fn field(name: &'static str, shape: FieldShape, default: Value) -> FieldSpec {
    FieldSpec::new(name, shape, FieldContent::from_json(default))
}

fn fields() -> Vec<FieldSpec> {
    let messages = field("messages", FieldShape::Record(MESSAGE_SHAPE.into()).list(), json!([]));
    vec![
        messages.reducer(Reducer::Append),
        field("approved", FieldShape::Bool, json!(false)),
        field("items", FieldShape::Int.list(), json!([1, 2, 3])),
        field("results", FieldShape::Int.list(), json!([])).reducer(Reducer::Append),
    ]
}

fn over(fields: Vec<FieldSpec>) -> Builder {
    Graph::<Snapshot>::builder_with(StateSchema::new("talk", fields))
}

fn says(text: &str) -> Value {
    json!({"messages": [{"role": "assistant", "content": text}]})
}

fn update(value: Value) -> StateUpdate {
    let Value::Object(map) = value else { panic!("{value}") };
    map.into()
}

fn sets(value: Value) -> impl Fn(Ctx<Snapshot>) -> std::future::Ready<NodeResult<Snapshot>> + Send + Sync {
    move |_| ready(Ok(update(value.clone())))
}

fn read(cx: &Ctx<Snapshot>, name: &str) -> Value {
    cx.snapshot().get(name).unwrap().to_json().unwrap()
}

/// Suspends unless it was approved; then it is this.
async fn gate(cx: Ctx<Snapshot>, completes: bool, value: Value) -> NodeResult<Snapshot> {
    if read(&cx, "approved") == true {
        return Ok(update(value));
    }
    cx.suspend(Signal::new("ok").mark_node_completed(completes)).await
}

/// begin -> site (waits) -> tell, behind so many subgraphs, everything with middleware around it.
fn graph(site: Site, completes: bool, depth: usize) -> Graph<Snapshot> {
    let builder = over(fields()).node("begin", sets(says("begin")));
    let builder = match site {
        Site::Node => builder.node("site", move |cx| gate(cx, completes, json!({"results": [2]}))),
        Site::FanOut => {
            let work = move |cx: Ctx<Snapshot>| async move {
                match read(&cx, "n").as_i64() {
                    Some(2) => gate(cx, completes, json!({"n": 2})).await,
                    _ => Ok(StateUpdate::new()),
                }
            };
            let inner = vec![
                field("n", FieldShape::Int, json!(0)),
                field("approved", FieldShape::Bool, json!(false)),
            ];
            let inner = over(inner).node("work", work).edge("work", END).entry("work").compile().unwrap();
            let fan = FanOut::over(&inner).items("items", "n").input("approved", "approved").concurrency(1);
            builder.fan_out("site", fan.collect("n", "results").instance_middleware(Retry::new()))
        }
        Site::Branches => {
            let set = |n: i64| Branch::new().call(sets(json!({"results": [n]})));
            let waits = Branch::new().call(move |cx| gate(cx, completes, json!({"results": [2]})));
            let waits = waits.middleware(FailureIsolation::new("e", StateUpdate::new()));
            builder
                .branches("site", Branches::new().branch("a", set(1)).branch("b", waits).branch("c", set(3)))
        }
    };
    let tell = |cx: Ctx<Snapshot>| {
        ready(NodeResult::<Snapshot>::Ok(update(says(&read(&cx, "results").to_string()))))
    };
    let builder = builder.node("tell", tell).edge("begin", "site").edge("site", "tell").edge("tell", END);
    let retry = || Retry::new().backoff(RetryBackoff::Constant(std::time::Duration::ZERO));
    let mut builder = builder.entry("begin").node_middleware("site", retry());
    for _ in 0..depth {
        let crossing = Projection::by_name().inputs([("approved", "approved")]);
        let crossing = crossing.outputs([("messages", "messages"), ("results", "results")]);
        let outer = over(fields()).node("pre", sets(says("pre")));
        let outer = outer.subgraph("sub", &builder.compile().unwrap(), crossing).edge("pre", "sub");
        builder = outer.edge("sub", END).entry("pre").node_middleware("sub", retry());
    }
    builder.compile().unwrap()
}

// spec: suspension §8; harness-chat §8
#[tokio::test]
async fn a_pause_inside_of_anything_is_answered_in_another_process() {
    for durability in [Durability::Turn, Durability::Step] {
        for site in [Site::Node, Site::FanOut, Site::Branches] {
            for (completes, depth) in [(true, 0), (false, 0), (true, 2), (false, 2)] {
                let told = format!("{durability:?} {site:?} {completes} {depth}");
                let store = TestStore::new();
                let open = |store: &TestStore| {
                    let agent = GraphAgent::new("a", &graph(site, completes, depth)).durability(durability);
                    Chat::builder().agent(agent).open(store.clone()).unwrap()
                };
                let outcome = open(&store).session("s").send(user("m")).await;
                let ChatTurnOutcome::Suspended(waiting) = &outcome else { panic!("{told}: {outcome:?}") };
                assert_eq!(waiting.signal_descriptor.signal_id, "ok", "{told}");
                let store = store.reopen();
                let chat = open(&store);
                let turn = chat.answer(at("s", "ok"), approve(true)).await.unwrap();
                let results = match (site, completes) {
                    (Site::Node, true) => "[]",
                    (Site::Node, false) => "[2]",
                    (Site::FanOut | Site::Branches, true) => "[1]",
                    (Site::FanOut | Site::Branches, false) => "[1,2,3]",
                };
                // The messages of a subgraph come out with it.
                let inside = if depth > 0 { "a:pre, a:begin, " } else { "" };
                let expected = format!("completed 3.3 [{inside}a:{results}]");
                assert_eq!(line(turn.outcome().await.as_ref()), expected, "{told}");
                let mut said = vec!["u:m".to_owned()];
                said.extend(vec!["a:pre".to_owned(); depth]);
                said.extend(["a:begin".to_owned(), format!("a:{results}")]);
                assert_eq!(history(&chat, "s").await, said, "{told}");
                check_rows(&store, "s").await;
                sound(&store.reopen()).await;
            }
        }
    }
}

// INV-4: an item that leaves a subgraph into two lists of the session is a row in each, although memory shares it.
#[tokio::test]
async fn items_that_two_lists_share_are_stored_in_both() {
    for durability in [Durability::Turn, Durability::Step] {
        let messages = |name| {
            let shape = FieldShape::Record(MESSAGE_SHAPE.into()).list();
            field(name, shape, json!([])).reducer(Reducer::Append)
        };
        let inner = over(vec![messages("messages")]).node("say", sets(says("so")));
        let inner = inner.edge("say", END).entry("say").compile().unwrap();
        let own = |field| Projection::by_name().inputs([("messages", "a")]).outputs([(field, "messages")]);
        let outer = over(vec![messages("messages"), messages("a"), messages("b"), messages("c")])
            .node("begin", sets(json!({"a": [{"role": "user", "content": "ask"}]})))
            .subgraph("first", &inner, own("b"))
            .subgraph("second", &inner, own("c"))
            .edge("begin", "first")
            .edge("first", "second")
            .edge("second", END)
            .entry("begin")
            .compile()
            .unwrap();
        let store = TestStore::new();
        let open =
            |store| Chat::builder().agent(GraphAgent::new("a", &outer).durability(durability)).open(store);
        for text in ["m", "n"] {
            let chat = open(store.clone()).unwrap();
            assert_eq!(
                line(&chat.session("s").send(user(text)).await),
                match text {
                    "m" => "completed 3.1 []",
                    _ => "completed 3.2 []",
                }
            );
        }
        let export = open(store.reopen()).unwrap().session("s").export().await.unwrap();
        let lens: Vec<_> = ["messages", "a", "b", "c"].map(|it| export.lists[it].len()).into();
        assert_eq!(lens, [2, 2, 5, 5], "{durability:?}");
        sound(&store).await;
    }
}
