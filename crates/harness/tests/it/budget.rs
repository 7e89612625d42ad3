//! The budgets of turns and sessions (D13).

use std::sync::Arc;
use std::time::Duration;

use singletree_engine::{Ctx, END, Graph, Signal, Target};
use singletree_harness::{
    Budget, Chat, ChatTurnOutcome, Durability, FailureBucket, Limits, TurnContext, WhileSuspended,
};
use singletree_llm::ChatMessage;
use singletree_store_testing::{FailedWriteEffect, FaultInjectingStore};
use singletree_test_store::TestStore;

use crate::bench::{
    Log, Talk, agent, approve, asking, at, chain, chat_of, check_rows, gate, history, key, line, plain, say,
    says, user,
};

const LEVELS: [Durability; 2] = [Durability::Turn, Durability::Step];

/// Goes round three times; each time it uses 10 tokens and makes two calls.
fn rounds(swallows: bool) -> Graph<Talk> {
    Graph::<Talk>::builder()
        .node("use", move |cx: Ctx<Talk>| async move {
            let turn = TurnContext::of(&cx).unwrap();
            let budget = turn.budget();
            for used in [budget.count_tokens(10), budget.count_tool_calls(2)] {
                if !swallows {
                    used?;
                }
            }
            Ok(Talk::update().count(cx.state().count + 1).messages([ChatMessage::assistant("used")]))
        })
        .node("end", |_: Ctx<Talk>| async { Ok(Talk::update().count(0)) })
        .conditional_edge("use", |it: &Talk| if it.count < 3 { Target::from("use") } else { "end".into() })
        .edge("end", END)
        .entry("use")
        .compile()
        .unwrap()
}

fn exhausted(outcome: &ChatTurnOutcome) -> &str {
    let ChatTurnOutcome::Errored(errored) = outcome else { panic!("{outcome:?}") };
    assert_eq!(errored.error_category, "chat_budget_exhausted");
    assert_eq!((errored.error_bucket, errored.retry_safe), (FailureBucket::UserCorrectable, false));
    let told = errored.diagnostic.split("the budget ").nth(1).unwrap();
    assert!(errored.reply.text().contains(told), "{errored:?}");
    told
}

// D13, D11
#[tokio::test]
async fn what_a_turn_uses_beyond_its_budget_ends_it_and_says_which() {
    let none = Budget::default();
    for (budget, told) in [
        (Budget { steps: Some(4), tokens: Some(30), tool_calls: Some(6), ..none }, None),
        (Budget { steps: Some(3), ..none }, Some("steps of 3 is exhausted: the turn came to 4")),
        (Budget { tokens: Some(29), ..none }, Some("tokens of 29 is exhausted: the turn came to 30")),
        (Budget { tool_calls: Some(3), ..none }, Some("tool_calls of 3 is exhausted: the turn came to 4")),
        (Budget { messages: Some(4), ..none }, None),
        (Budget { messages: Some(3), ..none }, Some("messages of 3 is exhausted: the turn came to 4")),
        // One message of 29 bytes, three of 37.
        (Budget { history_bytes: Some(140), ..none }, None),
        (
            Budget { history_bytes: Some(139), ..none },
            Some("history_bytes of 139 is exhausted: the turn came to 140"),
        ),
        (
            Budget { history_bytes: Some(28), ..none },
            Some("history_bytes of 28 is exhausted: the turn came to 29"),
        ),
    ] {
        for durability in LEVELS {
            for swallows in [false, true] {
                let store = TestStore::new();
                let agent = agent(&rounds(swallows), durability).budget(budget);
                let chat = Chat::builder().agent(agent).open(store.clone()).unwrap();
                let outcome = chat.session("s").send(user("m")).await;
                match told {
                    None => assert_eq!(line(&outcome), "completed 3.1 [a:used, a:used, a:used]"),
                    Some(told) => {
                        assert_eq!(exhausted(&outcome), told, "{budget:?}");
                        assert_eq!(history(&chat, "s").await, Vec::<String>::new());
                    }
                }
                check_rows(&store, "s").await;
            }
        }
    }
}

// D13: the chat's limits are the outer bound.
#[tokio::test]
async fn an_agent_may_not_use_more_than_the_chat_allows() {
    let limits = Limits { tokens: 20, ..Limits::default() };
    let generous = Budget { tokens: Some(1000), ..Budget::default() };
    let agent = agent(&rounds(false), Durability::Step).budget(generous);
    let chat = Chat::builder().agent(agent).limits(limits).open(TestStore::new()).unwrap();
    let outcome = chat.session("s").send(user("m")).await;
    assert_eq!(exhausted(&outcome), "tokens of 20 is exhausted: the turn came to 30");
}

