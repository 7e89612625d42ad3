//! Interrupts: what a run waits for, named so that an answer is about exactly that (D2).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};
use singletree_engine::Descriptor;
use singletree_harness::{Answer, PendingWait, SuspendedTurn, Wait};
use singletree_protocol::agui::{Interrupt, OURS};

/// How the id of an interrupt begins.
const PREFIX: &str = "int_";

/// What an interrupt's id says: which wait, what it approves, which signal. Opaque to clients; what it names is compared with
/// what is stored, so that one that was made up or is of yesterday consumes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named {
    wait: u64,
    /// The digest of the action that an answer approves; empty where it approves none.
    action: String,
    pub(super) signal: String,
}

impl Named {
    fn of(wait: &Wait, descriptor: &Descriptor) -> Self {
        let action = wait.action.clone().unwrap_or_default();
        Self { wait: wait.no, action, signal: descriptor.signal_id.clone() }
    }

    /// Writes it as an id.
    fn id(&self) -> String {
        let Self { wait, action, signal } = self;
        format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(format!("{wait}.{action}.{signal}")))
    }

    /// Reads an id; none when it is not one of ours.
    pub(super) fn read(id: &str) -> Option<Self> {
        let named = URL_SAFE_NO_PAD.decode(id.strip_prefix(PREFIX)?).ok()?;
        let named = String::from_utf8(named).ok()?;
        let mut parts = named.splitn(3, '.');
        let (wait, action, signal) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Self { wait: wait.parse().ok()?, action: action.to_owned(), signal: signal.to_owned() })
    }

    /// Tells whether this is what is awaited.
    pub(super) fn is(&self, pending: &PendingWait) -> bool {
        *self == Self::of(&pending.wait, &pending.descriptor)
    }

    /// Makes an answer of a payload that holds for this wait and action only.
    pub(super) fn answer(&self, payload: Map<String, Value>) -> Answer {
        Answer::new(payload).to(self.wait, self.action.as_str())
    }
}

/// Returns the interrupt that a suspended turn is.
pub(super) fn of_turn(turn: &SuspendedTurn) -> Interrupt {
    interrupt(&turn.wait, &turn.signal_descriptor)
}

/// Returns the interrupt that a pending wait is.
pub(super) fn of_wait(wait: &PendingWait) -> Interrupt {
    interrupt(&wait.wait, &wait.descriptor)
}

fn interrupt(wait: &Wait, descriptor: &Descriptor) -> Interrupt {
    let metadata = descriptor.metadata.as_ref().and_then(Value::as_object);
    let said = |name: &str| metadata.and_then(|it| it.get(name)).and_then(Value::as_str);
    let (reason, message) = match (&wait.action, said("tool")) {
        (Some(_), Some(tool)) => ("approval", format!("May the tool `{tool}` be run?")),
        (Some(_), None) => ("approval", "May this be done?".to_owned()),
        (None, _) => ("input", "An answer is needed before this can go on.".to_owned()),
    };
    let ours = json!({
        "signal": descriptor.signal_id,
        "wait": wait.no,
        "action": wait.action,
        "metadata": descriptor.metadata,
    });
    Interrupt {
        id: Named::of(wait, descriptor).id(),
        reason: reason.to_owned(),
        message: Some(said("message").map_or(message, str::to_owned)),
        tool_call_id: said("call_id").map(str::to_owned),
        response_schema: wait.payload_schema.as_ref().and_then(Value::as_object).cloned(),
        expires_at: wait.deadline.map(|it| humantime::format_rfc3339_millis(it.to_system_time()).to_string()),
        metadata: Map::from_iter([(OURS.to_owned(), ours)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use singletree_durable::Timestamp;

    fn wait(action: Option<&str>) -> Wait {
        let schema = json!({ "type": "object" });
        let deadline = Some(Timestamp::from_millis(1_000));
        Wait { no: 7, action: action.map(str::to_owned), deadline, payload_schema: Some(schema) }
    }

    // D2
    #[test]
    fn an_id_names_wait_action_and_signal_and_is_read_back() {
        let metadata = json!({ "tool": "send", "call_id": "c1" });
        let descriptor = Descriptor { signal_id: "apr.1".into(), metadata: Some(metadata) };
        let approval = interrupt(&wait(Some("digest")), &descriptor);
        let named = Named { wait: 7, action: "digest".into(), signal: "apr.1".into() };
        assert_eq!(Named::read(&approval.id), Some(named));
        assert_eq!((approval.reason.as_str(), approval.tool_call_id.as_deref()), ("approval", Some("c1")));
        assert_eq!(approval.message.as_deref(), Some("May the tool `send` be run?"));
        assert_eq!(approval.expires_at.as_deref(), Some("1970-01-01T00:00:01.000Z"));
        let other = interrupt(&wait(None), &Descriptor { signal_id: "go".into(), metadata: None });
        assert_eq!(
            Named::read(&other.id),
            Some(Named { wait: 7, action: String::new(), signal: "go".into() })
        );
        assert_eq!((other.reason.as_str(), other.tool_call_id), ("input", None));
    }

    #[test]
    fn what_is_no_id_of_ours_is_none() {
        for id in ["", "int_", "int_!", "apr-1", "int_MQ", "int_eC55Lno"] {
            assert_eq!(Named::read(id), None, "{id}");
        }
    }
}
