//! Every commit requires the state on which it was decided: a writer whose state another writer has changed since is
//! refused, and decides again (INV-3). One chat alone hides a missing requirement, because its own memory is never
//! behind; so the tests put a second chat, or a plain writer, over the same journal.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use futures_util::{FutureExt, StreamExt};
use serde_json::json;
use singletree_durable::{
    Batch, BatchPrecondition, BoxFuture, FieldRow, FieldValue, Journal, JournalLayer, JournalRead,
    JsonDocument, MaintenanceLayer, Result, RowMutation, SessionHead, SessionKey, StoredTurnKind,
    StoredTurnStatus, StoredWaitStatus, WaitRowQuery,
};
use singletree_engine::{Ctx, Graph, Item, NodeError, Signal};
use singletree_harness::{Chat, Durability, ForkOptions};
use singletree_store_testing::FailedWriteEffect;
use singletree_test_store::TestStore;

use crate::bench::{
    Door, Log, Talk, agent, approve, asking, at, calling, category, chain, chat_of, check_rows, history, key,
    name, plain, says, user, waiting_at,
};
use crate::doctor::sound;
use crate::sky::Sky;

/// A journal that reads every batch and notes the requirements that are missing in it.
#[derive(Debug, Clone)]
struct Checked {
    sky: Sky,
    seen: Arc<Mutex<Seen>>,
    /// The numbers that this process gave to events, also in batches that did not land.
    given: Arc<Mutex<BTreeSet<(SessionKey, u64)>>>,
}

#[derive(Debug, Default)]
struct Seen {
    missing: Vec<String>,
    /// How often each rule had something to check.
    checked: BTreeMap<&'static str, u64>,
}

impl Checked {
    fn over(store: TestStore) -> Self {
        Self { sky: Sky::over(store), seen: Arc::default(), given: Arc::default() }
    }

    /// The same journal in the next process.
    fn reopen(&self) -> Self {
        Self { seen: self.seen.clone(), ..Self::over(self.sky.store.reopen()) }
    }

    fn missing(&self) -> Vec<String> {
        self.seen.lock().unwrap().missing.clone()
    }

    fn checked(&self) -> BTreeSet<&'static str> {
        self.seen.lock().unwrap().checked.keys().copied().collect()
    }
}

impl JournalLayer for Checked {
    type Journal = Sky;

    fn inner_journal(&self) -> &Self::Journal {
        &self.sky
    }

    fn write_batch(&self, batch: Batch) -> BoxFuture<'static, Result<()>> {
        let mut seen = self.seen.lock().unwrap();
        for (rule, is_required) in required(&batch) {
            *seen.checked.entry(rule).or_default() += 1;
            if !is_required {
                seen.missing.push(format!("{rule}: {:?} of {:?}", batch.requires, batch.puts));
            }
        }
        for put in &batch.puts {
            if let RowMutation::Event(row) = put
                && !self.given.lock().unwrap().insert((batch.key.clone(), row.seq))
            {
                seen.missing.push(format!("event number {} was given twice", row.seq));
            }
        }
        drop(seen);
        self.sky.apply(batch)
    }
}

impl MaintenanceLayer for Checked {
    type Maintenance = Sky;

    fn inner_maintenance(&self) -> &Self::Maintenance {
        &self.sky
    }
}

