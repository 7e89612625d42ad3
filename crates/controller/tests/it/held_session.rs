//! Two processes over one store: the one that does not hold the session of a campaign changes nothing in it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use singletree_campaign::{CampaignEvent, PersonCommand};
use singletree_controller::NewCampaign;
use singletree_durable::{
    Batch, BoxFuture, DocumentStore, Error, Journal, JournalLayer, JournalRead, MaintenanceLayer,
    MemoryStore, Result, SessionId, SessionKey,
};
use singletree_tools::Recovery;

use crate::rig::{agent, ann, env_from, open_with, story_model, tenant, whole_log};
use crate::world::World;

/// A journal whose sessions another process holds for a while.
#[derive(Debug, Clone)]
struct SharedJournal {
    inner: MemoryStore,
    is_held: Arc<AtomicBool>,
}

impl JournalLayer for SharedJournal {
    type Journal = MemoryStore;

    fn inner_journal(&self) -> &MemoryStore {
        &self.inner
    }

    fn write_batch(&self, batch: Batch) -> BoxFuture<'static, Result<()>> {
        self.inner.apply(batch)
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn wrap_read<'a, T: Send + 'a>(
        &'a self,
        read: JournalRead,
        answer: BoxFuture<'a, Result<T>>,
    ) -> BoxFuture<'a, Result<T>> {
        if read == JournalRead::Acquire && self.is_held.load(Ordering::Relaxed) {
            let key = SessionKey::new(tenant(), SessionId::parse("s").unwrap());
            let held = Error::HeldElsewhere { key, node: "other".to_owned(), address: None };
            return Box::pin(async move { Err(held) });
        }
        answer
    }
}

impl MaintenanceLayer for SharedJournal {
    type Maintenance = MemoryStore;

    fn inner_maintenance(&self) -> &MemoryStore {
        &self.inner
    }
}

#[tokio::test(start_paused = true)]
async fn a_campaign_whose_session_another_process_holds_is_not_failed_and_goes_on_later() {
    let (store, world) = (MemoryStore::new(), World::default());
    let journal = SharedJournal { inner: store.clone(), is_held: Arc::default() };
    let documents: Arc<dyn DocumentStore> = Arc::new(store);
    let open = |first| {
        let agent = agent(story_model(), &world, Recovery::Rerun);
        open_with(agent, (documents.clone(), journal.clone()), env_from(first), |builder| builder)
    };
    let (one, chat) = open(0);
    let new = NewCampaign::with_goal("Tell Ann.");
    let id = one.create(&tenant(), new, &ann()).await.unwrap().campaign.id;
    chat.shutdown(Duration::from_secs(1)).await;
    let (two, _chat) = open(1_000);
    journal.is_held.store(true, Ordering::Relaxed);
    two.run(tokio::time::sleep(Duration::from_secs(60))).await;
    let log = whole_log(&two, &id).await;
    assert!(matches!(&log[..], [entry] if matches!(entry.event, CampaignEvent::Created { .. })), "{log:?}");
    journal.is_held.store(false, Ordering::Relaxed);
    two.run(tokio::time::sleep(Duration::from_secs(60))).await;
    assert!(two.get(&tenant(), &id).await.unwrap().plan.is_some());
}

// Found with two servers over PostgreSQL: each told of its own changes only.
#[tokio::test(start_paused = true)]
async fn whoever_follows_a_campaign_hears_what_another_process_changes() {
    let (store, world) = (MemoryStore::new(), World::default());
    let documents: Arc<dyn DocumentStore> = Arc::new(store.clone());
    let open = |first| {
        let journal = SharedJournal { inner: store.clone(), is_held: Arc::default() };
        let agent = agent(story_model(), &world, Recovery::Rerun);
        open_with(agent, (documents.clone(), journal), env_from(first), |builder| builder)
    };
    let ((one, _chat), (two, _other)) = (open(0), open(1_000));
    let id = one.create(&tenant(), NewCampaign::with_goal("Tell Ann."), &ann()).await.unwrap().campaign.id;
    let followers = [(); 2].map(|()| Box::pin(two.follow(&tenant(), &id, 0).unwrap()));
    let hears = futures_util::future::join_all(followers.into_iter().map(|mut entries| async move {
        let mut heard = Vec::new();
        let ended = loop {
            match tokio::time::timeout(Duration::from_secs(10), entries.next()).await.unwrap().unwrap() {
                Ok(entry) => heard.push(entry.seq),
                Err(error) => break error,
            }
        };
        assert_eq!(ended.category(), "campaign_unknown");
        heard
    }));
    let said = PersonCommand::Free { text: "Write to Bob, too.".to_owned() };
    let changes = async {
        for goes_on in [true, false] {
            tokio::time::sleep(Duration::from_secs(3)).await;
            match goes_on {
                true => drop(one.command(&tenant(), &id, said.clone(), &ann()).await.unwrap()),
                false => one.delete(&tenant(), &id, &ann()).await.unwrap(),
            }
        }
    };
    let (heard, ()) = futures_util::future::join(hears, changes).await;
    assert_eq!(heard, [[1, 2], [1, 2]]);
}

// Found by killing one of two servers over PostgreSQL.
#[tokio::test(start_paused = true)]
async fn a_campaign_whose_process_ends_between_two_cycles_goes_on_in_another_that_runs() {
    let (store, world) = (MemoryStore::new(), World::default());
    let documents: Arc<dyn DocumentStore> = Arc::new(store.clone());
    let open = |first, is_held| {
        let journal = SharedJournal { inner: store.clone(), is_held: Arc::new(AtomicBool::new(is_held)) };
        let agent = agent(story_model(), &world, Recovery::Rerun);
        let opened =
            open_with(agent, (documents.clone(), journal.clone()), env_from(first), |builder| builder);
        (opened, journal.is_held)
    };
    let (((one, chat), _), ((two, _chat), is_held)) = (open(0, false), open(1_000, true));
    let person = async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        let new = NewCampaign::with_goal("Tell Ann.");
        let id = one.create(&tenant(), new, &ann()).await.unwrap().campaign.id;
        // Its runner, if it had one, would begin the first cycle now.
        chat.shutdown(Duration::from_secs(1)).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(two.get(&tenant(), &id).await.unwrap().plan, None, "another process holds its session");
        is_held.store(false, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(10)).await;
        id
    };
    let (done, id) = (tokio::sync::Notify::new(), std::cell::OnceCell::new());
    let person = async {
        id.set(person.await).unwrap();
        done.notify_one();
    };
    tokio::join!(two.run(done.notified()), person);
    assert!(two.get(&tenant(), id.get().unwrap()).await.unwrap().plan.is_some());
}
