//! Notices that a server left behind that died are sent by another server of the same database.

use std::time::Duration;

use serde_json::{Value, json};
use singletree_durable::{DocumentChange, DocumentPrecondition, InvocationId, JsonDocument, SessionId};
use singletree_engine::Clock;
use singletree_harness::{Notice, NoticeKind};

use crate::notify::{settle, stored, telling_at, tenant};
use crate::support::{Receiver, Rig};

const SECOND: Duration = Duration::from_secs(1);

/// Stores a notice as another server has written it, which perhaps was about to send it.
async fn leave_behind(rig: &Rig, place: &str, claim: Option<Value>) {
    let notice = Notice {
        id: format!("ntc_{place}"),
        place: format!("{place}/1"),
        tenant: tenant("default"),
        session: SessionId::parse(place).unwrap(),
        invocation: InvocationId::parse("i").unwrap(),
        turn: None,
        event: None,
        at: rig.clock.now(),
        trace: None,
        what: NoticeKind::Resumed { wait: 1, signal: "s".into(), how: "consumed".into() },
    };
    let mut body = notice.to_document_body().unwrap().decode::<serde_json::Map<String, Value>>().unwrap();
    body.extend(claim.map(|claim| ("claim".to_owned(), claim)));
    let write = DocumentChange::Write {
        key: notice.document_key(),
        expect: DocumentPrecondition::Absent,
        session: None,
        body: JsonDocument::from(&Value::Object(body)),
        expires_at: Some(notice.kept_until()),
    };
    rig.documents.change_documents(vec![write]).await.unwrap();
}

#[tokio::test]
async fn what_a_server_left_that_died_is_told_by_another_one_soon() {
    let mut receiver = Receiver::start().await;
    let rig = telling_at(&receiver).server(|it| it.shared_store(true)).start().await;
    settle().await;
    leave_behind(&rig, "heard", None).await;
    let until = rig.clock.now().saturating_add(SECOND * 21);
    leave_behind(&rig, "claimed", Some(json!({ "holder": "another", "until": until }))).await;
    let mut told = Vec::new();
    for second in 1..=60 {
        rig.clock.advance(SECOND);
        settle().await;
        told.extend(receiver.rest().iter().map(|it| (it.json()["data"]["session"].clone(), second)));
    }
    let [(heard, first), (claimed, second)] = &told[..] else { panic!("{told:?}") };
    assert_eq!((heard, claimed), (&json!("heard"), &json!("claimed")));
    assert!(*first <= 16 && (22..=40).contains(second), "{told:?}");
    stored(&rig, "default", 0).await;
    rig.stop().await;
}
