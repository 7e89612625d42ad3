//! Several processes on one store: one of them exports a tenant at a time.

use std::sync::Arc;
use std::time::Duration;

use singletree_durable::MemoryStore;
use singletree_export::TraceExporter;
use singletree_harness::Chat;

use crate::rig::{Reply, ScriptedReceiver, backlog, env, export_for, open, stored_spans, tenant};

#[tokio::test(start_paused = true)]
async fn two_processes_send_each_turn_once_between_them() {
    let (store, env) = (MemoryStore::new(), env());
    let (chat, receiver) = (open(store.clone(), &env), ScriptedReceiver::replying([]));
    let exporters = [0, 1].map(|_| {
        TraceExporter::new(chat.clone(), Arc::new(store.clone()), receiver.clone(), env.clone())
            .shared_store()
    });
    for no in 0..300 {
        chat.of(tenant(&format!("t{}", no % 3))).session(format!("s{no}").as_str()).send("one").await;
    }
    let span = Duration::from_mins(1);
    tokio::join!(export_for(&exporters[0], span), export_for(&exporters[1], span));
    let sent: u64 = exporters.iter().map(|it| it.counts().sent_turns).sum();
    assert_eq!(sent, 300);
    assert_eq!(receiver.count(), receiver.spans().len(), "no span is sent twice");
}

/// A chat with a turn that waits to be exported, and a process whose receiver does not answer.
async fn hanging_process()
-> (MemoryStore, Chat, TraceExporter, impl Fn(&Arc<ScriptedReceiver>) -> TraceExporter) {
    let (store, env) = (MemoryStore::new(), env());
    let (chat, hanging) = (open(store.clone(), &env), ScriptedReceiver::replying([Reply::Hang]));
    chat.session("s").send("one").await;
    let (exporting, documents) = (chat.clone(), store.clone());
    let make = move |receiver: &Arc<ScriptedReceiver>| {
        TraceExporter::new(exporting.clone(), Arc::new(documents.clone()), receiver.clone(), env.clone())
            .shared_store()
    };
    (store, chat, make(&hanging), make)
}

#[tokio::test(start_paused = true)]
async fn what_a_dead_process_had_claimed_another_one_exports_later() {
    let (store, chat, dead, make) = hanging_process().await;
    // A process that dies says nothing.
    tokio::time::timeout(Duration::from_secs(10), dead.run(std::future::pending())).await.unwrap_err();
    let receiver = ScriptedReceiver::replying([]);
    let second = make(&receiver);
    export_for(&second, Duration::from_secs(30)).await;
    assert_eq!(receiver.count(), 0, "the claim of the first has not ended");
    export_for(&second, Duration::from_secs(15)).await;
    assert_eq!(receiver.spans(), stored_spans(&chat, "s").await);
    assert_eq!(backlog(&store, &tenant("default")).await, 0);
}

#[tokio::test(start_paused = true)]
async fn what_a_process_that_is_stopped_had_claimed_another_one_exports_at_once() {
    let (_, chat, stopped, make) = hanging_process().await;
    export_for(&stopped, Duration::from_secs(10)).await;
    let receiver = ScriptedReceiver::replying([]);
    export_for(&make(&receiver), Duration::from_secs(5)).await;
    assert_eq!(receiver.spans(), stored_spans(&chat, "s").await);
}