/// Returns for each put that is decided on something whether the batch requires that.
fn required(batch: &Batch) -> Vec<(&'static str, bool)> {
    let has = |it: BatchPrecondition| batch.requires.contains(&it);
    let is_open = |no| has(BatchPrecondition::Turn { no, status: StoredTurnStatus::Accepted });
    let is_pending = |no| has(BatchPrecondition::Wait { no, status: StoredWaitStatus::Pending });
    let tells = |no, kind: &str| {
        batch
            .puts
            .iter()
            .any(|it| matches!(it, RowMutation::Event(row) if row.turn == no && row.kind == kind))
    };
    // An early signal ends its wait in the commit that makes it: there was nothing to require.
    let suspends = batch
        .puts
        .iter()
        .any(|it| matches!(it, RowMutation::Turn(row) if row.status == StoredTurnStatus::Suspended));
    let mut rules = Vec::new();
    for put in &batch.puts {
        match put {
            RowMutation::Turn(row) if row.status == StoredTurnStatus::Accepted => match row.kind {
                StoredTurnKind::Message if tells(row.no, "turn.accepted") => {
                    rules.extend(row.key.clone().map(|it| ("key", has(BatchPrecondition::KeyFree(it)))));
                }
                StoredTurnKind::Resume if tells(row.no, "signal.received") => {
                    rules.extend((!suspends).then(|| ("resume", row.wait.is_some_and(is_pending))));
                }
                _ => rules.push(("taken over", is_open(row.no))),
            },
            RowMutation::Turn(row) if row.kind == StoredTurnKind::Close => {
                rules.push(("closed", row.wait.is_some_and(is_pending) || is_open(row.no)));
            }
            RowMutation::Turn(row) => rules.push((rule_of(row.status), is_open(row.no))),
            RowMutation::Wait(row) if row.status != StoredWaitStatus::Pending && !suspends => {
                rules.push(("wait", is_pending(row.no)));
            }
            RowMutation::Head(head) => {
                let before = head.version.checked_sub(1).map(BatchPrecondition::SessionVersion);
                rules.push(("head", has(BatchPrecondition::SessionAbsent) || before.is_some_and(has)));
            }
            RowMutation::Inherit { from, .. } => {
                let source = |it: &BatchPrecondition| matches!(it, BatchPrecondition::Source { session, .. } if session == from);
                rules.push(("source", batch.requires.iter().any(source)));
            }
            RowMutation::Position(row) => rules.push(("position", is_open(row.turn))),
            RowMutation::Record(row) => rules.push(("record", is_open(row.turn))),
            _ => {}
        }
    }
    rules
}

fn rule_of(status: StoredTurnStatus) -> &'static str {
    match status {
        StoredTurnStatus::Accepted => "accepted",
        StoredTurnStatus::Suspended => "suspended",
        StoredTurnStatus::Completed => "completed",
        StoredTurnStatus::Errored => "errored",
    }
}

/// A graph that records a fact and saves its session in the middle of its node.
fn saving() -> Graph<Talk> {
    let builder = Graph::builder().node("n", |cx: Ctx<Talk>| async move {
        cx.record("fact", Item::from_json(json!(1))).await?;
        cx.save_session().await?;
        Ok(says("so"))
    });
    chain(builder, &["n"])
}

// INV-2, INV-3, INV-7: each transition, one after the other.
#[tokio::test]
async fn every_commit_requires_what_it_was_decided_on() {
    let store = Checked::over(TestStore::new());
    let chat = |graph: &Graph<Talk>| chat_of(graph).open(store.clone()).unwrap();
    let ask = Signal::new("ok");
    let log = Log::default();
    assert_eq!(category(&chat(&saving()).session("kept").send_with(user("m"), key("k")).await), "completed");
    let asked = chat(&asking(&log, ask.clone()));
    asked.session("asked").send(user("m")).await;
    let turn = asked.answer(at("asked", "ok"), approve(true)).await.unwrap();
    assert_eq!(category(turn.outcome().await), "completed");
    let called = chat(&calling(&log, ask));
    let turn = called.session("closed").submit(user("m"), key("k")).await.unwrap();
    turn.outcome().await;
    called.cancel(turn.id()).await.unwrap().outcome().await;
    called.session("failed").send(user("m")).await;
    let turn = called.answer(at("failed", "ok"), approve(false)).await.unwrap();
    assert_eq!(category(turn.outcome().await), "provider_unavailable");
    let door = Door::shut();
    let stopped = chat(&waiting_at(&door));
    let turn = stopped.session("stopped").submit(user("m"), key("k")).await.unwrap();
    door.somebody().await;
    stopped.cancel(turn.id()).await.unwrap().outcome().await;
    asked.session("asked").fork(ForkOptions::new().session("forked")).await.unwrap();
    stopped.session("left").submit(user("m"), key("k")).await.unwrap();
    door.somebody().await;
    let next = store.reopen();
    let next = chat_of(&waiting_at(&door)).open(next).unwrap();
    door.open();
    for turn in next.sweep().await.unwrap() {
        assert_eq!(category(turn.outcome().await), "completed");
    }

    assert_eq!(store.missing(), Vec::<String>::new());
    let rules = [
        "closed",
        "completed",
        "errored",
        "head",
        "key",
        "position",
        "record",
        "resume",
        "source",
        "suspended",
        "taken over",
        "wait",
    ];
    assert_eq!(store.checked(), rules.into());
}

