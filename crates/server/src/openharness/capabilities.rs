//! `GET /v1/openharness/capabilities`: the features of this engine, from the same registry as its responses.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde_json::{Map, Value, json};
use singletree_protocol::openharness::{
    ActionType, ActionTypeEntry, AttachmentTerms, Capability, CapabilityDenial, CapabilityEntry, DenialCode,
    DenialEntry, ErrorCode, ErrorCodeEntry, MessageClass, NAMESPACE, ResponseMessage, ResponsePayload,
    TruthTable,
};

use super::admission::ATTACHMENTS_MAX;
use super::negotiation::decide_feature_offer;
use super::{QUESTION_TTL, REQUEST_TTL, attachments, opening};
use crate::caller::{Caller, RequestCaller, Scope};
use crate::problem::RequestProblem;
use crate::shared::ServerState;

/// Answers with the whole table, as an extension of a response message.
pub(super) async fn show_capabilities(
    State(shared): State<Arc<ServerState>>,
    RequestCaller(caller): RequestCaller,
) -> Result<Json<ResponseMessage>, RequestProblem> {
    caller.require_scope(Scope::Read)?;
    let table = build_truth_table(&shared, &caller);
    let offered = table.capabilities.iter().filter(|capability| capability.offered);
    let supported = offered.map(|offered| (offered.capability.clone(), true.into())).collect();
    let denials = Capability::ALL.iter().filter_map(|item| {
        let standing = decide_feature_offer(*item, &caller);
        Some(CapabilityDenial::new(item.as_str(), standing.denied?, standing.message))
    });
    let table = serde_json::to_value(&table).unwrap_or_default();
    Ok(Json(ResponseMessage {
        supported_capabilities: Some(supported),
        capability_denials: Some(denials.collect()),
        extensions: Some(Map::from_iter([(NAMESPACE.to_owned(), table)])),
        ..ResponseMessage::new(ResponsePayload::success(Vec::new()))
    }))
}

fn build_truth_table(shared: &ServerState, caller: &Caller) -> TruthTable {
    let capabilities = Capability::ALL.iter().map(|item| {
        let standing = decide_feature_offer(*item, caller);
        CapabilityEntry {
            capability: item.as_str().to_owned(),
            offered: standing.denied.is_none(),
            code: standing.denied.map(|denied| denied.as_str().to_owned()),
            message: standing.message.to_owned(),
        }
    });
    let errors = ErrorCode::ALL
        .iter()
        .map(|item| ErrorCodeEntry { code: item.as_str().to_owned(), retryable: item.is_retryable() });
    let texts = |of: &[&str]| of.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
    TruthTable {
        protocol_versions: opening::supported_versions(),
        capabilities: capabilities.collect(),
        action_types: ActionType::EMITTED.iter().map(|it| describe_action_type(*it)).collect(),
        denial_codes: DenialCode::ALL
            .iter()
            .map(|item| DenialEntry { code: item.as_str().to_owned() })
            .collect(),
        error_codes: errors.collect(),
        attachments: AttachmentTerms {
            count_max: ATTACHMENTS_MAX as u64,
            size_bytes_max: attachments::attachment_size_max(&shared.chat_of_caller(caller)),
            mime_types: texts(attachments::PICTURES),
            uri_schemes: if shared.fetch.is_some() { texts(attachments::SCHEMES) } else { Vec::new() },
            ref_id: "blob:SHA256, as an upload to the same session names it".to_owned(),
        },
        sop_ids: shared.chat_of_caller(caller).agents().map(ToOwned::to_owned).collect(),
        request_id_ttl_sec: REQUEST_TTL.as_secs(),
        continuation_ttl_sec: QUESTION_TTL.as_secs(),
    }
}

fn describe_action_type(action_type: ActionType) -> ActionTypeEntry {
    let (required, example): (&[&str], Value) = match action_type {
        ActionType::RenderMessage => {
            let example = json!({
                "text": "Hello.", "format": "markdown", "message_id": "INVOCATION/0", "fallback_message": "Hello.",
            });
            (&["text", "format", "fallback_message"], example)
        }
        ActionType::RequestApproval => {
            let option = |id: &str, label: &str| {
                let continuation = json!({"run_id": "INVOCATION", "continuation_token": "ctok_..."});
                json!({"id": id, "label": label, "continuation": continuation})
            };
            let example = json!({
                "signal_id": "apr-0123456789", "run_id": "INVOCATION", "title": "Approval wanted: send_message",
                "prompt": "May `send_message` run with these arguments?\nto: \"Ann\"",
                "action": {"name": "send_message", "params_summary": "to: \"Ann\"", "params_sha256": "..."},
                "options": [option("approve", "Approve"), option("reject", "Reject")],
                "expires_at": "2026-01-01T00:00:00.000Z", "fallback_message": "Approval is wanted for `send_message`.",
            });
            let required =
                &["signal_id", "run_id", "title", "prompt", "action", "options", "fallback_message"];
            (required, example)
        }
        ActionType::RequestSignal => {
            let example = json!({
                "signal_id": "delivery", "run_id": "INVOCATION", "wait": 1, "about": {"order": 17},
                "payload_schema": {"type": "object"}, "fallback_message": "The conversation waits for `delivery`.",
            });
            (&["signal_id", "run_id", "wait", "fallback_message"], example)
        }
        // The engine never emits these.
        ActionType::RenderUi | ActionType::SimulateAction | ActionType::Noop => (&[], json!({})),
    };
    let class = match action_type.message_class() {
        MessageClass::Chat => "chat",
        MessageClass::Machine => "machine",
    };
    ActionTypeEntry {
        action_type: action_type.as_str().to_owned(),
        class: class.to_owned(),
        payload_required: required.iter().map(|it| (*it).to_owned()).collect(),
        payload_example: example,
    }
}
