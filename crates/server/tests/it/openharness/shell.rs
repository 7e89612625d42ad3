//! Our own shell and our own engine: a conversation over the wire, and the typed client beside it.

use std::cell::Cell;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use serde_json::{Map, Value, json};
use singletree_client::{
    AnswerOutcome, Client, Confirmation, Connection, DeviceKeyStatus, DirectiveNote, EngineClient,
    EngineQuestion, EngineRetry, NoActionExecutor, PersonInterface, ShellConversation,
    ShellConversationParts, ShellProfile, ShellSession,
};
use singletree_http::{HttpClient, HttpLimits, Secret};
use singletree_protocol::native::{CreateSession, EventKind, ForkSession, Outcome, SignalAnswer};
use singletree_protocol::openharness::{PairClaim, PairConfirm, PairCreate, PairRevoke};

use crate::support::Rig;

/// A person who always decides the same way, and a record of the shown texts.
#[derive(Default)]
struct Decider {
    option: Option<usize>,
    seen: Arc<Mutex<Vec<String>>>,
}

impl PersonInterface for Decider {
    fn show_text(&mut self, text: &str) {
        self.seen.lock().unwrap().push(text.to_owned());
    }

    fn report_note(&mut self, note: &DirectiveNote) {
        self.seen.lock().unwrap().push(format!("{note:?}"));
    }

    fn ask_question<'a>(&'a mut self, question: &'a EngineQuestion) -> LocalBoxFuture<'a, Option<usize>> {
        self.seen.lock().unwrap().push(format!("{}: {}", question.action, question.arguments));
        Box::pin(std::future::ready(self.option))
    }

    fn ask_confirmation<'a>(&'a mut self, _asked: &'a Confirmation) -> LocalBoxFuture<'a, bool> {
        Box::pin(std::future::ready(false))
    }
}

fn connection(rig: &Rig, key: Option<&str>) -> Connection {
    let transport = Arc::new(HttpClient::new(HttpLimits::standard()).unwrap());
    Connection::new(transport, &format!("http://{}", rig.at), key.map(Secret::new)).unwrap()
}

/// Says something as this person, and returns how many questions are left open.
async fn say(rig: &Rig, person: &mut Decider, session: &str, intent: &str) -> (Option<String>, usize) {
    let count = Cell::new(0);
    let ids = || {
        count.set(count.get() + 1);
        format!("{session}-{}", count.get())
    };
    let clock = || Duration::ZERO;
    let mut hands = NoActionExecutor;
    let mut talk = ShellConversation::new(ShellConversationParts {
        engine: EngineClient::new(connection(rig, None), EngineRetry::never()),
        shell: ShellSession::new(ShellProfile::for_text_shell("test", "1"), Some(session.to_owned())),
        person,
        hands: &mut hands,
        ids: &ids,
        clock: &clock,
    });
    let ended = talk.send_intent(intent).await.unwrap();
    (ended.failed, ended.open.len())
}