/// Lets a chat's numbers of a session run ahead of the stored ones, so that no number of a late commit is taken
/// already: only a requirement can refuse it then.
async fn run_ahead(chat: &Chat, sky: &Sky) {
    const NUMBERS: u64 = 40;
    sky.fail(1, NUMBERS, FailedWriteEffect::Before);
    for no in 0..NUMBERS {
        chat.session("s").submit(user(&format!("lost {no}")), Default::default()).await.unwrap_err();
    }
    sky.clear();
    // It reads the stored rows again, and finds nothing of this.
    chat.answer(at("s", "none"), approve(true)).await.unwrap_err();
}

// INV-2, INV-3
#[tokio::test]
async fn a_turn_that_another_chat_has_ended_keeps_its_end() {
    let (store, door) = (TestStore::new(), Door::shut());
    let sky = Sky::over(store.clone());
    let builder = Graph::builder().node("hello", {
        let door = door.clone();
        move |_: Ctx<Talk>| {
            let door = door.clone();
            async move {
                door.pass().await;
                Err(NodeError::new("it broke").with_category("provider_unavailable"))
            }
        }
    });
    let one = chat_of(&chain(builder, &["hello"])).open(sky.clone()).unwrap();
    let turn = one.session("s").submit(user("m"), Default::default()).await.unwrap();
    door.somebody().await;
    run_ahead(&one, &sky).await;
    let other = chat_of(&plain(&Log::default())).open(store.clone()).unwrap();
    assert_eq!(category(&other.session("s").send(user("o")).await), "completed");
    door.open();
    assert_eq!(category(turn.outcome().await), "completed", "as the other chat ended it");
    assert_eq!(category(other.turn(turn.id()).await.unwrap().outcome().await), "completed");
    assert_eq!(history(&other, "s").await, ["u:m", "a:hello", "u:o", "a:hello"]);
    check_rows(&store, "s").await;
    sound(&store).await;
}

/// Two chats over one journal that both know of the wait; the second one has answered it.
async fn answered_by_another(log: &Log) -> (TestStore, Chat, singletree_harness::Turn) {
    let store = TestStore::new();
    let sky = Sky::over(store.clone());
    let graph = asking(log, Signal::new("ok"));
    let one = chat_of(&graph).open(sky.clone()).unwrap();
    let turn = one.session("s").submit(user("m"), Default::default()).await.unwrap();
    assert_eq!(category(turn.outcome().await), "suspended");
    run_ahead(&one, &sky).await;
    let other = chat_of(&graph).open(store.clone()).unwrap();
    let resumed = other.answer(at("s", "ok"), approve(true)).await.unwrap();
    assert_eq!(category(resumed.outcome().await), "completed");
    (store, one, turn)
}

async fn status_of_wait(store: &TestStore) -> StoredWaitStatus {
    let waits = store.read_waits(&WaitRowQuery::Signal(name("s"), "ok".into())).await.unwrap();
    assert_eq!(waits.len(), 1, "{waits:?}");
    waits[0].1.status
}

// INV-7
#[tokio::test]
async fn an_answer_to_a_wait_that_another_chat_has_ended_is_not_taken() {
    let log = Log::default();
    let (store, one, _) = answered_by_another(&log).await;
    one.answer(at("s", "ok"), approve(false)).await.unwrap_err();
    assert_eq!(status_of_wait(&store).await, StoredWaitStatus::Consumed);
    assert_eq!(log.all(), ["ask", "gate", "act"]);
    let again = one.answer(at("s", "ok"), approve(false)).await.unwrap_err().into_errored_turn();
    assert_eq!(again.error_category, "chat_signal_conflict");
    check_rows(&store, "s").await;
}

// INV-7; D10
#[tokio::test]
async fn a_wait_that_another_chat_has_ended_is_not_cancelled() {
    let log = Log::default();
    let (store, one, turn) = answered_by_another(&log).await;
    // Whether this is told as an error or as the end that the turn has had, is the same.
    drop(one.cancel(turn.id()).await);
    assert_eq!(status_of_wait(&store).await, StoredWaitStatus::Consumed);
    check_rows(&store, "s").await;
}

