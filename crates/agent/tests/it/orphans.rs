//! A turn that is cancelled, or whose process dies, at any write of a loop with tools: the next request to the model is
//! one that providers take, every call answered once and in order (INV-6).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::json;
use singletree_durable::{
    Batch, BoxFuture, Journal, JournalLayer, MaintenanceLayer, MemoryStore, Result, SessionId, SessionKey,
    TenantId, TurnRowQuery,
};
use singletree_harness::{Chat, SendOptions, TurnId};
use singletree_llm::ChatMessage;
use singletree_store_testing::{FailedWriteEffect, FaultInjectingStore};
use singletree_tools::Recovery;
use tokio::sync::Notify;

use crate::probe::World;
use crate::rig::{SESSION, answer, completed, open, script, send, small_with};
use crate::watched::Watched;

const ASKED: [&str; 6] = ["look", "act", "acts", "mixed", "send", "sends"];

/// How tools recover: both ways under `.ci/run --deep`.
fn recoveries() -> Vec<Recovery> {
    let is_deep = std::env::var_os("SINGLETREE_DEEP").is_some();
    [Recovery::Report, Recovery::Rerun].into_iter().take(if is_deep { 2 } else { 1 }).collect()
}

/// A store that stops at its n-th write, once that has landed, and goes on when it is told to.
#[derive(Debug, Clone)]
struct Stopping {
    store: MemoryStore,
    at: u64,
    writes: Arc<AtomicU64>,
    reached: Arc<Notify>,
    go: Arc<Notify>,
}

impl JournalLayer for Stopping {
    type Journal = MemoryStore;

    fn inner_journal(&self) -> &Self::Journal {
        &self.store
    }

    fn write_batch(&self, batch: Batch) -> BoxFuture<'static, Result<()>> {
        let stops = self.writes.fetch_add(1, Ordering::SeqCst) + 1 == self.at;
        let (landing, stopping) = (self.store.apply(batch), self.clone());
        Box::pin(async move {
            let landed = landing.await;
            if stops {
                stopping.reached.notify_one();
                stopping.go.notified().await;
            }
            landed
        })
    }
}

impl MaintenanceLayer for Stopping {
    type Maintenance = MemoryStore;

    fn inner_maintenance(&self) -> &Self::Maintenance {
        &self.store
    }
}

/// Sends a message and approves whatever waits, until nothing does.
async fn converse(chat: &Chat, text: &str) {
    let Ok(turn) = chat.session(SESSION).submit(ChatMessage::user(text), SendOptions::new().key("k")).await
    else {
        return;
    };
    let mut outcome = turn.outcome().await;
    while outcome.as_str() == "suspended" {
        let pending = chat.session(SESSION).pending().await.unwrap_or_default();
        let Some(wait) = pending.first() else { return };
        let Ok(turn) = answer(chat, wait, json!({ "approved": true })).await else { return };
        outcome = turn.outcome().await;
    }
}

/// Cancels whatever runs or waits right after the n-th write; returns whether there was one.
async fn cancelled_at(n: u64, text: &'static str, recovery: Recovery) -> bool {
    let (model, world) = (Watched::scripted(script()), World::default());
    let store = Stopping {
        store: MemoryStore::new(),
        at: n,
        writes: Arc::default(),
        reached: Arc::default(),
        go: Arc::default(),
    };
    let chat = open(small_with(model.clone(), &world, recovery).build().unwrap(), store.clone());
    let conversing = tokio::spawn({
        let chat = chat.clone();
        async move { converse(&chat, text).await }
    });
    let stopped = tokio::select! {
        () = store.reached.notified() => true,
        () = tokio::time::sleep(Duration::from_secs(60)) => false,
    };
    if stopped {
        // An accepted turn is cancelled by its name, whichever turn of its invocation it is.
        let key = SessionKey::new(TenantId::single(), SessionId::parse(SESSION).unwrap());
        let query = TurnRowQuery::From { no: 0, limit: 100 };
        let last = store.store.read_turns(&key, &query).await.unwrap().pop().unwrap();
        let name = TurnId { invocation: last.invocation, ordinal: last.ordinal };
        let cancelling = tokio::spawn({
            let chat = chat.clone();
            async move { drop(chat.cancel(&name).await) }
        });
        // Paused time passes only when nothing can go on: the cancel has been asked for.
        tokio::time::sleep(Duration::from_millis(1)).await;
        store.go.notify_one();
        cancelling.await.unwrap();
    }
    // The following turn is not stopped.
    store.go.notify_one();
    conversing.await.unwrap();
    let place = format!("{text}, cancelled at write {n}");
    completed(&send(&chat, "say hello").await);
    model.assert_legal(&place);
    stopped
}

#[tokio::test(start_paused = true)]
async fn wherever_a_turn_is_cancelled_the_next_request_is_legal() {
    for recovery in recoveries() {
        for text in ASKED {
            let mut n = 1;
            while cancelled_at(n, text, recovery).await {
                n += 1;
            }
            assert!(n > 3, "{text}: {n} writes");
        }
    }
}

/// Lets the process die at the n-th write, and the turn be cancelled or go on in the next one.
async fn dead_at((n, land): (u64, FailedWriteEffect), text: &str, recovery: Recovery, cancels: bool) -> bool {
    let (model, world, store) = (Watched::scripted(script()), World::default(), MemoryStore::new());
    let agent = || small_with(model.clone(), &world, recovery).build().unwrap();
    let dying = FaultInjectingStore::new(Arc::new(store.clone()), n, land);
    let first = open(agent(), dying.clone());
    drop(tokio::time::timeout(Duration::from_secs(60), converse(&first, text)).await);
    let after = store.reopen();
    first.shutdown(Duration::ZERO).await;
    let second = open(agent(), after);
    for turn in second.sweep().await.unwrap() {
        if cancels {
            drop(second.cancel(turn.id()).await.unwrap());
        }
        turn.outcome().await;
    }
    if cancels {
        for wait in second.session(SESSION).pending().await.unwrap() {
            let name = TurnId { invocation: wait.invocation.clone(), ordinal: 0 };
            drop(second.cancel(&name).await);
        }
    } else {
        converse(&second, text).await;
    }
    completed(&send(&second, "say hello").await);
    model.assert_legal(&format!("{text}, dead at write {n}, {land:?}, cancelled: {cancels}"));
    dying.fired()
}

#[tokio::test(start_paused = true)]
async fn wherever_the_process_dies_the_next_request_is_legal() {
    let cases = recoveries().into_iter().flat_map(|it| [(it, false), (it, true)]);
    for (recovery, cancels) in cases {
        for text in ASKED {
            for land in [FailedWriteEffect::Before, FailedWriteEffect::After] {
                let mut n = 1;
                while dead_at((n, land), text, recovery, cancels).await {
                    n += 1;
                }
                assert!(n > 3, "{text}: {n} writes");
            }
        }
    }
}
