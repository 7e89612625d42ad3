//! Forks, edits and regenerated replies (D12): copies of a beginning, and nothing of the old session changes.

use std::sync::Arc;

use futures_util::StreamExt;
use singletree_durable::{
    DocumentStore, FieldValue, ItemRange, Journal, JournalMaintenance, ListItemRow, StoredBlob, TenantId,
    TurnRowQuery,
};
use singletree_engine::{Ctx, Graph, Signal};
use singletree_harness::{
    Chat, ChatEvent, ChatEventKind, ForkOptions, Limits, MessageAddress, MessageId, SessionForkPoint,
};
use singletree_llm::ChatMessage;
use singletree_store_sqlite::SqliteStore;
use singletree_store_testing::{FailedWriteEffect, FaultInjectingStore};
use singletree_test_store::TestStore;

use crate::bench::{
    Door, Log, Talk, approve, asking, at, calling, category, chain, chat_of, check_rows, history, key, line,
    name, plain, says, short, user,
};

fn to(id: &str) -> ForkOptions {
    ForkOptions::new().session(id)
}

/// A graph that counts its turns, in every kind of field.
fn counting() -> Graph<Talk> {
    let builder = Graph::builder().node("n", |cx: Ctx<Talk>| {
        let count = cx.state().count + 1;
        let notes = cx.state().notes.len();
        async move {
            let text = format!("{count}/{notes}");
            Ok(Talk::update()
                .count(count)
                .notes([format!("n{count}")])
                .words(vec![format!("w{count}")])
                .messages([ChatMessage::assistant(text)]))
        }
    });
    chain(builder, &["n"])
}

async fn items(journal: &dyn Journal, session: &str) -> Vec<ListItemRow> {
    journal.read_items(&name(session), &ItemRange::Numbers { from: 0, to: 10_000 }).await.unwrap()
}

/// Forks at the head and earlier; placed items are the same rows, everything else is left behind.
async fn forks_on(store: impl Journal + JournalMaintenance + Clone + 'static) {
    let chat = chat_of(&counting()).open(store.clone()).unwrap();
    for n in 0..3 {
        chat.session("s").send_with(user(&format!("m{n}")), key(&format!("k{n}"))).await;
    }
    let (before, rows) = (store.read_session(&name("s")).await.unwrap(), items(&store, "s").await);
    let forked = chat.session("s").fork(to("head")).await.unwrap().info().await.unwrap();
    assert_eq!((forked.session.as_str(), forked.messages, forked.agent.as_str()), ("head", 6, "a"));
    assert_eq!(forked.parent, Some(SessionForkPoint { session: "s".into(), offset: 6 }));
    assert_eq!(items(&store, "head").await, rows);
    let early = chat.session("s").fork(to("early").at(2)).await.unwrap().info().await.unwrap();
    assert_eq!((early.messages, early.parent.unwrap().offset), (2, 2));
    let inherited: Vec<ListItemRow> = rows
        .iter()
        .filter(|it| it.placement.as_ref().is_some_and(|it| it.field == "messages" && it.seq < 2))
        .cloned()
        .collect();
    assert_eq!(items(&store, "early").await, inherited);
    assert_eq!(store.read_session(&name("s")).await.unwrap(), before);
    assert_eq!(store.read_turns(&name("head"), &TurnRowQuery::From { no: 0, limit: 9 }).await.unwrap(), []);
    // At the head the other fields go on; earlier they begin anew. Keys are the old session's.
    assert_eq!(line(&chat.session("head").send_with(user("m"), key("k0")).await), "completed 3.2 [a:4/3]");
    assert_eq!(line(&chat.session("early").send(user("m")).await), "completed 3.2 [a:1/0]");
    assert_eq!(line(&chat.session("s").send(user("m")).await), "completed 3.2 [a:4/3]");
    assert_eq!(history(&chat, "early").await, ["u:m0", "a:1/0", "u:m", "a:1/0"]);
    // New items in a fork take numbers past all inherited ones.
    let numbers: Vec<u64> = items(&store, "head").await.iter().map(|it| it.no).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    for session in ["s", "head", "early"] {
        check_rows(&store, session).await;
    }
}