// D13: at level step nothing is counted twice and nothing is forgotten, wherever the process dies.
#[tokio::test(start_paused = true)]
async fn a_turn_that_goes_on_after_a_crash_goes_on_counting() {
    for (budget, completes) in [
        (Budget { steps: Some(4), tokens: Some(30), tool_calls: Some(6), ..Budget::default() }, true),
        (Budget { steps: Some(3), ..Budget::default() }, false),
        (Budget { tokens: Some(29), ..Budget::default() }, false),
        (Budget { tool_calls: Some(5), ..Budget::default() }, false),
    ] {
        let mut reached = 0;
        for n in 1.. {
            let mut fired = false;
            for land in [FailedWriteEffect::Before, FailedWriteEffect::After] {
                let store = TestStore::new();
                let failing = Arc::new(FaultInjectingStore::new(Arc::new(store.clone()), n, land));
                let build = || Chat::builder().agent(agent(&rounds(false), Durability::Step).budget(budget));
                let dying = build().open_shared(failing.clone(), failing.clone()).unwrap();
                drop(
                    tokio::time::timeout(
                        Duration::from_secs(60),
                        dying.session("s").send_with(user("m"), key("k")),
                    )
                    .await,
                );
                let after = store.reopen();
                dying.shutdown(Duration::from_secs(5)).await;
                let chat = build().open(after.clone()).unwrap();
                let outcome = chat.session("s").send_with(user("m"), key("k")).await;
                let place = format!("{budget:?}, write {n}, {land:?}: {outcome:?}");
                assert_eq!(outcome.as_str() == "completed", completes, "{place}");
                if !completes {
                    exhausted(&outcome);
                }
                check_rows(&after, "s").await;
                fired |= failing.fired();
            }
            if !fired {
                break;
            }
            reached = n;
        }
        assert!(reached >= 4, "{reached} writes");
    }
}

// D13: a record in the middle of a node does not make the node's usage count twice.
#[tokio::test(start_paused = true)]
async fn what_is_used_before_a_record_is_not_counted_twice() {
    let build = || {
        let builder = Graph::builder().node("n", |cx: Ctx<Talk>| async move {
            TurnContext::of(&cx).unwrap().budget().count_tokens(10)?;
            cx.record("fact", singletree_engine::Item::from_json(serde_json::json!(1))).await?;
            Ok(says("so"))
        });
        let agent = agent(&chain(builder, &["n"]), Durability::Step);
        Chat::builder().agent(agent.budget(Budget { tokens: Some(10), ..Budget::default() }))
    };
    let store = TestStore::new();
    // Accept, record, end.
    let failing = Arc::new(FaultInjectingStore::new(Arc::new(store.clone()), 3, FailedWriteEffect::Before));
    let dying = build().open_shared(failing.clone(), failing.clone()).unwrap();
    drop(
        tokio::time::timeout(Duration::from_secs(60), dying.session("s").send_with(user("m"), key("k")))
            .await,
    );
    let after = store.reopen();
    dying.shutdown(Duration::from_secs(5)).await;
    assert!(failing.fired());
    let chat = build().open(after).unwrap();
    assert_eq!(line(&chat.session("s").send_with(user("m"), key("k")).await), "completed 3.1 [a:so]");
}

// D13: per turn, which is one run in answer to one message or one signal.
#[tokio::test]
async fn every_turn_begins_at_zero() {
    let log = Log::default();
    let graph = asking(&log, Signal::new("ok"));
    let agent = agent(&graph, Durability::Step).budget(Budget { steps: Some(2), ..Budget::default() });
    let chat = Chat::builder().agent(agent).open(TestStore::new()).unwrap();
    // Two nodes before the wait, one after it.
    assert_eq!(line(&chat.session("s").send(user("m")).await), "suspended 3.1 ok [a:ask]");
    let resumed = chat.answer(at("s", "ok"), approve(true)).await.unwrap();
    assert_eq!(line(resumed.outcome().await.as_ref()), "completed 3.3 [a:done]");
    assert_eq!(log.all(), ["ask", "gate", "act"]);
}

// D13, D8
#[tokio::test]
async fn a_suspension_beyond_the_budget_does_not_happen() {
    for budget in
        [Budget { messages: Some(1), ..Budget::default() }, Budget { tokens: Some(1), ..Budget::default() }]
    {
        let log = Log::default();
        let builder = Graph::builder().node("use", |cx: Ctx<Talk>| async move {
            drop(TurnContext::of(&cx).unwrap().budget().count_tokens(2));
            Ok(says("used"))
        });
        let graph = chain(gate(builder, &log, Signal::new("ok")), &["use", "gate"]);
        let store = TestStore::new();
        let agent = agent(&graph, Durability::Turn).budget(budget);
        let chat = Chat::builder().agent(agent).open(store.clone()).unwrap();
        exhausted(&chat.session("s").send(user("m")).await);
        assert_eq!(chat.pending(9).await.unwrap(), []);
        check_rows(&store, "s").await;
    }
}

