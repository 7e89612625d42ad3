//! The events of a tenant where several processes write the store: they are read from the commits of all of them.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use singletree_durable::{
    BoxFuture, ChangeFollower, CommittedChange, CommittedChanges, CreatedSession, Error, Journal,
    JournalLayer, MaintenanceLayer, Result, TenantId, Timestamp,
};
use singletree_harness::{Chat, TenantEvents};
use singletree_test_store::TestStore;

use crate::bench::{Log, chat_of, name, plain, user};

/// The answers of the store, and the tenants that it is asked for.
#[derive(Debug, Clone, Default)]
struct Told(Arc<Mutex<ToldState>>);

#[derive(Debug, Default)]
struct ToldState {
    answers: VecDeque<Result<CommittedChanges>>,
    /// The number of tenants of each call that differs from the one before.
    asked: Vec<usize>,
}

impl Told {
    fn say(&self, answer: Result<CommittedChanges>) {
        self.0.lock().unwrap().answers.push_back(answer);
    }

    fn asked(&self) -> Vec<usize> {
        self.0.lock().unwrap().asked.clone()
    }
}

impl ChangeFollower for Told {
    fn read_changes<'a>(
        &'a mut self,
        tenants: &'a BTreeSet<TenantId>,
    ) -> BoxFuture<'a, Result<CommittedChanges>> {
        let mut state = self.0.lock().unwrap();
        if state.asked.last() != Some(&tenants.len()) {
            state.asked.push(tenants.len());
        }
        let answer = state.answers.pop_front().unwrap_or_else(|| Ok(CommittedChanges::default()));
        Box::pin(std::future::ready(answer))
    }
}

/// A store that other processes write.
#[derive(Debug)]
struct ToldStore(TestStore, Told);

impl JournalLayer for ToldStore {
    type Journal = TestStore;

    fn inner_journal(&self) -> &TestStore {
        &self.0
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn make_change_follower(&self) -> Option<Box<dyn ChangeFollower>> {
        Some(Box::new(self.1.clone()))
    }
}

impl MaintenanceLayer for ToldStore {
    type Maintenance = TestStore;

    fn inner_maintenance(&self) -> &TestStore {
        &self.0
    }
}

fn change(session: &str) -> CommittedChange {
    CommittedChange { key: name(session), created: None, deleted_at: None, events: Vec::new() }
}

fn anew() -> CommittedChanges {
    CommittedChanges { anew: vec![TenantId::single()], ..CommittedChanges::default() }
}

/// Waits for so many events, and returns their types.
async fn hear(events: &mut TenantEvents, count: usize) -> Vec<&'static str> {
    let mut heard = Vec::new();
    while heard.len() < count {
        let next = tokio::time::timeout(Duration::from_secs(5), events.next_event()).await;
        heard.push(next.expect("it is told").expect("the chat is there").kind.as_str());
    }
    heard
}

async fn send(chat: &Chat, session: &str) {
    drop(chat.session(session).send(user("m")).await);
}

#[tokio::test(start_paused = true)]
async fn the_events_of_a_tenant_come_from_what_all_processes_commit() {
    let (store, told) = (TestStore::new(), Told::default());
    let other = chat_of(&plain(&Log::default())).open(store.clone()).unwrap();
    send(&other, "s").await;
    let other_store = store;
    let store = ToldStore(other_store.open_beside(), told.clone());
    let chat = chat_of(&plain(&Log::default())).open(store).unwrap();
    // A reader that begins misses nothing, and its tenant is followed for the first time.
    told.say(Ok(anew()));
    let mut events = chat.tenant_events(None).await.unwrap();
    // Another process's commits: a session that is made, its turn that ends, another one that is deleted.
    let logged = other_store.read_events(&name("s"), 0, 9).await.unwrap();
    let created = Some(CreatedSession { agent: "a".to_owned(), at: Timestamp::from_millis(1) });
    let made = CommittedChange { created, events: logged[..1].to_vec(), ..change("s") };
    let ended = CommittedChange { events: logged[1..].to_vec(), ..change("s") };
    let deleted = CommittedChange { deleted_at: Some(Timestamp::from_millis(1)), ..change("t") };
    let changes = vec![made, ended.clone(), deleted];
    told.say(Ok(CommittedChanges { changes, has_more: true, ..CommittedChanges::default() }));
    told.say(Ok(CommittedChanges { changes: vec![ended], ..CommittedChanges::default() }));
    let heard = hear(&mut events, 4).await;
    assert_eq!(heard, ["session.created", "turn.ended", "session.deleted", "turn.ended"]);
    // A commit of this process is not told twice, and has the log read at once.
    let begun = tokio::time::Instant::now();
    told.say(Ok(CommittedChanges { changes: vec![change("u")], ..CommittedChanges::default() }));
    told.say(Ok(anew()));
    send(&chat, "u").await;
    assert_eq!(hear(&mut events, 1).await, ["events.missed"]);
    assert!(begun.elapsed() < Duration::from_millis(500), "{:?}", begun.elapsed());
    // After a failure something may be missing.
    told.say(Err(Error::Closed));
    assert_eq!(hear(&mut events, 1).await, ["events.missed"]);
    // Who comes again within a minute goes on; later its tenant is not followed any more.
    drop(events);
    tokio::time::sleep(Duration::from_secs(50)).await;
    drop(chat.tenant_events(None).await.unwrap());
    tokio::time::sleep(Duration::from_secs(50)).await;
    assert_eq!(told.asked(), [1]);
    // Nor is it on account of commits that never stop.
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(900)).await;
        send(&chat, "u").await;
    }
    assert_eq!(told.asked(), [1, 0]);
    told.say(Ok(anew()));
    let mut events = chat.tenant_events(None).await.unwrap();
    told.say(Ok(CommittedChanges {
        changes: vec![CommittedChange { deleted_at: Some(Timestamp::from_millis(1)), ..change("t") }],
        ..CommittedChanges::default()
    }));
    assert_eq!(hear(&mut events, 1).await, ["session.deleted"]);
    assert!(chat.shutdown(Duration::from_secs(1)).await);
    assert_eq!(told.asked(), [1, 0, 1, 0]);
}