#[tokio::test]
async fn a_fork_is_a_copy_of_the_rows_and_goes_on_by_itself() {
    forks_on(TestStore::new()).await;
}

#[tokio::test]
async fn a_fork_on_a_file_is_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("s.db")).await.unwrap();
    forks_on(store.clone()).await;
    store.close().await;
}

// INV-6
#[tokio::test]
async fn a_cut_inside_a_tool_round_closes_its_calls_and_inherits_no_wait() {
    let store = TestStore::new();
    let chat = chat_of(&calling(&Log::default(), Signal::new("ok"))).open(store.clone()).unwrap();
    chat.session("s").send(user("m")).await;
    let closed = "t:c1={\"reason\":\"the conversation was forked here\",\"status\":\"cancelled\"}";
    let cuts: [&[&str]; 3] = [&[], &["u:m"], &["u:m", "a:(c1)", closed]];
    for (offset, expected) in (0..).zip(cuts) {
        let fork = chat.session("s").fork(ForkOptions::new().at(offset)).await.unwrap().id().to_owned();
        assert_eq!(history(&chat, &fork).await, expected, "at {offset}");
        assert_eq!(chat.session(&fork).pending().await.unwrap(), []);
        assert_eq!(line(&chat.session(&fork).send(user("n")).await).split(' ').next(), Some("suspended"));
        check_rows(&store, &fork).await;
    }
    // The old session waits on, and goes on.
    let done = chat.answer(at("s", "ok"), approve(true)).await.unwrap().outcome().await;
    assert_eq!(line(&done), "completed 3.3 [t:c1=ok, a:done]");
    // After the round, before and between its answers.
    let cuts: [(u64, &[&str]); 2] = [(3, &["u:m", "a:(c1)", "t:c1=ok"]), (2, &["u:m", "a:(c1)", closed])];
    for (offset, expected) in cuts {
        let fork = chat.session("s").fork(ForkOptions::new().at(offset)).await.unwrap().id().to_owned();
        assert_eq!(history(&chat, &fork).await, expected, "at {offset}");
    }
}

#[tokio::test]
async fn what_cannot_be_forked_is_told_and_leaves_nothing() {
    let store = TestStore::new();
    let graph = plain(&Log::default());
    let chat = chat_of(&graph).open(store.clone()).unwrap();
    chat.session("s").send(user("m")).await;
    chat.session("t").send(user("m")).await;
    for (from, options, expected) in [
        ("s", to("t"), "chat_session_exists"),
        ("s", to("s"), "chat_session_exists"),
        ("s", to("new").at(3), "chat_message_unknown"),
        ("none", to("new"), "chat_session_unknown"),
        ("", to("new"), "harness_session_id_unresolved"),
        ("s", to("a\nb"), "harness_session_id_unresolved"),
    ] {
        let refused = chat.session(from).fork(options.clone()).await.unwrap_err();
        assert_eq!(refused.category(), expected, "{from:?} {options:?}");
    }
    // INV-14: another tenant's session is none.
    let other = chat_of(&graph).tenant(TenantId::parse("b").unwrap()).open(store.clone()).unwrap();
    assert_eq!(other.session("s").fork(to("new")).await.unwrap_err().category(), "chat_session_unknown");
    assert_eq!(chat.sessions(None, 9).await.unwrap().items.len(), 2);
    assert_eq!(other.sessions(None, 9).await.unwrap().items, []);
}