// D13: the count of a session outlives the process, and is kept without reading the history.
#[tokio::test]
async fn a_session_that_is_full_takes_no_more_and_stays_readable() {
    let store = TestStore::new();
    let build = |store| {
        let agent = agent(&plain(&Log::default()), Durability::Turn);
        let agent = agent.budget(Budget { messages: Some(5), ..Budget::default() });
        Chat::builder().agent(agent).open(store).unwrap()
    };
    let mut chat = build(store.clone());
    for path in ["3.1", "3.2"] {
        assert_eq!(line(&chat.session("s").send(user("m")).await), format!("completed {path} [a:hello]"));
    }
    for _ in 0..2 {
        let outcome = chat.session("s").send(user("m")).await;
        assert_eq!(exhausted(&outcome), "messages of 5 is exhausted: the turn came to 6");
        assert_eq!(history(&chat, "s").await.len(), 4);
        chat = build(store.reopen());
    }
}

// D13, D8: a transition that ends a wait closes its calls, however full the session is.
#[tokio::test]
async fn calls_are_closed_in_a_session_that_is_full() {
    let store = TestStore::new();
    let graph = crate::bench::calling(&Log::default(), Signal::new("ok"));
    let agent = agent(&graph, Durability::Step).while_suspended(WhileSuspended::Supersede);
    let agent = agent.budget(Budget { messages: Some(2), ..Budget::default() });
    let chat = Chat::builder().agent(agent).open(store.clone()).unwrap();
    assert_eq!(line(&chat.session("s").send(user("m")).await), "suspended 3.1 ok [a:(c1)]");
    let resumed = chat.answer(at("s", "ok"), approve(true)).await.unwrap();
    exhausted(resumed.outcome().await.as_ref());
    let closing = r#"t:c1={"reason":"chat_budget_exhausted","status":"failed"}"#;
    assert_eq!(history(&chat, "s").await, ["u:m", "a:(c1)", closing]);
    check_rows(&store, "s").await;
}

// D13: the time limit covers the turn's own time, without its waits, across processes.
#[tokio::test(start_paused = true)]
async fn the_time_of_a_turn_that_died_counts() {
    let build = || {
        let builder = say(Graph::builder(), &Log::default(), "one");
        let builder = builder.node("slow", |_: Ctx<Talk>| async {
            tokio::time::sleep(Duration::from_secs(6)).await;
            Ok(says("slow"))
        });
        let builder = builder.node("slower", |_: Ctx<Talk>| async {
            tokio::time::sleep(Duration::from_secs(6)).await;
            Ok(says("slower"))
        });
        let limits = Limits { turn_time: Duration::from_secs(10), ..Limits::default() };
        chat_of(&chain(builder, &["one", "slow", "slower"])).limits(limits)
    };
    let store = TestStore::new();
    // Accept, one, slow, end.
    let failing = Arc::new(FaultInjectingStore::new(Arc::new(store.clone()), 4, FailedWriteEffect::Before));
    let dying = build().open_shared(failing.clone(), failing.clone()).unwrap();
    let turn = dying.session("s").submit(user("m"), key("k")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(7)).await;
    dying.shutdown(Duration::ZERO).await;
    let chat = build().open(store.reopen()).unwrap();
    let begun = tokio::time::Instant::now();
    chat.sweep().await.unwrap();
    let outcome = chat.turn(turn.id()).await.unwrap().outcome().await;
    assert_eq!(exhausted(&outcome), "turn_time of 10 is exhausted: the turn came to 10");
    assert_eq!(begun.elapsed(), Duration::from_secs(4), "six of the ten seconds had gone by");
}

