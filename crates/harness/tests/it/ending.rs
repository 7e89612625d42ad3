//! How turns end: outcomes, buckets, tails, closings, cancel (harness-chat §5 to §10, D6, D8, D10, D11, D13, INV-6).

use std::sync::Arc;
use std::time::Duration;

use singletree_durable::{ItemRange, Journal};
use singletree_engine::{Ctx, Graph, NodeError, SessionShape, Signal};
use singletree_harness::{
    BucketTable, Chat, ChatTurnOutcome, Durability, ErrorReplies, FailureBucket, Limits, TurnContext,
    WhileSuspended,
};
use singletree_llm::ChatMessage;
use singletree_test_store::TestStore;

use crate::bench::{
    Door, Log, Talk, TokioClock, agent, approve, asking, at, called, calling, category, chain, chat_of,
    check_rows, history, key, line, name, plain, say, says, user,
};

const LEVELS: [Durability; 2] = [Durability::Turn, Durability::Step];

// spec: harness-chat §7
#[tokio::test]
async fn replies_are_all_that_the_turn_added_in_order_whatever_their_role() {
    for durability in LEVELS {
        let builder = Graph::builder().node("call", |_: Ctx<Talk>| async { Ok(called("c")) });
        let builder = builder.node("tool", |_: Ctx<Talk>| async {
            Ok(Talk::update().messages([ChatMessage::tool("c", "4"), ChatMessage::system("note")]))
        });
        // Equal to the user's own message but for the role, and to its own earlier one.
        let builder = builder.node("echo", |_: Ctx<Talk>| async {
            Ok(Talk::update().messages([ChatMessage::user("hi"), ChatMessage::assistant("hi")]))
        });
        let graph = chain(builder, &["call", "tool", "echo"]);
        let store = TestStore::new();
        let chat = Chat::builder().agent(agent(&graph, durability)).open(store.clone()).unwrap();
        let tail = "a:(c), t:c=4, s:note, u:hi, a:hi";
        for (path, sent) in [("3.1", "k1"), ("3.2", "k2")] {
            let outcome = chat.session("s").send_with(user("hi"), key(sent)).await;
            assert_eq!(line(&outcome), format!("completed {path} [{tail}]"));
            let ChatTurnOutcome::Completed(done) = outcome else { panic!() };
            let state = done.final_state.unwrap();
            assert_eq!(state.get("count").unwrap().to_json().unwrap(), 0);
            let stored = chat.session("s").send_with(user("hi"), key(sent)).await;
            assert_eq!(line(&stored), format!("completed {path} [{tail}]"), "read back");
        }
        assert_eq!(history(&chat, "s").await.len(), 12);
        check_rows(&store, "s").await;
    }
}

// spec: harness-chat §7: an empty tail is a completed turn.
#[tokio::test]
async fn a_turn_that_adds_nothing_completes_with_no_replies() {
    let builder = Graph::builder().node("n", |_: Ctx<Talk>| async { Ok(Talk::update().count(1)) });
    let chat = chat_of(&chain(builder, &["n"])).open(TestStore::new()).unwrap();
    assert_eq!(line(&chat.session("s").send(user("m")).await), "completed 3.1 []");
    assert_eq!(line(&chat.session("s").send(user("m")).await), "completed 3.2 []");
}

fn failing(category: &'static str) -> Graph<Talk> {
    let builder = say(Graph::builder(), &Log::default(), "made").node("n", move |_: Ctx<Talk>| async move {
        Err(NodeError::new("the key sk-1 is bad").with_category(category))
    });
    chain(builder, &["made", "n"])
}