// INV-3; D1
#[tokio::test]
async fn a_turn_takes_nothing_back_that_another_writer_has_saved() {
    let (store, door) = (TestStore::new(), Door::shut());
    let at_door = door.clone();
    let builder = Graph::builder().node("n", move |_: Ctx<Talk>| {
        let door = at_door.clone();
        async move {
            door.pass().await;
            Ok(says("so").count(5))
        }
    });
    let chat = chat_of(&chain(builder, &["n"])).open(store.clone()).unwrap();
    let turn = chat.session("s").submit(user("m"), Default::default()).await.unwrap();
    door.somebody().await;
    let head = store.read_session(&name("s")).await.unwrap().unwrap().head;
    let mut batch = Batch::new(name("s"), store.acquire(&name("s")).await.unwrap().fence);
    let value = FieldValue::Value(JsonDocument::from_text("7"));
    batch.put(RowMutation::Head(SessionHead { version: head.version + 1, ..head }));
    batch.put(RowMutation::Field(FieldRow { name: "count".into(), value: value.clone() }));
    store.apply(batch).await.unwrap();
    door.open();
    assert_ne!(category(turn.outcome().await), "completed");
    let fields = store.read_session(&name("s")).await.unwrap().unwrap().fields;
    let count = fields.into_iter().find(|it| it.name == "count").unwrap();
    assert_eq!(count.value, value);
}

/// Lets everything run that can.
async fn settle() {
    for _ in 0..40 {
        tokio::task::yield_now().await;
    }
}

// INV-3; D12
#[tokio::test]
async fn a_fork_of_a_session_that_goes_on_in_the_meantime_is_made_of_what_is_stored_then() {
    let sky = Sky::over(TestStore::new());
    let chat = chat_of(&plain(&Log::default())).open(sky.clone()).unwrap();
    chat.session("s").send(user("one")).await;
    sky.linger(JournalRead::Session);
    let forking = tokio::spawn({
        let chat = chat.clone();
        async move { chat.session("s").fork(ForkOptions::new().session("f")).await.unwrap() }
    });
    sky.lingers().await;
    assert_eq!(category(&chat.session("s").send(user("two")).await), "completed");
    sky.arrive();
    forking.await.unwrap();
    assert_eq!(history(&chat, "f").await, ["u:one", "a:hello", "u:two", "a:hello"]);
}

// INV-3
#[tokio::test]
async fn nothing_is_told_before_its_commit_has_landed() {
    let (sky, door) = (Sky::over(TestStore::new()), Door::shut());
    let chat = Chat::builder().agent(agent(&waiting_at(&door), Durability::Turn)).open(sky.clone()).unwrap();
    let turn = chat.session("s").submit(user("m"), Default::default()).await.unwrap();
    let mut events = Box::pin(turn.events());
    assert_eq!(events.next().await.unwrap().unwrap().what.as_str(), "turn.accepted");
    door.somebody().await;
    assert_eq!(events.next().await.unwrap().unwrap().what.as_str(), "turn.started");
    sky.delay();
    door.open();
    sky.holds(1).await;
    settle().await;
    let early = events.next().now_or_never().flatten();
    assert!(early.is_none(), "told before it was stored: {early:?}");
    assert!(turn.outcome().now_or_never().is_none(), "ended before its end was stored");
    sky.release();
    let kinds: Vec<_> = events.map(|it| it.unwrap().what.as_str().to_owned()).collect().await;
    assert_eq!(kinds, ["message.appended", "turn.completed"]);
}

// INV-3: the state of a session was read while a commit was on its way, and is older than that.
#[tokio::test]
async fn what_was_read_of_a_session_before_a_commit_landed_is_read_again() {
    let (sky, door) = (Sky::over(TestStore::new()), Door::shut());
    let chat = Chat::builder().agent(agent(&waiting_at(&door), Durability::Turn)).open(sky.clone()).unwrap();
    let one = chat.session("s").submit(user("one"), Default::default()).await.unwrap();
    door.somebody().await;
    sky.fail(1, 1, FailedWriteEffect::Before);
    chat.session("s").submit(user("lost"), Default::default()).await.unwrap_err();
    sky.linger(JournalRead::Dossier);
    let two = tokio::spawn({
        let chat = chat.clone();
        async move { chat.session("s").send(user("two")).await }
    });
    sky.lingers().await;
    door.open();
    assert_eq!(category(one.outcome().await), "completed");
    settle().await;
    sky.arrive();
    assert_eq!(category(two.await.unwrap()), "completed");
    assert_eq!(history(&chat, "s").await, ["u:one", "a:so", "u:two", "a:so"]);
    check_rows(&sky, "s").await;
}