// INV-12: the rows that a turn leaves in the store beside the history are bounded, too.
#[tokio::test]
async fn records_waits_and_positions_are_bounded() {
    let long = "x".repeat(600);
    let small = |record_bytes, wait_bytes, position_bytes| Limits {
        record_bytes,
        wait_bytes,
        position_bytes,
        ..Limits::default()
    };
    for (what, limits, told) in [
        ("record", small(500, 900, 900), "record_bytes of 500 is exhausted: the turn came to 602"),
        ("records", small(500, 900, 900), "record_bytes of 500 is exhausted: the turn came to 502"),
        ("wait", small(500, 500, 900), "wait_bytes of 500 is exhausted: the turn came to 613"),
        // The position contains the awaited signal, too.
        ("wait", small(500, 900, 600), "position_bytes of 600 is exhausted: the turn came to "),
    ] {
        let text = long.clone();
        let builder = Graph::builder().node("n", move |cx: Ctx<Talk>| {
            let text = text.clone();
            async move {
                let item = |text: &str| singletree_engine::Item::from_json(serde_json::json!(text));
                match what {
                    "record" => cx.record("a", item(&text)).await?,
                    "records" => {
                        cx.record("a", item(&text[..250])).await?;
                        cx.record("b", item(&text[..248])).await?;
                    }
                    _ => return cx.suspend(Signal::new("ok").with("what", text)).await,
                }
                Ok(says("x"))
            }
        });
        let graph = chain(say(builder, &Log::default(), "end"), &["n", "end"]);
        let store = TestStore::new();
        let chat = chat_of(&graph).limits(limits).open(store.clone()).unwrap();
        let outcome = chat.session("s").send(user("m")).await;
        assert!(exhausted(&outcome).starts_with(told), "{what}: {outcome:?}");
        check_rows(&store, "s").await;
    }
}

// INV-12: a message that is shown without end is not held without end.
#[tokio::test]
async fn what_is_shown_of_a_message_is_bounded() {
    let door = crate::bench::Door::shut();
    let at_door = door.clone();
    let builder = Graph::builder().node("n", move |cx: Ctx<Talk>| {
        let door = at_door.clone();
        async move {
            let turn = TurnContext::of(&cx).unwrap();
            let stream = turn.stream();
            let message = stream.begin_message(cx.state().messages.len());
            for piece in ["abc", "def", "ghij", "k"] {
                message.show_text_piece(piece);
            }
            door.pass().await;
            Ok(says("never"))
        }
    });
    let limits = Limits { shown_bytes: 8, ..Limits::default() };
    let chat = chat_of(&chain(builder, &["n"])).limits(limits).open(TestStore::new()).unwrap();
    let turn = chat.session("s").submit(user("m"), key("k")).await.unwrap();
    door.somebody().await;
    chat.cancel(turn.id()).await.unwrap().outcome().await;
    assert_eq!(history(&chat, "s").await, ["u:m", "a:abcdef"]);
}

// INV-12
#[tokio::test]
async fn a_document_with_too_long_a_history_is_not_imported() {
    let build = |limits| chat_of(&plain(&Log::default())).limits(limits).open(TestStore::new()).unwrap();
    let chat = build(Limits::default());
    chat.session("s").send(user("m")).await;
    let export = chat.session("s").export().await.unwrap();
    for (limits, taken) in [
        (Limits { messages: 2, ..Limits::default() }, true),
        (Limits { messages: 1, ..Limits::default() }, false),
        (Limits { history_bytes: 60, ..Limits::default() }, false),
    ] {
        let other = build(limits);
        let imported = other.import_session(export.clone(), None).await;
        assert_eq!(
            imported.map_err(|it| it.category().to_owned()),
            if taken { Ok(()) } else { Err("chat_budget_exhausted".into()) }
        );
        assert_eq!(history(&other, "s").await.len(), if taken { 2 } else { 0 });
    }
}

// D13, D12: a fork counts its own bytes, wherever it was cut.
#[tokio::test]
async fn a_fork_has_the_bytes_of_its_own_history() {
    use singletree_durable::{FieldValue, ItemRange, Journal};
    let store = TestStore::new();
    let chat = chat_of(&plain(&Log::default())).open(store.clone()).unwrap();
    for text in ["a", "bb", "ccc"] {
        chat.session("s").send(user(text)).await;
    }
    for offset in 0..=6 {
        let id = format!("f{offset}");
        let options = singletree_harness::ForkOptions::new().at(offset).session(id.as_str());
        chat.session("s").fork(options).await.unwrap();
        let row = store.read_session(&crate::bench::name(&id)).await.unwrap().unwrap();
        let kept = row.fields.into_iter().find(|it| it.name == "messages").map(|it| it.value);
        let range = ItemRange::List { field: "messages".into(), generation: 0, from: 0, limit: 9 };
        let items = store.read_items(&crate::bench::name(&id), &range).await.unwrap();
        let bytes = items.iter().map(|it| it.body.as_str().len() as u64).sum();
        let expected = (offset > 0).then_some(FieldValue::List { generation: 0, len: offset, bytes });
        assert_eq!(kept, expected, "cut at {offset}");
    }
}