// spec: harness-chat §10; D11, D14, D15
#[tokio::test]
async fn errors_come_in_three_buckets_with_texts_and_add_nothing() {
    let replies = ErrorReplies {
        retryable_transient: "later".into(),
        redact: Arc::new(|it| it.replace("sk-1", "***")),
        ..ErrorReplies::default()
    };
    let buckets = BucketTable::default().with_override("mine", FailureBucket::SessionTerminating);
    for (category, bucket, retry_safe, text) in [
        ("provider_rate_limit", "retryable_transient", true, "later"),
        ("what_is_this", "retryable_transient", false, "later"),
        ("mine", "session_terminating", false, "This conversation can't continue. Please start a new one."),
        (
            "provider_invalid_request",
            "user_correctable",
            false,
            "That request couldn't be processed: the key *** is bad. Please adjust your message and try again.",
        ),
    ] {
        for durability in LEVELS {
            let store = TestStore::new();
            let agent =
                agent(&failing(category), durability).replies(replies.clone()).buckets(buckets.clone());
            let chat = Chat::builder().agent(agent).open(store.clone()).unwrap();
            let outcome = chat.session("s").send(user("m")).await;
            let ChatTurnOutcome::Errored(it) = &outcome else { panic!("{outcome:?}") };
            let seen = (it.error_category.as_str(), it.error_bucket.as_str(), it.retry_safe, it.recorded);
            assert_eq!(seen, (category, bucket, retry_safe, true));
            assert_eq!((it.reply.role.as_str(), it.reply.text().as_ref()), ("system", text));
            assert_eq!(history(&chat, "s").await, Vec::<String>::new());
            // The turn's record keeps its message and the messages that its nodes made (D11).
            let made = store.read_items(&name("s"), &ItemRange::Turn(0)).await.unwrap();
            assert_eq!(made.len(), 2);
            assert!(made.iter().all(|it| it.placement.is_none()));
            assert_eq!(
                chat.turn(it.turn.as_ref().unwrap()).await.unwrap().outcome().await.as_ref(),
                &outcome
            );
            check_rows(&store, "s").await;
        }
    }
}

// D8, INV-6
#[tokio::test]
async fn open_calls_are_closed_before_the_next_message() {
    let builder = Graph::builder().node("n", |_: Ctx<Talk>| async { Ok(called("c")) });
    let chat = chat_of(&chain(builder, &["n"])).open(TestStore::new()).unwrap();
    chat.session("s").send(user("m")).await;
    assert_eq!(line(&chat.session("s").send(user("n")).await), "completed 3.2 [a:(c)]");
    let history = history(&chat, "s").await;
    let closing =
        "t:c={\"reason\":\"the turn that called this ended before it answered\",\"status\":\"unknown\"}";
    assert_eq!(history, ["u:m", "a:(c)", closing, "u:n", "a:(c)"]);
}

