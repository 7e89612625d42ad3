//! Approvals of calls, in the parts that the library has for them since version 6.

use serde_json::Value;
use singletree_durable::InvocationId;
use singletree_engine::Descriptor;
use singletree_harness::SuspensionTerms;
use singletree_protocol::ui_stream::{ToolApproval, UiMessage, UiPart};

use super::project::{HistoryWaits, wait_part_id};
use crate::named_wait::NamedWait;

/// The prefix of the ids of approvals.
pub(super) const APPROVAL_PREFIX: &str = "apr_";

/// The state of a call that a person has denied.
pub(super) const DENIED: &str = "output-denied";

/// Checks whether the result of a call says that a person has denied it (D8).
pub(super) fn is_denied_result(content: &str) -> bool {
    let content: Option<Value> =
        content.starts_with('{').then(|| serde_json::from_str(content).ok()).flatten();
    content.is_some_and(|content| content["status"] == "denied")
}

/// Returns the id of the call and the question, if a wait asks for the approval of a call.
pub(super) fn approval_of_wait(
    wait: &SuspensionTerms,
    descriptor: &Descriptor,
) -> Option<(String, ToolApproval)> {
    wait.action.as_ref()?;
    let call = descriptor.metadata.as_ref()?.get("call_id")?.as_str()?.to_owned();
    let id = NamedWait::from_wait_terms(wait, descriptor).encode_wait_id(APPROVAL_PREFIX);
    Some((call, ToolApproval { id, approved: None, reason: None }))
}

/// Adds the approvals to the calls of a message.
pub(super) fn mark_approvals(message: &mut UiMessage, waits: &HistoryWaits) {
    let Ok(invocation) = InvocationId::parse(message.id.as_str()) else { return };
    let mut mark = |call: &str, change: &dyn Fn(&mut UiPart)| {
        let is_call = |part: &&mut UiPart| matches!(&**part, UiPart::DynamicTool { tool_call_id, .. } if tool_call_id == call);
        message.parts.iter_mut().rev().find(is_call).into_iter().for_each(change);
    };
    let ended = waits.ended.get(&invocation).map_or(&[][..], Vec::as_slice);
    for wait in ended.iter().filter(|wait| wait.status == "consumed") {
        let call = wait.metadata.as_ref().and_then(|metadata| metadata.get("call_id")?.as_str());
        let id = wait_part_id(&invocation, wait.wait);
        mark(call.unwrap_or_default(), &|part| {
            let UiPart::DynamicTool { state, error_text, approval, .. } = part else { return };
            let denied = error_text.as_deref().filter(|content| is_denied_result(content));
            let reason = denied.and_then(|content| {
                let content: Value = serde_json::from_str(content).ok()?;
                content.get("reason")?.as_str().map(str::to_owned)
            });
            match (denied.is_some(), state.as_str()) {
                (true, _) => {
                    *approval = Some(ToolApproval { id: id.clone(), approved: Some(false), reason });
                    (*state, *error_text) = (DENIED.to_owned(), None);
                }
                (false, "output-available" | "output-error") => {
                    *approval = Some(ToolApproval { id: id.clone(), approved: Some(true), reason: None });
                }
                (false, _) => {}
            }
        });
    }
    let pending = waits.pending.get(&invocation);
    if let Some((call, asked)) = pending.and_then(|wait| approval_of_wait(&wait.wait, &wait.descriptor)) {
        mark(&call, &|part| {
            if let UiPart::DynamicTool { state, approval, .. } = part {
                (*state, *approval) = ("approval-requested".to_owned(), Some(asked.clone()));
            }
        });
    }
}
