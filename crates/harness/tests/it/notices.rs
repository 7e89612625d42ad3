//! Notices of events: written in the same commit, of names and numbers only, and gone with the session.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use singletree_durable::{DocumentStore, Journal, StoredDocument, TenantId};
use singletree_engine::Signal;
use singletree_harness::{
    Chat, ChatBuilder, CreateOptions, Durability, Notice, NoticeDelivery, NoticeSettings, NoticeType,
    Retention, SendOptions,
};
use singletree_store_testing::{FailedWriteEffect, FaultInjectingStore};
use singletree_test_store::TestStore;

use crate::bench::{
    Log, TokioClock, agent, approve, asking, at, calling, category, chat_of, name, plain, user,
};

async fn written(store: &impl DocumentStore, tenant: &TenantId) -> Vec<StoredDocument> {
    store.read_documents(tenant, Notice::KIND, None, 100).await.unwrap()
}

/// Returns the bodies of the notices, but for their ids.
async fn said(store: &impl DocumentStore) -> Vec<Value> {
    let documents = written(store, &TenantId::single()).await;
    let said = documents.iter().map(|it| {
        let mut body: Value = it.body.decode().unwrap();
        let id = body.as_object_mut().unwrap().remove("id").unwrap();
        assert!(id.as_str().is_some_and(|it| it.starts_with("ntc_") && it.len() == 36), "{id}");
        assert_eq!(Notice::from_document(it).unwrap().document_key(), it.key);
        body
    });
    said.collect()
}

fn noticing(builder: ChatBuilder, types: impl IntoIterator<Item = NoticeType>) -> ChatBuilder {
    builder
        .notices(NoticeSettings::new().with_tenant_types(TenantId::single(), types))
        .clock(TokioClock::new())
}

fn approval() -> Signal {
    Signal::new("ok")
        .approves("digest")
        .with("tool", "send")
        .with("effect", "destructive")
        .with("arguments", json!({ "text": "SECRET" }))
        .expires_in(Duration::from_secs(60))
}

#[tokio::test(start_paused = true)]
async fn what_waits_and_how_it_ended_is_noticed_without_what_was_said() {
    let store = TestStore::new();
    let graph = asking(&Log::default(), approval());
    let chat = noticing(chat_of(&graph), NoticeType::ALL).open(store.clone()).unwrap();
    let mut hearing = chat.notices();
    let turn = chat.session("s").submit(user("SECRET"), SendOptions::new()).await.unwrap();
    assert_eq!(category(turn.outcome().await), "suspended");
    let (epoch, invocation) = (store.log_epoch().to_owned(), turn.id().invocation.to_string());
    let suspended = json!({
        "type": "suspended", "place": "s/00000000000000000002", "tenant": "default", "session": "s",
        "invocation": invocation, "turn": invocation, "event": format!("{epoch}.2"), "at": 1_000_000,
        "wait": 0, "signal": "ok", "approval": true, "tool": "send", "effect": "destructive",
        "deadline": 1_060_000,
    });
    assert_eq!(said(&store).await, std::slice::from_ref(&suspended));
    let Some(NoticeDelivery::Notice(heard)) = hearing.next_notice().await else { panic!("it is heard") };
    assert_eq!(*heard, Notice::from_document(&written(&store, &TenantId::single()).await[0]).unwrap());
    // Near deadlines are listed for the component that tells of them.
    let near = chat.deadlines(None, 9).await.unwrap();
    let expiring =
        Notice::for_expiring_wait(near[0].0.clone(), &near[0].1, chat.log_epoch(), heard.at).unwrap();
    assert_eq!((expiring.place.as_str(), &expiring.turn), ("s/w00000000000000000000", &None));
    assert_ne!(expiring.id, heard.id);
    assert!(chat.deadlines(Some(heard.at), 9).await.unwrap().is_empty());

    let answered = chat.answer(at("s", "ok"), approve(true).to(0, "digest").from("ann")).await.unwrap();
    assert_eq!(category(answered.outcome().await), "completed");
    let resumed = json!({
        "type": "resumed", "place": "s/00000000000000000003", "tenant": "default", "session": "s",
        "invocation": invocation, "turn": format!("{invocation}.1"), "event": format!("{epoch}.3"),
        "at": 1_000_000, "wait": 0, "signal": "ok", "how": "consumed",
    });
    assert_eq!(said(&store).await, [suspended, resumed]);
    let kept = &written(&store, &TenantId::single()).await[0];
    assert_eq!(kept.session, Some(name("s").session));
    assert_eq!(kept.expires_at, Some(heard.kept_until()));
}