#[tokio::test]
async fn a_fork_while_a_turn_runs_takes_what_is_committed() {
    let (store, door) = (TestStore::new(), Door::shut());
    let at_door = door.clone();
    let builder = Graph::builder().node("n", move |cx: Ctx<Talk>| {
        let (door, first) = (at_door.clone(), cx.state().messages.len() == 1);
        async move {
            if !first {
                door.pass().await;
            }
            Ok(says("x"))
        }
    });
    let chat = chat_of(&chain(builder, &["n"])).open(store.clone()).unwrap();
    chat.session("s").send(user("m")).await;
    let running = chat.session("s").submit(user("n"), Default::default()).await.unwrap();
    door.somebody().await;
    chat.session("s").fork(to("f")).await.unwrap();
    assert_eq!(history(&chat, "f").await, ["u:m", "a:x"]);
    door.open();
    assert_eq!(line(running.outcome().await.as_ref()), "completed 3.2 [a:x]");
    assert_eq!(line(&chat.session("f").send(user("o")).await), "completed 3.2 [a:x]");
    // A session of which nothing is committed yet has no messages to fork.
    let unborn = chat.session("s").fork(to("g").at(0)).await.unwrap().info().await.unwrap();
    assert_eq!(unborn.messages, 0);
    assert_eq!(line(&chat.session("g").send(user("p")).await), "completed 3.1 [a:x]");
    for session in ["s", "f", "g"] {
        check_rows(&store, session).await;
    }
}

/// Writes the events of the log, in lines.
async fn log(chat: &Chat, session: &str, count: usize) -> Vec<String> {
    let events = chat.session(session).events().stream().await.unwrap().take(count);
    let told = |it: &ChatEvent| {
        let seq = it.id.as_ref().map_or(0, |it| it.seq);
        let more = match &it.what {
            ChatEventKind::SessionForked { parent, offset } => format!("{parent} {offset}"),
            ChatEventKind::MessageAppended { id, message, .. } => {
                assert_eq!(id.turn, it.turn);
                format!("{} {}", id.k, short(message))
            }
            other => other.outcome().map(|it| line(it)).unwrap_or_default(),
        };
        format!("{seq} {} {more}", it.what.as_str())
    };
    events.map(|it| told(&it.unwrap())).collect().await
}

