//! Notices of waits reach a person: webhooks to an endpoint that fails, is slow, goes away and comes back.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use singletree_durable::TenantId;
use singletree_engine::Clock;
use singletree_harness::{
    Answer, Chat, ChatTurnOutcome, Notice, NoticeSettings, NoticeType, SendOptions, SignalAddress,
};
use singletree_http::{Redactor, Secret};
use singletree_llm::ChatMessage;
use singletree_server::{Telemetry, Webhook};
use singletree_store_testing::{FailedWriteEffect, FaultInjectingStore};
use singletree_test_store::TestStore;

use crate::operating::{Lines, metric};
use crate::support::rig::within;
use crate::support::{Delivery, Receiver, Reply, Rig, RigBuilder, agents};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

pub(crate) fn tenant(name: &str) -> TenantId {
    TenantId::parse(name).unwrap()
}

fn webhook(of: &str, url: String) -> Webhook {
    Webhook::new(tenant(of), url, &Secret::new(SECRET)).unwrap()
}

/// A rig that tells notices.
fn telling(webhooks: Vec<Webhook>) -> RigBuilder {
    let notices = webhooks.iter().fold(NoticeSettings::new(), |notices, it| {
        notices.with_tenant_types(it.tenant().clone(), it.wanted_types())
    });
    Rig::builder().chat(|it| it.notices(notices)).server(|it| it.webhooks(webhooks))
}

/// A rig that tells the notices of the tenant `default`.
pub(crate) fn telling_at(receiver: &Receiver) -> RigBuilder {
    telling(vec![webhook("default", receiver.url())])
}

async fn outcome(chat: &Chat, session: &str, text: &str) -> Arc<ChatTurnOutcome> {
    let turn = chat.session(session).submit(ChatMessage::user(text), SendOptions::new()).await.unwrap();
    within(turn.outcome()).await
}

async fn suspend(chat: &Chat, session: &str) {
    assert_eq!(outcome(chat, session, "send").await.as_str(), "suspended");
}

async fn approve(chat: &Chat, session: &str) {
    let pending = chat.session(session).pending().await.unwrap().remove(0);
    let payload = json!({ "approved": true }).as_object().unwrap().clone();
    let answer = Answer::new(payload).to(pending.wait.no, pending.wait.action.clone().unwrap()).from("ann");
    let address =
        SignalAddress::Session { session: session.into(), signal: pending.descriptor.signal_id.clone() };
    within(chat.answer(address, answer).await.unwrap().outcome()).await;
}