#[tokio::test(start_paused = true)]
async fn what_failed_is_noticed_by_its_category() {
    let store = TestStore::new();
    let graph = calling(&Log::default(), Signal::new("ok"));
    let chat = noticing(chat_of(&graph), [NoticeType::Errored]).open(store.clone()).unwrap();
    chat.session("s").send(user("m")).await;
    assert_eq!(said(&store).await, Vec::<Value>::new(), "that it waits is not wanted");
    let answered = chat.answer(at("s", "ok"), approve(false)).await.unwrap();
    assert_eq!(category(answered.outcome().await), "provider_unavailable");
    let said = said(&store).await;
    assert_eq!(said.len(), 1);
    let what = ["type", "category", "bucket", "retry_safe", "turn"].map(|it| said[0][it].clone());
    let turn = json!(answered.id().to_string());
    let expected =
        [json!("errored"), json!("provider_unavailable"), json!("retryable_transient"), json!(true)];
    assert_eq!(what, [expected.as_slice(), &[turn]].concat()[..]);
}

#[tokio::test(start_paused = true)]
async fn nobody_hears_of_what_went_as_it_should() {
    let store = TestStore::new();
    let chat = noticing(chat_of(&plain(&Log::default())), NoticeType::ALL).open(store.clone()).unwrap();
    chat.session("s").send(user("m")).await;
    assert!(said(&store).await.is_empty());
    // Of a wait that its signal was there for already, neither.
    let store = TestStore::new();
    let graph = asking(&Log::default(), Signal::new("ok"));
    let early = agent(&graph, Durability::Step).early_signals(["ok"]);
    let builder = Chat::builder().agent(early);
    let chat = noticing(builder, NoticeType::ALL).open(store.clone()).unwrap();
    let made = chat.create_session(CreateOptions::new().session("s")).await;
    assert_eq!(made.unwrap().session, "s");
    chat.signal(at("s", "ok"), approve(true)).await.unwrap();
    let turn = chat.session("s").submit(user("m"), SendOptions::new()).await.unwrap();
    assert_eq!(category(turn.outcome().await), "suspended");
    assert!(said(&store).await.is_empty());
}

// INV-14, D25
#[tokio::test(start_paused = true)]
async fn notices_are_of_tenants_that_want_them_and_go_with_their_session() {
    let store = TestStore::new();
    let graph = asking(&Log::default(), Signal::new("ok"));
    let house = noticing(chat_of(&graph), [NoticeType::Suspended]).open(store.clone()).unwrap();
    let other = TenantId::parse("other").unwrap();
    for chat in [&house, &house.of(other.clone())] {
        chat.session("s").send(user("m")).await;
        chat.session("t").send(user("m")).await;
    }
    assert_eq!(written(&store, &TenantId::single()).await.len(), 2);
    assert!(written(&store, &other).await.is_empty());
    house.session("s").delete(None).await.unwrap();
    let left = written(&store, &TenantId::single()).await;
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].session, Some(name("t").session));
    // A retention forgets old events, not notices that are still to be told.
    house.retain(&Retention { events: Some(0), ..Retention::default() }).await.unwrap();
    assert_eq!(written(&store, &TenantId::single()).await.len(), 1);
}

// INV-3
#[tokio::test(start_paused = true)]
async fn there_is_a_notice_if_and_only_if_there_is_what_it_tells_of() {
    let graph = asking(&Log::default(), Signal::new("ok"));
    for n in 1.. {
        let mut fired = false;
        for land in [FailedWriteEffect::Before, FailedWriteEffect::After] {
            let store = TestStore::new();
            let failing = Arc::new(FaultInjectingStore::new(Arc::new(store.clone()), n, land));
            let chat = noticing(chat_of(&graph), NoticeType::ALL);
            let chat = chat.open_shared(failing.clone(), failing.clone()).unwrap();
            let talking = async {
                chat.session("s").send(user("m")).await;
                if let Ok(turn) = chat.answer(at("s", "ok"), approve(true)).await {
                    turn.outcome().await;
                }
            };
            drop(tokio::time::timeout(Duration::from_secs(60), talking).await);
            let events = store.read_events(&name("s"), 0, 100).await.unwrap();
            let notices = said(&store).await;
            for (noticed, told) in [("suspended", "turn.suspended"), ("resumed", "signal.received")] {
                let noticed = notices.iter().filter(|it| it["type"] == noticed).count();
                let told = events.iter().filter(|it| it.kind == told).count();
                assert_eq!(noticed, told, "{n} {land:?}");
            }
            fired |= failing.fired();
        }
        if !fired {
            assert!(n > 3, "{n}");
            break;
        }
    }
}