#[tokio::test]
async fn a_fork_of_a_fork_stands_when_the_others_are_gone_and_its_log_says_where_it_began() {
    let store = TestStore::new();
    let graph = calling(&Log::default(), Signal::new("ok"));
    let chat = chat_of(&graph).open(store.clone()).unwrap();
    chat.session("s").send(user("m")).await;
    let mut live = Box::pin(chat.session("f").events().stream().await.unwrap());
    chat.session("s").fork(to("f")).await.unwrap();
    chat.session("f").fork(to("g")).await.unwrap();
    chat.session("s").delete(None).await.unwrap();
    chat.session("f").delete(None).await.unwrap();
    let closed = "{\"reason\":\"the conversation was forked here\",\"status\":\"cancelled\"}";
    assert_eq!(history(&chat, "g").await, ["u:m".into(), "a:(c1)".into(), format!("t:c1={closed}")]);
    let told = live.next().await.unwrap().unwrap();
    assert!(matches!(told.what, ChatEventKind::SessionForked { offset: 2, .. }), "{told:?}");
    chat.session("g").fork(to("h").at(2)).await.unwrap();
    let chat = chat_of(&graph).open(store.reopen()).unwrap();
    assert_eq!(
        log(&chat, "h", 2).await,
        ["0 session.forked g 2".to_owned(), format!("1 message.appended 0 t:c1={closed}")]
    );
    assert_eq!(log(&chat, "g", 1).await, ["0 session.forked f 3"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn forks_beside_sends_are_whole_turns() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("s.db")).await.unwrap();
    let chat = chat_of(&counting()).open(store.clone()).unwrap();
    chat.session("s").send(user("m")).await;
    let sending = tokio::spawn({
        let chat = chat.clone();
        async move {
            for _ in 0..40 {
                chat.session("s").send(user("m")).await;
            }
        }
    });
    let mut seen = std::collections::BTreeSet::new();
    while !sending.is_finished() {
        let fork = chat.session("s").fork(ForkOptions::new()).await.unwrap();
        let messages = history(&chat, fork.id()).await;
        let last = format!("a:{0}/{1}", messages.len() / 2, messages.len() / 2 - 1);
        assert_eq!((messages.len() % 2, messages.last()), (0, Some(&last)));
        // State and history are of one moment: the next count follows.
        let next = format!("completed 3.2 [a:{}/{}]", messages.len() / 2 + 1, messages.len() / 2);
        assert_eq!(line(&fork.send(user("n")).await), next);
        seen.insert(messages.len());
    }
    sending.await.unwrap();
    assert!(seen.len() > 1, "forks at one length only: {seen:?}");
    store.close().await;
}

// INV-3
#[tokio::test]
async fn a_fork_that_dies_with_its_process_is_whole_or_not_there() {
    let graph = plain(&Log::default());
    for (n, land) in (1..=4).flat_map(|n| [(n, FailedWriteEffect::Before), (n, FailedWriteEffect::After)]) {
        let store = TestStore::new();
        chat_of(&graph).open(store.clone()).unwrap().session("s").send(user("m")).await;
        let failing = Arc::new(FaultInjectingStore::new(Arc::new(store.clone()), n, land));
        let limits = Limits { record_retry: std::time::Duration::from_millis(1), ..Limits::default() };
        let dying = chat_of(&graph).limits(limits).open_shared(failing.clone(), failing.clone()).unwrap();
        let forked = dying.session("s").fork(to("f")).await;
        let edited = dying.session("s").edit_into("e", 0, user("other")).await;
        drop((dying.shutdown(std::time::Duration::ZERO).await, dying));
        let chat = chat_of(&graph).open(store.reopen()).unwrap();
        chat.sweep().await.unwrap();
        let there = chat.session("f").info().await.is_ok();
        assert!(there || forked.is_err(), "{n} {land:?}: a fork that was answered is there");
        // A lost answer is read back.
        assert_eq!(there, n > 1 || land == FailedWriteEffect::After, "{n} {land:?}");
        if there {
            assert_eq!(history(&chat, "f").await, ["u:m", "a:hello"]);
        }
        if let Ok(turn) = edited {
            assert_eq!(
                line(chat.turn(turn.id()).await.unwrap().outcome().await.as_ref()),
                "completed 3.1 [a:hello]"
            );
        }
        for session in ["s", "f", "e"] {
            check_rows(&store, session).await;
        }
    }
}

#[tokio::test]
async fn an_edited_message_is_answered_in_a_session_of_its_own() {
    let store = TestStore::new();
    let chat = chat_of(&counting()).open(store.clone()).unwrap();
    for n in 0..3 {
        chat.session("s").send(user(&format!("m{n}"))).await;
    }
    let before = history(&chat, "s").await;
    let turn = chat.session("s").edit(2, user("other")).await.unwrap();
    assert_ne!(turn.session(), "s");
    assert_eq!(line(turn.outcome().await.as_ref()), "completed 3.2 [a:1/0]");
    assert_eq!(history(&chat, turn.session()).await, ["u:m0", "a:1/0", "u:other", "a:1/0"]);
    let first = chat.session("s").edit_into("f", 0, user("first")).await.unwrap();
    assert_eq!(
        (first.session(), line(first.outcome().await.as_ref())),
        ("f", "completed 3.1 [a:1/0]".into())
    );
    assert_eq!(history(&chat, "s").await, before);
    // A refused request leaves nothing behind.
    let count = chat.sessions(None, 99).await.unwrap().items.len();
    let long = "x".repeat(2 << 20);
    for (place, text, expected) in [
        (1, "x", "chat_message_unknown"),
        (6, "x", "chat_message_unknown"),
        (0, long.as_str(), "chat_message_shape_invalid"),
    ] {
        let refused =
            chat.session("s").edit_into("x", place, user(text)).await.unwrap_err().into_errored_turn();
        assert_eq!(refused.error_category, expected, "{place}");
    }
    assert_eq!(chat.sessions(None, 99).await.unwrap().items.len(), count);
    let taken = chat.session("s").edit_into("f", 0, user("x")).await.unwrap_err().into_errored_turn();
    assert_eq!(taken.error_category, "chat_session_exists");
}

#[tokio::test]
async fn a_message_is_named_by_its_id_also_where_it_was_inherited() {
    let chat = chat_of(&counting()).open(TestStore::new()).unwrap();
    let mut turns = Vec::new();
    for n in 0..3 {
        let turn = chat.session("s").submit(user(&format!("m{n}")), Default::default()).await.unwrap();
        turn.outcome().await;
        turns.push(turn.id().clone());
    }
    let id = |turn: usize, k| MessageId { turn: turns[turn].clone(), k };
    chat.session("s").fork(to("f").at(4)).await.unwrap();
    // Turn 2 of the old session and this one have one number, and are not the same.
    let own = chat.session("f").submit(user("own"), Default::default()).await.unwrap();
    own.outcome().await;
    chat.session("f").fork(to("g")).await.unwrap();
    for session in ["s", "f", "g"] {
        let edited = chat.session(session).edit(id(1, 0), user("e")).await.unwrap();
        edited.outcome().await;
        assert_eq!(history(&chat, edited.session()).await[..3], ["u:m0", "a:1/0", "u:e"], "{session}");
    }
    let mine = MessageId { turn: own.id().clone(), k: 0 };
    let edited = chat.session("g").edit(mine.clone(), user("e")).await.unwrap();
    edited.outcome().await;
    assert_eq!(history(&chat, edited.session()).await[4], "u:e");
    for (session, id) in [("f", id(2, 0)), ("g", id(2, 0)), ("s", mine), ("s", id(1, 2)), ("s", id(1, 1))] {
        let refused =
            chat.session(session).edit(id.clone(), user("e")).await.unwrap_err().into_errored_turn();
        assert_eq!(refused.error_category, "chat_message_unknown", "{session} {id}");
    }
}

#[tokio::test]
async fn a_reply_is_asked_for_again_in_a_session_of_its_own() {
    let chat = chat_of(&counting()).open(TestStore::new()).unwrap();
    for n in 0..3 {
        chat.session("s").send(user(&format!("m{n}"))).await;
    }
    for (reply, expected) in [(None, 4), (Some(5), 4), (Some(4), 4), (Some(3), 2), (Some(0), 0)] {
        let again = chat.session("s").regenerate(reply.map(MessageAddress::from)).await.unwrap();
        assert_eq!(category(again.outcome().await), "completed");
        let (old, new) = (history(&chat, "s").await, history(&chat, again.session()).await);
        assert_eq!((new.len(), &new[..=expected]), (expected + 2, &old[..=expected]), "{reply:?}");
        let parent = chat.session(again.session()).info().await.unwrap().parent.unwrap();
        assert_eq!(parent, SessionForkPoint { session: "s".into(), offset: expected as u64 });
    }
    let refused =
        chat.session("s").regenerate(Some(MessageAddress::from(6))).await.unwrap_err().into_errored_turn();
    assert_eq!(refused.error_category, "chat_message_unknown");
    chat.session("s").fork(to("empty").at(0)).await.unwrap();
    let refused = chat.session("empty").regenerate(None).await.unwrap_err().into_errored_turn();
    assert_eq!(refused.error_category, "chat_message_unknown");
    assert_eq!(history(&chat, "s").await.len(), 6);
}

#[tokio::test]
async fn a_fork_of_a_suspended_session_carries_the_fields_that_are_stored() {
    let store = TestStore::new();
    let chat = chat_of(&asking(&Log::default(), Signal::new("ok"))).open(store.clone()).unwrap();
    chat.session("s").send(user("m")).await;
    chat.session("s").fork(to("f")).await.unwrap();
    let fields = |it: Option<singletree_durable::SessionRow>| {
        it.unwrap().fields.into_iter().map(|it| (it.name, matches!(it.value, FieldValue::List { .. })))
    };
    let (old, new) =
        (store.read_session(&name("s")).await.unwrap(), store.read_session(&name("f")).await.unwrap());
    assert!(fields(new).eq(fields(old)));
    assert_eq!(line(&chat.session("f").send(user("n")).await), "suspended 3.2 ok [a:ask]");
    for session in ["f", "s"] {
        let done = chat.answer(at(session, "ok"), approve(true)).await.unwrap().outcome().await;
        assert_eq!(line(&done), "completed 3.3 [a:done]");
        check_rows(&store, session).await;
    }
}

// D12, INV-4: one commit, one statement for all rows, whatever the length; only the number of copied rows grows.
#[tokio::test]
async fn a_fork_is_one_commit_that_copies_a_row_for_each_message_and_binds_none() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("s.db")).await.unwrap();
    let chat = chat_of(&plain(&Log::default())).open(store.clone()).unwrap();
    chat.session("short").send(user("m")).await;
    let mut long = chat.session("short").export().await.unwrap();
    let messages = long.lists.get_mut("messages").unwrap();
    *messages = messages.iter().cycle().take(4000).cloned().collect();
    chat.import_session(long, Some("long")).await.unwrap();
    let mut bound = Vec::new();
    for (of, cut, rows) in [("short", None, 2), ("long", None, 4000), ("long", Some(3000), 3000)] {
        let options = to(&format!("{of}-{rows}"));
        let options = cut.into_iter().fold(options, ForkOptions::at);
        let before = (store.commit_count(), store.bytes_written());
        let forked = chat.session(of).fork(options).await.unwrap().info().await.unwrap();
        assert_eq!((forked.messages, store.commit_count() - before.0), (rows, 1));
        assert_eq!(items(&store, &forked.session).await.len() as u64, rows);
        bound.push(store.bytes_written() - before.1);
    }
    // Names, numbers and the fields that are carried along.
    assert!(bound.iter().all(|it| *it < 512), "{bound:?}");
}

