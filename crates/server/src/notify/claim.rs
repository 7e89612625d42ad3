//! Which of several servers on one database sends a notice.
//!
//! A claim is a part of the notice's document with a time at which it ends. It keeps two servers from sending the same notice
//! at the same time. Where clocks differ, or a server stands still, both may send it, under the same id.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use singletree_durable::{
    DocumentChange, DocumentPrecondition, DocumentStore, JsonDocument, Result, Timestamp,
};
use singletree_harness::Notice;

/// How long a claim lasts beyond the next attempt: writing takes time, and clocks differ.
const CLAIM_MARGIN: Duration = Duration::from_secs(10);

/// The field of the document.
const FIELD: &str = "claim";

#[derive(Debug, Serialize, Deserialize)]
struct NoticeClaim {
    holder: String,
    until: Timestamp,
}

/// The claims of one server.
#[derive(Debug)]
pub(super) struct NoticeClaims {
    /// The name of the server, drawn when it began.
    holder: String,
}

impl NoticeClaims {
    pub(super) fn new(holder: String) -> Self {
        Self { holder }
    }

    /// Claims a notice, or claims it for longer; false when another server has it, or it is gone. `until` is the time of the next
    /// attempt, if this one fails: when no attempt of this server has followed by then, it has died.
    pub(super) async fn claim_notice(
        &self,
        documents: &dyn DocumentStore,
        notice: &Notice,
        (now, until): (Timestamp, Timestamp),
    ) -> Result<bool> {
        let key = notice.document_key();
        let Some(stored) = documents.read_document(&key).await? else { return Ok(false) };
        let Ok(mut body) = stored.body.decode::<Map<String, Value>>() else { return Ok(false) };
        let held = body.get(FIELD).and_then(|claim| NoticeClaim::deserialize(claim).ok());
        if held.is_some_and(|claim| claim.holder != self.holder && claim.until > now) {
            return Ok(false);
        }
        let claim = NoticeClaim { holder: self.holder.clone(), until: until.saturating_add(CLAIM_MARGIN) };
        let Ok(claim) = serde_json::to_value(claim) else { return Ok(false) };
        body.insert(FIELD.to_owned(), claim);
        let (body, expires_at) = (JsonDocument::from(&Value::Object(body)), stored.expires_at);
        let expect = DocumentPrecondition::Version(stored.version);
        let write = DocumentChange::Write { key, expect, session: stored.session, body, expires_at };
        match documents.change_documents(vec![write]).await {
            Ok(()) => Ok(true),
            Err(error) if error.is_refusal() => Ok(false),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use singletree_durable::{InvocationId, MemoryStore, SessionId, TenantId};
    use singletree_harness::NoticeKind;

    use super::*;

    fn notice() -> Notice {
        Notice {
            id: "ntc_1".into(),
            place: "s/1".into(),
            tenant: TenantId::single(),
            session: SessionId::parse("s").unwrap(),
            invocation: InvocationId::parse("i").unwrap(),
            turn: None,
            event: None,
            at: Timestamp::from_millis(0),
            trace: None,
            what: NoticeKind::Resumed { wait: 1, signal: "s".into(), how: "consumed".into() },
        }
    }

    #[tokio::test]
    async fn a_notice_is_sent_by_one_server_at_a_time() {
        let (store, notice) = (MemoryStore::new(), notice());
        let write = DocumentChange::Write {
            key: notice.document_key(),
            expect: DocumentPrecondition::Absent,
            session: None,
            body: notice.to_document_body().unwrap(),
            expires_at: Some(notice.kept_until()),
        };
        store.change_documents(vec![write]).await.unwrap();
        let (one, two) = (NoticeClaims::new("one".into()), NoticeClaims::new("two".into()));
        let at = |seconds: i64| Timestamp::from_millis(seconds * 1000);
        let check = async |server: &NoticeClaims, seconds: i64, may_send: bool| {
            let times = (at(seconds), at(seconds + 110));
            let claimed = server.claim_notice(&store, &notice, times).await.unwrap();
            assert_eq!(claimed, may_send, "{} at {seconds}", server.holder);
        };
        check(&one, 0, true).await;
        check(&two, 1, false).await;
        check(&one, 100, true).await;
        check(&two, 200, false).await;
        // The other one has died.
        check(&two, 221, true).await;
        check(&one, 222, false).await;
        // The notice reads as before, and is kept as long.
        let stored = store.read_document(&notice.document_key()).await.unwrap().unwrap();
        assert_eq!(Notice::from_document(&stored).unwrap(), notice);
        assert_eq!(stored.expires_at, Some(notice.kept_until()));
        let remove = DocumentChange::Remove { key: notice.document_key(), expect: DocumentPrecondition::Any };
        store.change_documents(vec![remove]).await.unwrap();
        check(&two, 223, false).await;
    }
}
