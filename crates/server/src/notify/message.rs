//! The body of a webhook request: names, ids and times, and no content of a conversation.

use serde::Serialize;
use singletree_harness::{Notice, NoticeKind, PendingWaitSummary};
use singletree_protocol::native::Time;

use crate::native::convert_time;

/// The body of a webhook request for a notice.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct WebhookMessage<'a> {
    id: &'a str,
    r#type: &'static str,
    timestamp: Time,
    data: WebhookMessageData<'a>,
}

#[derive(Debug, PartialEq, Serialize)]
struct WebhookMessageData<'a> {
    tenant: &'a str,
    session: &'a str,
    invocation: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    turn: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<&'a str>,
    #[serde(flatten)]
    what: NoticeSubject<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    link: Option<String>,
}

#[derive(Debug, PartialEq, Serialize)]
#[serde(untagged)]
enum NoticeSubject<'a> {
    Awaited {
        wait: u64,
        signal: &'a str,
        approval: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        action: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        risk: Option<&'static str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        deadline: Option<Time>,
    },
    Ended {
        wait: u64,
        signal: &'a str,
        how: &'a str,
    },
    Failed {
        category: &'a str,
        bucket: &'static str,
        retry_safe: bool,
    },
}

impl<'a> NoticeSubject<'a> {
    fn from_wait_summary(it: &'a PendingWaitSummary) -> Self {
        Self::Awaited {
            wait: it.wait,
            signal: &it.signal,
            approval: it.approval,
            action: it.tool.as_deref(),
            risk: classify_risk(it),
            deadline: it.deadline.map(convert_time),
        }
    }
}

/// Returns the risk of the awaited effect. An approval without a known effect is dangerous, and so is any effect that
/// is neither a read nor a safe write. A wait without effect that is no approval has no risk.
fn classify_risk(awaited: &PendingWaitSummary) -> Option<&'static str> {
    match awaited.effect.as_deref() {
        Some("read") => Some("safe"),
        Some("safe_write") => Some("caution"),
        Some(_) => Some("dangerous"),
        None => awaited.approval.then_some("dangerous"),
    }
}

impl<'a> WebhookMessage<'a> {
    /// Makes the message of a notice; `link` is the template of the address for people, if there is one.
    pub(super) fn from_notice(notice: &'a Notice, link: Option<&str>) -> Self {
        let (what, signal) = match &notice.what {
            NoticeKind::Suspended(it) | NoticeKind::Expiring(it) => {
                (NoticeSubject::from_wait_summary(it), Some(it.signal.as_str()))
            }
            NoticeKind::Resumed { wait, signal, how } => {
                (NoticeSubject::Ended { wait: *wait, signal, how }, Some(signal.as_str()))
            }
            NoticeKind::Errored { category, bucket, retry_safe } => {
                (NoticeSubject::Failed { category, bucket: bucket.as_str(), retry_safe: *retry_safe }, None)
            }
        };
        let data = WebhookMessageData {
            tenant: notice.tenant.as_str(),
            session: notice.session.as_str(),
            invocation: notice.invocation.as_str(),
            turn: notice.turn.as_ref().map(ToString::to_string),
            event: notice.event.as_deref(),
            what,
            link: link.map(|link| fill_link_template(link, notice, signal.unwrap_or_default())),
        };
        let kind = notice.what.notice_type().as_str();
        Self { id: &notice.id, r#type: kind, timestamp: convert_time(notice.at), data }
    }

    /// Writes it out.
    pub(super) fn to_json_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("it is texts, numbers and flags")
    }
}