// INV-3: the same for the fields of its state, which a turn reads that is ended while another one runs.
#[tokio::test]
async fn what_was_read_of_a_state_before_a_commit_landed_is_read_again() {
    let (sky, door) = (Sky::over(TestStore::new()), Door::shut());
    let chat = Chat::builder().agent(agent(&waiting_at(&door), Durability::Turn)).open(sky.clone()).unwrap();
    door.open_once();
    assert_eq!(category(&chat.session("s").send(user("one")).await), "completed");
    let two = chat.session("s").submit(user("two"), Default::default()).await.unwrap();
    let three = chat.session("s").submit(user("three"), Default::default()).await.unwrap();
    door.somebody().await;
    sky.fail(1, 1, FailedWriteEffect::Before);
    chat.session("s").submit(user("lost"), Default::default()).await.unwrap_err();
    sky.linger(JournalRead::Items);
    let cancelling = tokio::spawn({
        let (chat, id) = (chat.clone(), three.id().clone());
        async move { chat.cancel(&id).await.unwrap() }
    });
    sky.lingers().await;
    door.open();
    assert_eq!(category(two.outcome().await), "completed");
    settle().await;
    sky.arrive();
    assert_eq!(category(cancelling.await.unwrap().outcome().await), "chat_turn_cancelled");
    assert_eq!(category(&chat.session("s").send(user("four")).await), "completed");
    assert_eq!(history(&chat, "s").await, ["u:one", "a:so", "u:two", "a:so", "u:four", "a:so"]);
    check_rows(&sky, "s").await;
}

// D10, D20: a cancel writes nothing beside a commit that is on its way.
#[tokio::test]
async fn a_cancel_waits_for_the_commit_that_is_on_its_way() {
    let (sky, door) = (Sky::over(TestStore::new()), Door::shut());
    let chat = Chat::builder().agent(agent(&waiting_at(&door), Durability::Turn)).open(sky.clone()).unwrap();
    let turn = chat.session("s").submit(user("m"), Default::default()).await.unwrap();
    door.somebody().await;
    sky.delay();
    door.open();
    sky.holds(1).await;
    let written = sky.applies();
    let cancelling = tokio::spawn({
        let (chat, id) = (chat.clone(), turn.id().clone());
        async move { chat.cancel(&id).await.unwrap() }
    });
    settle().await;
    assert_eq!(sky.applies(), written, "one commit is on its way, and no other");
    sky.release();
    assert_eq!(category(cancelling.await.unwrap().outcome().await), "completed");
    assert_eq!(history(&chat, "s").await, ["u:m", "a:so"]);
    check_rows(&sky, "s").await;
}

// INV-3: stored counters lag behind those given to commits on their way, and reading them takes no number back.
#[tokio::test]
async fn a_number_is_given_once_although_another_commit_fails_beside_it() {
    let store = Checked::over(TestStore::new());
    let sky = store.sky.clone();
    let chat = chat_of(&plain(&Log::default())).open(store.clone()).unwrap();
    chat.session("s").send(user("one")).await;
    let submit = |text: &'static str| {
        let chat = chat.clone();
        tokio::spawn(async move { chat.session("s").submit(user(text), Default::default()).await })
    };
    sky.delay();
    let two = submit("two");
    sky.holds(1).await;
    sky.fail(1, 1, FailedWriteEffect::Before);
    submit("lost").await.unwrap().unwrap_err();
    sky.clear();
    let three = submit("three");
    sky.holds(2).await;
    sky.release();
    for turn in [two, three] {
        assert_eq!(category(turn.await.unwrap().unwrap().outcome().await), "completed");
    }
    assert_eq!(store.missing(), Vec::<String>::new());
    check_rows(&sky, "s").await;
}