// D8: failure after a suspension, cancel, expiry.
#[tokio::test(start_paused = true)]
async fn who_ends_an_invocation_early_closes_its_calls() {
    let minute = Duration::from_secs(60);
    for (how, told, closing) in [
        ("fail", "provider_unavailable", r#"{"reason":"provider_unavailable","status":"failed"}"#),
        ("cancel", "chat_turn_cancelled", r#"{"reason":"cancelled","status":"cancelled"}"#),
        ("expire", "chat_signal_expired", r#"{"reason":"expired","status":"failed"}"#),
        ("expire unapproved", "chat_signal_expired", r#"{"reason":"expired","status":"denied"}"#),
        ("supersede", "chat_turn_cancelled", r#"{"reason":"cancelled","status":"cancelled"}"#),
    ] {
        let store = TestStore::new();
        let signal = Signal::new("ok").expires_in(minute);
        let signal = if how == "expire unapproved" { signal.approves("digest") } else { signal };
        let graph = calling(&Log::default(), signal);
        let agent = agent(&graph, Durability::Step).while_suspended(WhileSuspended::Supersede);
        let chat = Chat::builder().agent(agent).clock(TokioClock::new()).open(store.clone()).unwrap();
        chat.sweep().await.unwrap();
        let first = chat.session("s").submit(user("m"), Default::default()).await.unwrap();
        assert_eq!(line(first.outcome().await.as_ref()), "suspended 3.1 ok [a:(c1)]");
        match how {
            "fail" => drop(chat.answer(at("s", "ok"), approve(false)).await.unwrap().outcome().await),
            "cancel" => drop(chat.cancel(first.id()).await.unwrap().outcome().await),
            "expire" | "expire unapproved" => tokio::time::sleep(2 * minute).await,
            _ => drop(chat.session("s").send(user("n")).await),
        }
        let id = singletree_harness::TurnId::new(first.id().invocation.clone(), 1);
        assert_eq!(category(chat.turn(&id).await.unwrap().outcome().await), told, "{how}");
        let seen = history(&chat, "s").await;
        let expected = ["u:m".to_owned(), "a:(c1)".to_owned(), format!("t:c1={closing}")];
        assert_eq!(seen[..3], expected, "{how}");
        check_rows(&store, "s").await;
    }
}

/// A graph that says a word, then shows half of another and waits at a door.
fn streaming(door: &Door) -> Graph<Talk> {
    let door = door.clone();
    let builder = say(Graph::builder(), &Log::default(), "one").node("n", move |cx: Ctx<Talk>| {
        let door = door.clone();
        async move {
            let turn = TurnContext::of(&cx).unwrap();
            let stream = turn.stream();
            let message = stream.begin_message(cx.state().messages.len());
            message.show_text_piece("ha");
            message.show_text_piece("lf");
            door.pass().await;
            Ok(says("half and whole"))
        }
    });
    chain(builder, &["one", "n"])
}

// D10
#[tokio::test]
async fn a_cancelled_turn_keeps_what_was_shown() {
    for durability in LEVELS {
        let (store, door) = (TestStore::new(), Door::shut());
        let chat = Chat::builder().agent(agent(&streaming(&door), durability)).open(store.clone()).unwrap();
        let turn = chat.session("s").submit(user("m"), Default::default()).await.unwrap();
        let queued = chat.session("s").submit(user("n"), Default::default()).await.unwrap();
        door.somebody().await;
        let waiting = chat.cancel(queued.id()).await.unwrap();
        assert_eq!(category(waiting.outcome().await), "chat_turn_cancelled");
        assert_eq!(category(queued.outcome().await), "chat_turn_cancelled");
        let outcome = chat.cancel(turn.id()).await.unwrap().outcome().await;
        let ChatTurnOutcome::Errored(errored) = outcome.as_ref() else { panic!("{outcome:?}") };
        assert_eq!(errored.error_bucket, FailureBucket::UserCorrectable);
        assert_eq!(errored.error_category, "chat_turn_cancelled");
        assert_eq!(history(&chat, "s").await, ["u:m", "a:one", "a:half"]);
        let entries = chat.session("s").history(0..9).await.unwrap();
        let sides: Vec<_> = entries.iter().map(|it| it.side.clone()).collect();
        assert_eq!(sides, [None, None, Some(serde_json::json!({ "interrupted": true }))]);
        // A turn that has ended stays as it ended.
        let again = chat.cancel(turn.id()).await.unwrap();
        assert_eq!(again.outcome().await, outcome);
        door.open();
        assert_eq!(line(&chat.session("s").send(user("o")).await), "completed 3.2 [a:one, a:half and whole]");
        check_rows(&store, "s").await;
    }
}

// D10: the calls of a cancelled turn are closed.
#[tokio::test]
async fn a_cancelled_turn_closes_its_calls() {
    let door = Door::shut();
    let at_door = door.clone();
    let builder = Graph::builder().node("call", |_: Ctx<Talk>| async { Ok(called("c")) });
    let builder = builder.node("n", move |_: Ctx<Talk>| {
        let door = at_door.clone();
        async move {
            door.pass().await;
            Ok(says("never"))
        }
    });
    let chat = chat_of(&chain(builder, &["call", "n"])).open(TestStore::new()).unwrap();
    let turn = chat.session("s").submit(user("m"), Default::default()).await.unwrap();
    door.somebody().await;
    chat.cancel(turn.id()).await.unwrap().outcome().await;
    let closing = r#"t:c={"reason":"the turn was cancelled","status":"cancelled"}"#;
    assert_eq!(history(&chat, "s").await, ["u:m", "a:(c)", closing]);
}

// D10: exactly one wins.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_cancel_and_completion_exactly_one_wins() {
    for round in 0..100 {
        let store = TestStore::new();
        let builder = Graph::builder().node("n", move |_: Ctx<Talk>| async move {
            for _ in 0..round % 20 {
                tokio::task::yield_now().await;
            }
            Ok(says("done"))
        });
        let chat = chat_of(&chain(builder, &["n"])).open(store.clone()).unwrap();
        let turn = chat.session("s").submit(user("m"), Default::default()).await.unwrap();
        let cancelled = chat.cancel(turn.id()).await.unwrap().outcome().await;
        assert_eq!(line(cancelled.as_ref()), line(turn.outcome().await.as_ref()));
        let seen = history(&chat, "s").await;
        match cancelled.as_ref() {
            ChatTurnOutcome::Completed(_) => assert_eq!(seen, ["u:m", "a:done"]),
            other => {
                assert_eq!(category(other), "chat_turn_cancelled");
                assert!(seen.is_empty() || seen == ["u:m"], "{seen:?}");
            }
        }
        check_rows(&store, "s").await;
    }
}

// D11: the part that an explicit save committed stays, and its calls are closed.
#[tokio::test]
async fn what_was_saved_before_an_error_stays_and_is_closed() {
    for durability in LEVELS {
        let store = TestStore::new();
        let builder = Graph::builder().node("call", |_: Ctx<Talk>| async { Ok(called("c")) });
        let builder = builder.node("save", |cx: Ctx<Talk>| async move {
            cx.save_session().await?;
            Err(NodeError::new("no").with_category("provider_timeout"))
        });
        let graph = chain(builder, &["call", "save"]);
        let chat = Chat::builder().agent(agent(&graph, durability)).open(store.clone()).unwrap();
        assert_eq!(category(&chat.session("s").send(user("m")).await), "provider_timeout");
        let closing = r#"t:c={"reason":"provider_timeout","status":"failed"}"#;
        assert_eq!(history(&chat, "s").await, ["u:m", "a:(c)", closing]);
        check_rows(&store, "s").await;
    }
}

// D13
#[tokio::test(start_paused = true)]
async fn a_turn_has_a_time() {
    let builder = Graph::builder().node("n", |_: Ctx<Talk>| async {
        std::future::pending::<()>().await;
        Ok(says("never"))
    });
    let limits = Limits { turn_time: Duration::from_secs(9), ..Limits::default() };
    let chat = chat_of(&chain(builder, &["n"])).limits(limits).open(TestStore::new()).unwrap();
    let outcome = chat.session("s").send(user("m")).await;
    let ChatTurnOutcome::Errored(errored) = outcome else { panic!() };
    assert_eq!(
        (errored.error_category.as_str(), errored.error_bucket),
        ("chat_budget_exhausted", FailureBucket::UserCorrectable)
    );
    assert!(errored.diagnostic.contains("turn_time"), "{}", errored.diagnostic);
}

#[tokio::test]
async fn a_suspended_outcome_carries_descriptor_terms_and_pending_messages() {
    let signal = Signal::new("ok").with("what", "mail").approves("d");
    let chat = chat_of(&asking(&Log::default(), signal)).open(TestStore::new()).unwrap();
    let outcome = chat.session("s").send_with(user("m"), key("k")).await;
    let ChatTurnOutcome::Suspended(it) = &outcome else { panic!("{outcome:?}") };
    assert_eq!(it.signal_descriptor.metadata, Some(serde_json::json!({ "what": "mail" })));
    assert_eq!((it.wait.action.as_deref(), it.wait.no), (Some("d"), 0));
    assert_eq!(it.invocation_id, it.turn.invocation);
    assert_eq!(chat.session("s").send_with(user("m"), key("k")).await, outcome, "read back");
}

// D6, D26
#[tokio::test]
async fn chat_refuses_graphs_and_agents_that_are_not_fit() {
    let graph = plain(&Log::default());
    let unsafe_tools = agent(&graph, Durability::Turn).effectful_tools(true);
    let refused = Chat::builder().agent(unsafe_tools).open(TestStore::new()).unwrap_err();
    assert_eq!(refused.category(), "chat_durability_invalid");
    let refused = Chat::builder().open(TestStore::new()).unwrap_err();
    assert_eq!(refused.category(), "chat_durability_invalid");
    let build = || Graph::<Talk>::builder().node("n", |_: Ctx<Talk>| async { Ok(says("x")) });
    let fields = vec![("talk".to_owned(), "messages".to_owned())];
    let renamed = SessionShape::Projected { fields, version: None };
    for shape in [SessionShape::from_field_names(["count"]), renamed] {
        let graph = chain(build().session_shape(shape), &["n"]);
        let refused = Chat::new(graph, TestStore::new()).unwrap_err();
        assert_eq!(refused.category(), "chat_history_field_invalid");
    }
}