#[tokio::test]
async fn a_person_is_shown_asked_and_obeyed() {
    let rig = Rig::start().await;
    let check = async |session: &str, option: Option<usize>, intent: &str, seen: &[&str]| {
        let mut person = Decider { option, ..Decider::default() };
        let ended = say(&rig, &mut person, session, intent).await;
        assert_eq!(*person.seen.lock().unwrap(), seen, "{session}");
        ended
    };
    assert_eq!(check("s", None, "say hi", &["You said: hi"]).await, (None, 0));
    let asked = r#"send: what: "a""#;
    assert_eq!(check("yes", Some(0), "send", &[asked, "All done."]).await, (None, 0));
    assert_eq!(check("no", Some(1), "send", &[asked, "Not done."]).await, (None, 0));
    let both = [asked, r#"send: what: "b""#, "All done."];
    assert_eq!(check("both", Some(0), "sends", &both).await, (None, 0));
    assert_eq!(check("open", None, "send", &[asked]).await, (None, 1));
    assert_eq!(rig.world.done(), ["send a", "send a", "send b"]);
    let failed = check(
        "fail",
        None,
        "fail correctable",
        &["That request couldn't be processed: the script fails. \
        Please adjust your message and try again."],
    )
    .await;
    assert_eq!(failed, (Some("invalid_request".into()), 0));
    rig.stop().await;
}

#[tokio::test]
async fn the_typed_client_says_asks_decides_and_follows() {
    let rig = Rig::start().await;
    let client = Client::new(connection(&rig, None));
    assert_eq!(client.list_agents().await.unwrap().items.len(), 2);
    let made = CreateSession { id: Some("a b/ü".into()), ..CreateSession::default() };
    let session = client.create_session(&made).await.unwrap();
    assert_eq!(client.fetch_session("a b/ü").await.unwrap(), session);
    let Outcome::Completed(said) = client.send_text("a b/ü", "say x", Some("key")).await.unwrap() else {
        panic!()
    };
    let Outcome::Completed(again) = client.send_text("a b/ü", "say x", Some("key")).await.unwrap() else {
        panic!()
    };
    assert_eq!(said, again);
    let conflict = client.send_text("a b/ü", "say y", Some("key")).await.unwrap_err();
    assert_eq!(conflict.category(), "chat_idempotency_conflict");
    let Outcome::Suspended(waiting) = client.send_text("a b/ü", "send", None).await.unwrap() else {
        panic!()
    };
    let pending = client.list_pending_waits(Some("a b/ü")).await.unwrap().items.remove(0);
    assert_eq!(pending.signal, waiting.wait.signal);
    assert_eq!(client.list_pending_waits(None).await.unwrap().items.len(), 1);
    let payload: Map<String, Value> = Map::from_iter([("approved".to_owned(), Value::from(true))]);
    let answer = SignalAnswer { payload, wait: Some(pending.number), action: pending.action };
    let answered = client.answer_wait("a b/ü", &pending.signal, &answer).await.unwrap();
    assert!(matches!(answered, AnswerOutcome::Ended(it) if matches!(*it, Outcome::Completed(_))));
    assert_eq!(client.list_messages("a b/ü", 0, Some(2)).await.unwrap().items.len(), 2);
    let turns = client.list_turns("a b/ü", None, None).await.unwrap().items;
    assert_eq!(client.fetch_turn("a b/ü", &turns[0].id).await.unwrap().id, said.turn);
    assert_eq!(client.cancel_turn("a b/ü", &turns[0].id).await.unwrap().id, said.turn);
    let fork =
        client.fork_session("a b/ü", &ForkSession { at: Some(2), id: Some("fork".into()) }).await.unwrap();
    assert_eq!(fork.messages, 2);
    assert_eq!(client.export_session("fork").await.unwrap().session, "fork");
    assert_eq!(client.list_sessions(None, Some(1)).await.unwrap().items.len(), 1);
    client.delete_session("fork").await.unwrap();
    assert_eq!(client.fetch_session("fork").await.unwrap_err().category(), "chat_session_unknown");
    rig.stop().await;
}

#[tokio::test]
async fn the_typed_client_takes_a_stream_up_again_where_it_was() {
    let rig = Rig::start().await;
    let client = Client::new(connection(&rig, None));
    client.send_text("s", "say a", None).await.unwrap();
    let mut events = client.follow_session("s", None).await.unwrap();
    let first = events.next_event().await.unwrap().unwrap();
    assert!(matches!(first.what, EventKind::TurnAccepted { .. }));
    let last = events.last_event_id().unwrap().to_owned();
    drop(events);
    let mut events = client.follow_session("s", Some(&last)).await.unwrap();
    let next = events.next_event().await.unwrap().unwrap();
    assert!(matches!(next.what, EventKind::MessageAppended { .. }), "{next:?}");
    rig.stop().await;
}

#[tokio::test]
async fn a_device_is_paired_with_the_typed_client() {
    let rig = Rig::asking().await;
    let engine = |key: Option<&str>| EngineClient::new(connection(&rig, key), EngineRetry::never());
    let made =
        rig.operator().post("/v1/keys", &json!({ "tenant": "acme", "scopes": ["admin"] })).await.json();
    let admin = engine(made["secret"].as_str());
    let device = engine(None);
    let asked = device.pair_create(&PairCreate::default()).await.unwrap();
    let claim = PairClaim { pairing_id: asked.pairing_id, ..PairClaim::default() };
    assert_eq!(device.pair_claim(&claim).await.unwrap(), DeviceKeyStatus::Waiting);
    let wrong = PairConfirm { code: "AAAAAAAA".into(), ..PairConfirm::default() };
    assert_eq!(admin.pair_confirm(&wrong).await.unwrap_err().category(), "invalid_request");
    admin.pair_confirm(&PairConfirm { code: asked.code, ..PairConfirm::default() }).await.unwrap();
    let DeviceKeyStatus::Paired(paired) = device.pair_claim(&claim).await.unwrap() else { panic!() };
    let own = engine(Some(&paired.access_token));
    assert_eq!(own.request_capabilities().await.unwrap().sop_ids, ["brief", "scripted"]);
    admin.pair_revoke(&PairRevoke { device_id: paired.device_id, tenant_id: None }).await.unwrap();
    assert!(own.request_capabilities().await.is_err());
    rig.stop().await;
}
