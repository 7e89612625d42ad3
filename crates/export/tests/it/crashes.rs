//! The process dies at every write, of the conversation or of the export; the received spans are the stored ones.

use std::sync::Arc;
use std::time::Duration;

use singletree_durable::{DocumentStore, Journal, JournalMaintenance, MemoryStore};
use singletree_env::Env;
use singletree_harness::{Chat, SendOptions};
use singletree_llm::ChatMessage;
use singletree_store_testing::{FailedWriteEffect, FaultInjectingStore};

use crate::rig::{Reply, ScriptedReceiver, approve, backlog, env, open, stored_spans, tenant};

/// One process: it continues the conversation as far as it lives, and exports meanwhile.
async fn process<S>(
    (store, env): (S, &Env),
    receiver: &Arc<ScriptedReceiver>,
    alive: impl Fn() -> bool + Sync,
) -> Chat
where
    S: Journal + JournalMaintenance + DocumentStore + Clone + 'static,
{
    let chat = open(store.clone(), env);
    let exporter =
        singletree_export::TraceExporter::new(chat.clone(), Arc::new(store), receiver.clone(), env.clone());
    let talking = async {
        for turn in chat.sweep().await.unwrap_or_default() {
            drop(turn.outcome().await);
        }
        let session = chat.session("s");
        for key in ["k1", "k2"] {
            let options = SendOptions::new().key(key).agent("asking");
            if let Ok(turn) = session.submit(ChatMessage::user(key), options).await {
                drop(turn.outcome().await);
            }
            if alive() {
                approve(&chat, "s").await;
            }
        }
        tokio::time::sleep(Duration::from_secs(8)).await;
    };
    exporter.run(talking).await;
    chat
}

#[tokio::test(start_paused = true)]
async fn a_death_at_any_write_loses_no_span_and_sends_none_of_what_is_not_stored() {
    for (land, replies) in [
        (FailedWriteEffect::Before, vec![]),
        (FailedWriteEffect::After, vec![]),
        (FailedWriteEffect::Before, vec![Reply::TakeAndFail]),
    ] {
        let mut n = 1;
        loop {
            let env = env();
            let (store, receiver) = (MemoryStore::new(), ScriptedReceiver::replying(replies.clone()));
            let dying = FaultInjectingStore::new(Arc::new(store.clone()), n, land);
            let first = process((dying.clone(), &env), &receiver, || !dying.fired()).await;
            first.shutdown(Duration::ZERO).await;
            let store = store.reopen();
            let second = process((store.clone(), &env), &receiver, || true).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            let expected = stored_spans(&second, "s").await;
            assert_eq!(receiver.spans(), expected, "it dies at {n}, {land:?}");
            assert_eq!(backlog(&store, &tenant("default")).await, 0);
            for span in expected.values() {
                let is_known =
                    span.parent_id.is_none_or(|parent| expected.contains_key(&(span.trace_id, parent)));
                assert!(is_known, "the parent of {} is missing", span.name);
            }
            if !dying.fired() {
                break;
            }
            n += 1;
        }
        assert!(n > 10, "the sweep has looked at something");
    }
}
