//! Interrupts: the waits of suspended runs, with ids that tie an answer to exactly one wait (D2).

use serde_json::{Map, Value, json};
use singletree_engine::Descriptor;
use singletree_harness::{PendingWait, SuspendedTurn, SuspensionTerms};
use singletree_protocol::agui::{Interrupt, OURS};

use crate::named_wait::NamedWait;

/// The prefix of the ids of interrupts.
const PREFIX: &str = "int_";

/// Reads the id of an interrupt; `None` if this server did not issue it.
pub(super) fn parse_interrupt_id(id: &str) -> Option<NamedWait> {
    NamedWait::decode_wait_id(PREFIX, id)
}

/// Returns the interrupt for the wait of a suspended turn.
pub(super) fn interrupt_from_turn(turn: &SuspendedTurn) -> Interrupt {
    build_interrupt(&turn.wait, &turn.signal_descriptor)
}

/// Returns the interrupt for a pending wait.
pub(super) fn interrupt_from_wait(wait: &PendingWait) -> Interrupt {
    build_interrupt(&wait.wait, &wait.descriptor)
}

fn build_interrupt(wait: &SuspensionTerms, descriptor: &Descriptor) -> Interrupt {
    let metadata = descriptor.metadata.as_ref().and_then(Value::as_object);
    let said = |name: &str| metadata.and_then(|metadata| metadata.get(name)).and_then(Value::as_str);
    // The reasons that the protocol defines: front ends choose their view by them.
    let (reason, message) = match (&wait.action, said("tool"), said("call_id")) {
        (Some(_), Some(tool), Some(_)) => ("tool_call", format!("May the tool `{tool}` be run?")),
        (Some(_), Some(tool), None) => ("confirmation", format!("May the tool `{tool}` be run?")),
        (Some(_), None, _) => ("confirmation", "May this be done?".to_owned()),
        (None, ..) => ("input_required", "An answer is needed before this can go on.".to_owned()),
    };
    let ours = json!({
        "signal": descriptor.signal_id,
        "wait": wait.no,
        "action": wait.action,
        "metadata": descriptor.metadata,
    });
    Interrupt {
        id: NamedWait::from_wait_terms(wait, descriptor).encode_wait_id(PREFIX),
        reason: reason.to_owned(),
        message: Some(said("message").map_or(message, str::to_owned)),
        tool_call_id: said("call_id").map(str::to_owned),
        response_schema: wait.payload_schema.as_ref().and_then(Value::as_object).cloned(),
        expires_at: wait
            .deadline
            .map(|deadline| humantime::format_rfc3339_millis(deadline.to_system_time()).to_string()),
        metadata: Map::from_iter([(OURS.to_owned(), ours)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use singletree_durable::Timestamp;

    fn wait(action: Option<&str>) -> SuspensionTerms {
        let schema = json!({ "type": "object" });
        let deadline = Some(Timestamp::from_millis(1_000));
        SuspensionTerms { no: 7, action: action.map(str::to_owned), deadline, payload_schema: Some(schema) }
    }

    // D2
    #[test]
    fn an_id_names_wait_action_and_signal_and_is_read_back() {
        let metadata = json!({ "tool": "send", "call_id": "c1" });
        let descriptor = Descriptor { signal_id: "apr.1".into(), metadata: Some(metadata) };
        let approval = build_interrupt(&wait(Some("digest")), &descriptor);
        let expected = NamedWait { wait: 7, action: "digest".into(), signal: "apr.1".into() };
        assert_eq!(parse_interrupt_id(&approval.id), Some(expected));
        assert_eq!((approval.reason.as_str(), approval.tool_call_id.as_deref()), ("tool_call", Some("c1")));
        assert_eq!(approval.message.as_deref(), Some("May the tool `send` be run?"));
        assert_eq!(approval.expires_at.as_deref(), Some("1970-01-01T00:00:01.000Z"));
        let other = build_interrupt(&wait(None), &Descriptor { signal_id: "go".into(), metadata: None });
        assert_eq!(
            parse_interrupt_id(&other.id),
            Some(NamedWait { wait: 7, action: String::new(), signal: "go".into() })
        );
        assert_eq!((other.reason.as_str(), other.tool_call_id), ("input_required", None));
    }

    #[test]
    fn what_is_no_id_of_ours_is_none() {
        for id in ["", "int_", "int_!", "apr-1", "int_MQ", "int_eC55Lno"] {
            assert_eq!(parse_interrupt_id(id), None, "{id}");
        }
    }
}