/// Returns how many notices of a tenant are stored once there are so many.
pub(crate) async fn stored(rig: &Rig, of: &str, expected: usize) {
    let settled = async {
        loop {
            let stored = rig.documents.read_documents(&tenant(of), Notice::KIND, None, 100).await.unwrap();
            if stored.len() == expected {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    within(settled).await;
}

fn check_signature(delivery: &Delivery) {
    let (id, at) = (delivery.id(), delivery.header("webhook-timestamp"));
    let key = STANDARD.decode(SECRET.strip_prefix("whsec_").unwrap()).unwrap();
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
    mac.update(format!("{id}.{at}.").as_bytes());
    mac.update(&delivery.body);
    let expected = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
    assert_eq!(delivery.header("webhook-signature"), expected);
}

#[tokio::test]
async fn what_waits_what_came_of_it_and_what_failed_is_told_signed_and_without_content() {
    let mut receiver = Receiver::start().await;
    let link = "https://chat.example.com/{tenant}/{session}#{signal}";
    let rig = telling(vec![webhook("default", receiver.url()).link_template(link)]).start().await;
    suspend(&rig.chat, "a b").await;
    let wait = rig.chat.session("a b").pending().await.unwrap().remove(0);
    let told = receiver.next().await;
    check_signature(&told);
    assert_eq!(told.header("content-type"), "application/json");
    assert_eq!(told.header("webhook-timestamp"), "1767225600");
    let signal = &wait.descriptor.signal_id;
    let expected = json!({
        "id": told.id(), "type": "suspended", "timestamp": "2026-01-01T00:00:00.000Z",
        "data": {
            "tenant": "default", "session": "a b", "invocation": wait.invocation, "turn": wait.invocation,
            "event": told.json()["data"]["event"], "wait": 0, "signal": signal, "approval": true,
            "action": "send", "risk": "dangerous",
            "link": format!("https://chat.example.com/default/a%20b#{signal}"),
        },
    });
    assert_eq!(told.json(), expected);
    stored(&rig, "default", 0).await;

    approve(&rig.chat, "a b").await;
    let told = receiver.next().await;
    assert_eq!((told.kind(), &told.json()["data"]["how"]), ("resumed".into(), &json!("consumed")));
    outcome(&rig.chat, "a b", "canary").await;
    let told = receiver.next().await;
    check_signature(&told);
    assert_eq!(
        (told.kind(), &told.json()["data"]["category"]),
        ("errored".into(), &json!("provider_invalid_request"))
    );
    // INV-16: neither the messages nor the provider's diagnostic.
    assert!(!String::from_utf8_lossy(&told.body).contains(agents::CANARY));
    stored(&rig, "default", 0).await;
    rig.stop().await;
    assert!(receiver.rest().is_empty());
}

#[tokio::test]
async fn what_the_endpoint_fails_to_take_is_told_again_under_the_same_id_later_and_later() {
    let mut receiver = Receiver::start().await;
    let replies = [Reply::Status(500), Reply::Status(503), Reply::After(429, 1000), Reply::Status(302)];
    receiver.answer(replies);
    let rig = telling_at(&receiver).start().await;
    suspend(&rig.chat, "s").await;
    let first = receiver.next().await;
    let mut at = vec![first.header("webhook-timestamp").parse::<i64>().unwrap()];
    for _ in 0..4 {
        // Until it is tried again, time passes second by second.
        let again = loop {
            rig.clock.advance(SECOND);
            tokio::task::yield_now().await;
            if let Some(again) = receiver.rest().into_iter().next() {
                break again;
            }
            settle().await;
        };
        assert_eq!((again.id(), &again.body), (first.id(), &first.body));
        check_signature(&again);
        at.push(again.header("webhook-timestamp").parse().unwrap());
    }
    let waited: Vec<i64> = at.windows(2).map(|it| it[1] - it[0]).collect();
    // How long at most is checked where no socket takes time: in the queue's own tests.
    assert!(waited[1] >= 1 && waited[2] >= 1000 && waited[3] >= 4, "{waited:?}");
    stored(&rig, "default", 0).await;
    rig.stop().await;
    assert!(receiver.rest().is_empty());
}

/// Lets every task run that can, including those that wait for sockets.
pub(crate) async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

/// Lets time pass second by second until so many deliveries have failed or were given up, and returns their lines.
async fn failures(rig: &Rig, lines: &Lines, expected: usize) -> Vec<Value> {
    let enough = async {
        while lines.of("delivery").len() < expected {
            rig.clock.advance(SECOND);
            settle().await;
        }
    };
    within(enough).await;
    lines.of("delivery")
}

// INV-16
#[tokio::test]
async fn an_operator_reads_of_each_delivery_that_fails_and_counts_all_of_them() {
    let mut receiver = Receiver::start().await;
    receiver.answer([500, 302, 204, 410].map(Reply::Status));
    let lines = Arc::new(Lines::default());
    let telemetry = Telemetry::new(lines.clone(), Redactor::default());
    let url = receiver.url() + "?token=canary-of-the-address";
    // Nobody listens there.
    let away = webhook("away", "http://127.0.0.1:1/hook?token=canary-of-the-address".to_owned());
    let rig = telling(vec![webhook("default", url), away]).telemetry(telemetry).start().await;
    let line = |at: &Value, notice: &str, attempt: u64, outcome: &str| {
        json!({ "at": at, "kind": "delivery", "tenant": "default", "notice": notice, "attempt": attempt,
                "outcome": outcome })
    };
    let check = |told: &Value, expected: Value, more: Value| {
        let mut whole = expected;
        whole.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        assert_eq!(*told, whole);
    };
    suspend(&rig.chat, "s").await;
    let told = failures(&rig, &lines, 2).await;
    let first = receiver.next().await.id().to_owned();
    check(&told[0], line(&told[0]["at"], &first, 1, "failed"), json!({ "status": 500 }));
    check(&told[1], line(&told[1]["at"], &first, 2, "failed"), json!({ "status": 302 }));
    let mut again = 0;
    while again < 2 {
        rig.clock.advance(SECOND);
        settle().await;
        again += receiver.rest().len();
    }
    stored(&rig, "default", 0).await;

    suspend(&rig.chat, "t").await;
    let told = failures(&rig, &lines, 3).await;
    let second = receiver.next().await.id().to_owned();
    check(&told[2], line(&told[2]["at"], &second, 1, "given_up"), json!({ "status": 410 }));

    suspend(&rig.chat.of(tenant("away")), "u").await;
    let away = async {
        while lines.of("delivery").len() < 4 {
            tokio::task::yield_now().await;
        }
    };
    within(away).await;
    rig.clock.advance(HOUR * 25);
    let told = failures(&rig, &lines, 5).await;
    let third = told[3]["notice"].as_str().unwrap();
    let elsewhere = json!({ "tenant": "away", "category": "http_unreachable" });
    check(&told[3], line(&told[3]["at"], third, 1, "failed"), elsewhere);
    check(&told[4], line(&told[4]["at"], third, 2, "given_up"), json!({ "tenant": "away" }));
    assert!(first != third && second != third);
    stored(&rig, "away", 0).await;

    let text = rig.client().get("/metrics").await.text();
    for (outcome, count) in [("delivered", "1"), ("failed", "3"), ("given_up", "2")] {
        let name = format!("singletree_deliveries_total{{outcome=\"{outcome}\"}}");
        assert_eq!(metric(&text, &name).as_deref(), Some(count), "{name}\n{text}");
    }
    let all = lines.all().concat();
    assert!(!all.contains("canary-of-the-address") && !all.contains("/hook"), "{all}");
    rig.stop().await;
}

#[tokio::test]
async fn an_endpoint_that_is_away_is_told_when_it_is_back() {
    let receiver = Receiver::start().await;
    let (at, rig) = (receiver.at, telling_at(&receiver).start().await);
    receiver.stop().await;
    suspend(&rig.chat, "s").await;
    outcome(&rig.chat, "t", "fail correctable").await;
    stored(&rig, "default", 2).await;
    settle().await;
    let mut receiver = Receiver::start_at(at).await;
    let mut kinds = Vec::new();
    while kinds.len() < 2 {
        rig.clock.advance(SECOND * 10);
        settle().await;
        kinds.extend(receiver.rest().iter().map(Delivery::kind));
    }
    kinds.sort();
    assert_eq!(kinds, ["errored", "suspended"]);
    stored(&rig, "default", 0).await;
    rig.stop().await;
}

#[tokio::test]
async fn an_endpoint_that_does_not_answer_holds_up_no_turn_and_no_other_tenant() {
    let (mut slow, mut quick) = (Receiver::start().await, Receiver::start().await);
    slow.answer([Reply::Never; 100]);
    let patient = webhook("a", slow.url()).response_timeout(HOUR);
    let rig = telling(vec![patient, webhook("b", quick.url())]).start().await;
    let (a, b) = (rig.chat.of(tenant("a")), rig.chat.of(tenant("b")));
    for n in 0..20 {
        suspend(&a, &format!("s{n}")).await;
        suspend(&b, &format!("s{n}")).await;
        approve(&a, &format!("s{n}")).await;
    }
    for _ in 0..20 {
        assert_eq!(quick.next().await.json()["data"]["tenant"], "b");
    }
    stored(&rig, "b", 0).await;
    stored(&rig, "a", 40).await;
    // It was asked by a few at once, and by no more.
    for _ in 0..4 {
        slow.next().await;
    }
    settle().await;
    assert!(slow.rest().is_empty());
    drop(rig);
}

/// Starts a rig over a store that dies at its n-th write, and has something wait. Whether that much was written.
async fn dying(store: &TestStore, n: u64, land: FailedWriteEffect, receiver: &Receiver) -> (Rig, bool) {
    let failing = FaultInjectingStore::new(Arc::new(store.clone()), n, land);
    let rig = telling_at(receiver).start_on(failing).await;
    // The server's writes at its start come before the turn, so that none falls between the turn's end and the removal.
    settle().await;
    let suspended = match rig.chat.session("s").submit(ChatMessage::user("send"), SendOptions::new()).await {
        Ok(turn) => within(turn.outcome()).await.as_str() == "suspended",
        Err(_) => false,
    };
    (rig, suspended)
}

// The process dies when the endpoint has taken a notice, and that was not written down, or was.
#[tokio::test]
async fn what_was_told_and_not_removed_is_told_again_by_the_next_process_under_the_same_id() {
    // The first write behind the one that suspends: the removal.
    let mut n = 1;
    while !dying(&TestStore::new(), n, FailedWriteEffect::Before, &Receiver::start().await).await.1 {
        n += 1;
    }
    for land in [FailedWriteEffect::Before, FailedWriteEffect::After] {
        let (store, mut receiver) = (TestStore::new(), Receiver::start().await);
        let (rig, suspended) = dying(&store, n, land, &receiver).await;
        assert!(suspended);
        let first = receiver.next().await;
        // In this process it is not told again, however often its removal fails.
        for _ in 0..20 {
            rig.clock.advance(HOUR / 4);
            settle().await;
        }
        assert!(receiver.rest().is_empty());
        let next = telling_at(&receiver).after(&rig).start_on(store.reopen()).await;
        drop(rig);
        match land {
            FailedWriteEffect::Before => {
                let again = receiver.next().await;
                assert_eq!((again.id(), &again.body), (first.id(), &first.body));
                stored(&next, "default", 0).await;
            }
            FailedWriteEffect::After => {
                stored(&next, "default", 0).await;
                settle().await;
            }
        }
        next.stop().await;
        let rest = receiver.rest();
        assert!(rest.is_empty(), "{land:?}: {:?}", rest.iter().map(|it| it.json()).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn what_was_before_the_first_configuration_is_not_told_and_what_was_left_is() {
    let store = TestStore::new();
    let before = Rig::builder().start_on(store.clone()).await;
    suspend(&before.chat, "old").await;
    outcome(&before.chat, "older", "fail correctable").await;
    let mut receiver = Receiver::start().await;
    let store = store.reopen();
    receiver.answer([Reply::Status(500)]);
    let rig = telling_at(&receiver).after(&before).start_on(store.clone()).await;
    drop(before);
    suspend(&rig.chat, "new").await;
    assert_eq!(receiver.next().await.json()["data"]["session"], "new");
    stored(&rig, "default", 1).await;
    let next = telling_at(&receiver).after(&rig).start_on(store.reopen()).await;
    drop(rig);
    assert_eq!(receiver.next().await.json()["data"]["session"], "new");
    approve(&next.chat, "old").await;
    let told = receiver.next().await;
    assert_eq!((told.kind(), &told.json()["data"]["session"]), ("resumed".into(), &json!("old")));
    next.stop().await;
    assert!(receiver.rest().is_empty());
}

fn hasty(webhook: Webhook) -> RigBuilder {
    let agent = |it: singletree_harness::ChatBuilder| it.agent(agents::hasty("hasty", HOUR * 10));
    telling(vec![webhook]).chat(agent)
}

async fn hurry(chat: &Chat, session: &str) {
    let options = SendOptions::new().agent("hasty");
    let turn = chat.session(session).submit(ChatMessage::user("send"), options).await.unwrap();
    assert_eq!(within(turn.outcome()).await.as_str(), "suspended");
}

#[tokio::test]
async fn a_deadline_that_is_near_is_told_once_and_not_of_a_wait_that_has_ended() {
    let mut receiver = Receiver::start().await;
    let lead =
        || webhook("default", receiver.url()).expiring_before(HOUR).notice_types([NoticeType::Expiring]);
    let (first, second) = (lead(), lead());
    let store = TestStore::new();
    let rig = hasty(first).start_on(store.clone()).await;
    for session in ["s", "answered"] {
        hurry(&rig.chat, session).await;
    }
    rig.clock.advance(HOUR * 9 - SECOND);
    settle().await;
    approve(&rig.chat, "answered").await;
    assert!(receiver.rest().is_empty());
    rig.clock.advance(SECOND);
    let told = receiver.next().await;
    check_signature(&told);
    let data = &told.json()["data"];
    assert_eq!((told.kind(), &data["session"]), ("expiring".into(), &json!("s")));
    assert_eq!(data["deadline"], "2026-01-01T10:00:00.000Z");
    stored(&rig, "default", 0).await;
    let next = hasty(second).after(&rig).start_on(store.reopen()).await;
    drop(rig);
    for _ in 0..10 {
        next.clock.advance(HOUR / 12);
        settle().await;
    }
    next.stop().await;
    assert!(receiver.rest().is_empty());
}

// INV-12
#[tokio::test]
async fn what_is_never_taken_is_given_up_when_it_is_too_old_or_unwanted() {
    let mut receiver = Receiver::start().await;
    receiver.answer([Reply::Status(410)]);
    let rig = telling_at(&receiver).start().await;
    suspend(&rig.chat, "unwanted").await;
    receiver.next().await;
    stored(&rig, "default", 0).await;
    receiver.answer([Reply::Status(400); 1000]);
    suspend(&rig.chat, "refused").await;
    let begun = rig.clock.now();
    let mut told = 0;
    while !rig.documents.read_documents(&tenant("default"), Notice::KIND, None, 1).await.unwrap().is_empty() {
        rig.clock.advance(HOUR / 6);
        settle().await;
        told += receiver.rest().len();
    }
    let age = rig.clock.now().duration_since(begun);
    assert!((HOUR * 24..HOUR * 26).contains(&age), "{age:?}");
    assert!((10..=24 * 6 + 12).contains(&told), "{told}");
    rig.stop().await;
}

// D25
#[tokio::test]
async fn nobody_is_told_of_a_session_that_was_deleted() {
    let mut receiver = Receiver::start().await;
    receiver.answer([Reply::Status(500)]);
    let rig = telling_at(&receiver).start().await;
    suspend(&rig.chat, "s").await;
    receiver.next().await;
    stored(&rig, "default", 1).await;
    rig.chat.session("s").delete(None).await.unwrap();
    for _ in 0..100 {
        rig.clock.advance(SECOND);
        settle().await;
    }
    outcome(&rig.chat, "t", "fail correctable").await;
    assert_eq!(receiver.next().await.json()["data"]["session"], "t");
    rig.stop().await;
    assert!(receiver.rest().is_empty());
}

#[test]
fn an_endpoint_that_cannot_be_is_refused() {
    let why = |url: &str, secret: &str| {
        let error = Webhook::new(tenant("t"), url, &Secret::new(secret)).err()?;
        assert_eq!(error.category(), "server_webhook_invalid");
        Some(error.to_string())
    };
    let good = "s".repeat(24);
    let refused = |part: &str, url: &str, secret: &str| {
        let told = why(url, secret).unwrap();
        assert!(told.contains(part) && !told.contains("canary"), "{told}");
    };
    refused("must begin with https://", "http://hooks.example.com/x", &good);
    refused("http", "ftp://127.0.0.1/x", &good);
    refused("does not read", "hooks", &good);
    refused("24 bytes", "https://hooks.example.com/x", "canary");
    for fine in
        ["https://hooks.example.com/x?y=z", "http://127.0.0.1:9/x", "http://localhost/", "http://[::1]/"]
    {
        assert_eq!(why(fine, &good), None, "{fine}");
    }
}

#[test]
fn what_is_shown_of_an_endpoint_holds_no_secret() {
    let shown = format!("{:?}", webhook("t", "https://hooks.example.com/x".into()));
    let bare = SECRET.strip_prefix("whsec_").unwrap();
    assert!(!shown.contains(bare) && shown.contains("hooks.example.com"), "{shown}");
}