fn picture(name: &str) -> StoredBlob {
    StoredBlob { digest: format!("digest-{name}"), media_type: "image/png".to_owned(), bytes: vec![1, 2, 3] }
}

#[tokio::test]
async fn a_fork_uses_the_blobs_that_it_names_and_what_is_said_in_it_may_name_one_of_the_other() {
    let store = TestStore::new();
    let chat = chat_of(&plain(&Log::default())).open(store.clone()).unwrap();
    for it in ["a", "b"] {
        store.keep_blob(&name("s"), picture(it)).await.unwrap();
        chat.session("s").send(user(&format!("see blob:digest-{it}"))).await;
    }
    let used = async |session: &str| {
        let mut used = Vec::new();
        for it in ["a", "b"] {
            used.extend(store.read_blob(&name(session), &picture(it).digest).await.unwrap().map(|_| it));
        }
        used
    };
    chat.session("s").fork(to("whole")).await.unwrap();
    chat.session("s").fork(to("part").at(2)).await.unwrap();
    chat.session("s").fork(to("empty").at(0)).await.unwrap();
    let edited = chat.session("s").edit_into("edited", 0, user("rather blob:digest-b")).await.unwrap();
    edited.outcome().await;
    chat.session("s").delete(None).await.unwrap();
    assert_eq!(used("whole").await, ["a", "b"]);
    assert_eq!(used("part").await, ["a"]);
    assert_eq!(used("empty").await, Vec::<&str>::new());
    assert_eq!(used("edited").await, ["b"]);
    assert_eq!(used("s").await, Vec::<&str>::new());
}