/// Puts the names of a notice into the address where people go, as they can stand there.
fn fill_link_template(link: &str, notice: &Notice, signal: &str) -> String {
    let mut filled = String::new();
    let mut rest = link;
    while let Some((before, (name, after))) =
        rest.split_once('{').and_then(|(before, behind)| Some((before, behind.split_once('}')?)))
    {
        filled.push_str(before);
        match name {
            "tenant" => percent_encode(notice.tenant.as_str(), &mut filled),
            "session" => percent_encode(notice.session.as_str(), &mut filled),
            "signal" => percent_encode(signal, &mut filled),
            other => filled.extend(["{", other, "}"]),
        }
        rest = after;
    }
    filled.push_str(rest);
    filled
}

fn percent_encode(text: &str, out: &mut String) {
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(byte.into()),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use singletree_durable::{InvocationId, SessionId, TenantId, Timestamp};
    use singletree_harness::FailureBucket;

    use super::*;

    fn notice(what: NoticeKind) -> Notice {
        Notice {
            id: "ntc_1".into(),
            place: "a/b/1".into(),
            tenant: TenantId::single(),
            session: SessionId::parse("a/b {x}").unwrap(),
            invocation: InvocationId::parse("i").unwrap(),
            turn: "i.1".parse().ok(),
            event: Some("e.7".into()),
            at: Timestamp::from_millis(1_767_225_600_123),
            trace: None,
            what,
        }
    }

    fn awaited(approval: bool, effect: Option<&str>) -> PendingWaitSummary {
        let (tool, effect) = (approval.then(|| "send".to_owned()), effect.map(str::to_owned));
        let deadline = Some(Timestamp::from_millis(1_767_225_660_000));
        PendingWaitSummary { wait: 3, signal: "apr-1".into(), approval, tool, effect, deadline }
    }

    fn check(what: NoticeKind, link: Option<&str>, kind: &str, data: Value) {
        let notice = notice(what);
        let bytes = WebhookMessage::from_notice(&notice, link).to_json_bytes();
        let about = json!({ "tenant": "default", "session": "a/b {x}", "invocation": "i", "turn": "i.1", "event": "e.7" });
        let mut whole = about.as_object().unwrap().clone();
        whole.extend(data.as_object().unwrap().clone());
        let expected =
            json!({ "id": "ntc_1", "type": kind, "timestamp": "2026-01-01T00:00:00.123Z", "data": whole });
        assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap(), expected);
    }

    #[test]
    fn each_type_says_what_it_is_about() {
        let deadline = "2026-01-01T00:01:00.000Z";
        let waits = json!({ "wait": 3, "signal": "apr-1", "approval": true, "action": "send",
            "risk": "dangerous", "deadline": deadline });
        let what = || awaited(true, Some("destructive"));
        check(NoticeKind::Suspended(what()), None, "suspended", waits.clone());
        check(NoticeKind::Expiring(what()), None, "expiring", waits);
        let ended = NoticeKind::Resumed { wait: 3, signal: "apr-1".into(), how: "consumed".into() };
        let said = json!({ "wait": 3, "signal": "apr-1", "how": "consumed",
            "link": "https://x/default/a%2Fb%20%7Bx%7D?s=apr-1&{other}{" });
        check(ended, Some("https://x/{tenant}/{session}?s={signal}&{other}{"), "resumed", said);
        let failed = NoticeKind::Errored {
            category: "provider_rate_limit".into(),
            bucket: FailureBucket::RetryableTransient,
            retry_safe: true,
        };
        let said = json!({ "category": "provider_rate_limit", "bucket": "retryable_transient",
            "retry_safe": true });
        check(failed, None, "errored", said);
    }

    // An unknown effect is not safe.
    #[test]
    fn what_is_not_known_to_be_harmless_is_dangerous() {
        let check =
            |approval, effect, expected| assert_eq!(classify_risk(&awaited(approval, effect)), expected);
        check(true, Some("read"), Some("safe"));
        check(true, Some("safe_write"), Some("caution"));
        check(true, Some("local"), Some("dangerous"));
        check(true, Some("else"), Some("dangerous"));
        check(true, None, Some("dangerous"));
        check(false, None, None);
    }
}
