//! The calls about one conversation: each is about the session of the handle, and of no other.

use std::sync::{Arc, Mutex};

use futures_util::StreamExt;
use singletree_engine::Signal;
use singletree_harness::{Chat, ChatTurnOutcome, ForkOptions, SendOptions, Session, SignalDelivery};
use singletree_test_store::TestStore;

use crate::bench::{Log, approve, asking, category, chat_of, plain};

/// How a turn ended, and its last reply.
fn line(outcome: &ChatTurnOutcome) -> String {
    match outcome {
        ChatTurnOutcome::Completed(turn) => format!("completed: {}", turn.replies.last().unwrap().text()),
        ChatTurnOutcome::Suspended(_) | ChatTurnOutcome::Errored(_) => outcome.as_str().to_owned(),
    }
}

/// A session with two messages, beside another one with four.
async fn two_sessions(store: TestStore) -> (Chat, Session) {
    let chat = chat_of(&plain(&Log::default())).open(store).unwrap();
    let other = chat.session("other");
    other.send("one").await;
    other.send("two").await;
    let session = chat.session("s");
    assert_eq!(line(&session.send("hi").await), "completed: hello");
    (chat, session)
}

#[tokio::test]
async fn a_handle_reads_and_deletes_its_own_session() {
    let (chat, session) = two_sessions(TestStore::new()).await;
    assert_eq!((session.id(), session.info().await.unwrap().messages), ("s", 2));
    assert_eq!(session.history(0..9).await.unwrap().len(), 2);
    assert_eq!(session.history(1..2).await.unwrap()[0].message.text(), "hello");
    assert_eq!(session.newest_messages(9).await.unwrap().items.len(), 2);
    assert_eq!(session.turns(0, 9).await.unwrap().items.len(), 1);
    assert!(session.open_turns().await.unwrap().is_empty());
    assert!(session.failed_turns(0..9, 9).await.unwrap().is_empty());
    assert!(session.usage().await.unwrap().is_empty());
    assert_eq!(session.export().await.unwrap().session, "s");
    assert!(session.mailbox().await.unwrap().is_empty());
    session.delete(Some("ann")).await.unwrap();
    assert_eq!(session.info().await.unwrap_err().category(), "chat_session_unknown");
    assert_eq!(chat.session("other").info().await.unwrap().messages, 4);
}

#[tokio::test]
async fn a_handle_sends_streams_and_branches_its_own_session() {
    let (chat, session) = two_sessions(TestStore::new()).await;
    let turn = session.submit("again", SendOptions::new().key("k")).await.unwrap();
    assert_eq!((turn.session(), line(turn.outcome().await.as_ref())), ("s", "completed: hello".into()));
    let steering = session.steer("more", SendOptions::new()).await.unwrap();
    assert_eq!(steering.session(), "s");
    steering.outcome().await;
    let streamed: Vec<_> = session.stream("and again").await.unwrap().collect().await;
    let last = streamed.last().unwrap().as_ref().unwrap();
    assert!(last.what.outcome().is_some() && last.session.as_ref() == "s", "{last:?}");
    let fork = session.fork(ForkOptions::new().at(2).session("f")).await.unwrap();
    assert_eq!((fork.id(), fork.info().await.unwrap().messages), ("f", 2));
    let edited = session.edit(0, "otherwise").await.unwrap();
    edited.outcome().await;
    assert_eq!(chat.session(edited.session()).history(0..1).await.unwrap()[0].message.text(), "otherwise");
    let again = session.regenerate(None).await.unwrap();
    assert_eq!(line(again.outcome().await.as_ref()), "completed: hello");
    assert_eq!(session.info().await.unwrap().messages, 8, "the session itself stays as it is");
}

#[tokio::test]
async fn events_of_a_session_begin_after_the_one_that_was_seen() {
    let (_, session) = two_sessions(TestStore::new()).await;
    let all: Vec<_> = Box::pin(session.events().stream().await.unwrap()).take(3).collect().await;
    let seen = all[1].as_ref().unwrap().id.clone();
    let next = Box::pin(session.events().after(seen).stream().await.unwrap()).next().await.unwrap().unwrap();
    assert_eq!(&next, all[2].as_ref().unwrap());
}

// D2, D5, INV-7
#[tokio::test]
async fn a_wait_is_approved_rejected_or_answered_and_only_an_approval_can_be_approved() {
    let signal = Signal::new("ok").approving("pay");
    let chat = chat_of(&asking(&Log::default(), signal)).open(TestStore::new()).unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let check = async |name: &str, approves: bool, expect: &str| {
        let session = chat.session(name);
        let listener = told.clone();
        let subscription =
            session.subscribe(move |outcome| listener.lock().unwrap().push(line(&outcome))).unwrap();
        assert!(matches!(session.send("pay").await, ChatTurnOutcome::Suspended(_)));
        let wait = session.pending().await.unwrap().pop().unwrap();
        assert_eq!(wait.wait().session, name);
        let outcome = if approves { wait.approve().await } else { wait.reject("").await };
        assert_eq!(line(&outcome.unwrap()), expect);
        assert!(session.pending().await.unwrap().is_empty());
        drop(subscription);
    };
    check("yes", true, "completed: done").await;
    check("no", false, "completed: not done").await;
    assert_eq!(*told.lock().unwrap(), ["completed: done", "completed: not done"]);

    let chat = chat_of(&asking(&Log::default(), Signal::new("ok"))).open(TestStore::new()).unwrap();
    let session = chat.session("s");
    session.send("go").await;
    let wait = session.pending().await.unwrap().pop().unwrap();
    assert_eq!(wait.approve().await.unwrap_err().category(), "chat_signal_mismatch");
    assert_eq!(wait.reject("no").await.unwrap_err().category(), "chat_signal_mismatch");
    assert_eq!(session.pending().await.unwrap().len(), 1, "nothing is consumed");
    assert_eq!(line(&wait.respond(wait.answer([("approved", true)])).await.unwrap()), "completed: done");
}

// D2
#[tokio::test]
async fn a_signal_reaches_the_wait_of_its_session() {
    let chat = chat_of(&asking(&Log::default(), Signal::new("soon"))).open(TestStore::new()).unwrap();
    let session = chat.session("s");
    session.send("go").await;
    let resumed = session.signal("soon", approve(true)).await.unwrap();
    let SignalDelivery::Resumed(turn) = resumed else { panic!("{resumed:?}") };
    assert_eq!((turn.session(), line(turn.outcome().await.as_ref())), ("s", "completed: done".into()));
    assert!(session.value("no such field").await.unwrap().is_none());
}

#[tokio::test]
async fn an_id_that_can_be_no_sessions_is_refused_by_each_call() {
    let chat = chat_of(&plain(&Log::default())).open(TestStore::new()).unwrap();
    let session = chat.session("");
    assert_eq!(category(session.send("hi").await), "harness_session_id_unresolved");
    assert_eq!(session.info().await.unwrap_err().category(), "harness_session_id_unresolved");
    assert_eq!(session.pending().await.unwrap_err().category(), "harness_session_id_unresolved");
}
