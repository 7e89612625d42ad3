//! Converts the wait of a suspended turn to a question for a person, or to a notice of the awaited signal.

use serde_json::{Map, Value};
use singletree_draw::{visible_text, visible_value};
use singletree_durable::Timestamp;
use singletree_harness::SuspendedTurn;
use singletree_llm::canonical_json;
use singletree_protocol::openharness::{
    Action, ActionDirective, ApprovalOption, Continuation, Decision, RenderMessage, RequestApproval,
    RiskTier, SignalRequest,
};

use super::digest;
use super::tokens::ApprovalQuestion;

/// The maximum size of the shown arguments, in bytes. A longer action cannot be approved here: nobody would have seen
/// all of it (S6).
const SHOWN_MAX: usize = 32 << 10;

/// An action that needs an approval.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ActionRequiringApproval {
    tool: String,
    shown: String,
    /// Whether all of the arguments are shown.
    is_whole: bool,
    params_sha256: String,
    risk: RiskTier,
}

impl ActionRequiringApproval {
    /// Reads the action from the wait of a turn; `None` if the wait is not an approval.
    pub(super) fn from_suspended_turn(turn: &SuspendedTurn, clean: &dyn Fn(&str) -> String) -> Option<Self> {
        turn.wait.action.as_ref()?;
        let said = turn.signal_descriptor.metadata.as_ref();
        let known = |name: &str| said.and_then(|said| said.get(name));
        let text = |name: &str| known(name).and_then(Value::as_str);
        // A graph that asks without the metadata of the agent loop shows all of its own metadata.
        let everything = || said.cloned().unwrap_or(Value::Null);
        let tool = text("tool").unwrap_or(&turn.signal_descriptor.signal_id);
        let arguments = text("tool").and_then(|_| known("arguments").cloned()).unwrap_or_else(everything);
        let (shown, is_whole) = cut_shown_text(&clean(&format_arguments(&arguments)));
        Some(Self {
            tool: visible_text(&clean(tool)).into_owned(),
            shown,
            is_whole,
            params_sha256: digest::digest_text_hex(&canonical_json(&arguments)),
            risk: risk_of_effect(text("effect")),
        })
    }

    /// Returns the question to which the tokens of a decision are bound.
    pub(super) fn build_question(
        &self,
        session: &str,
        turn: &SuspendedTurn,
        until: Timestamp,
    ) -> ApprovalQuestion {
        ApprovalQuestion {
            session: session.to_owned(),
            run_id: turn.invocation_id.to_string(),
            signal: turn.signal_descriptor.signal_id.clone(),
            wait: turn.wait.no,
            action: turn.wait.action.clone().unwrap_or_default(),
            params_sha256: self.params_sha256.clone(),
            until: until.as_millis(),
        }
    }

    /// Returns the directive that asks for the decision; without tokens it only announces it.
    pub(super) fn build_request_directive(
        &self,
        turn: &SuspendedTurn,
        tokens: &[(Decision, String)],
        now: Timestamp,
    ) -> ActionDirective {
        let run_id = turn.invocation_id.to_string();
        let offered = tokens.iter().filter(|(decision, _)| self.is_whole || *decision == Decision::Reject);
        let options = offered.map(|(decision, token)| ApprovalOption {
            id: decision.as_str().to_owned(),
            label: decision_label(*decision).to_owned(),
            continuation: Continuation {
                run_id: Some(run_id.clone()),
                continuation_token: Some(token.clone()),
                ..Continuation::default()
            },
        });
        let title = format!("Approval wanted: {}", self.tool);
        let payload = RequestApproval {
            signal_id: turn.signal_descriptor.signal_id.clone(),
            options: options.collect(),
            prompt: format!(
                "May `{}` run with these arguments?\n{}{}",
                self.tool,
                self.shown,
                self.explain_too_long()
            ),
            action: Action {
                name: self.tool.clone(),
                params_summary: self.shown.clone(),
                params_sha256: self.params_sha256.clone(),
            },
            expires_at: turn.wait.deadline.map(format_timestamp),
            // Without tokens, an earlier directive has said where to decide.
            fallback_message: if tokens.is_empty() {
                title.clone()
            } else {
                self.describe_where_to_decide(turn)
            },
            title,
            run_id,
        };
        let deadline_ms = turn
            .wait
            .deadline
            .map(|deadline| u64::try_from(deadline.duration_since(now).as_millis()).unwrap_or(u64::MAX));
        ActionDirective { deadline_ms, ..ActionDirective::request_approval(&payload, self.risk) }
    }

    /// Returns the directive that describes in words where else to decide, for shells that cannot ask.
    pub(super) fn build_text_directive(&self, turn: &SuspendedTurn) -> ActionDirective {
        let text = self.describe_where_to_decide(turn);
        ActionDirective::render_message(&RenderMessage {
            fallback_message: Some(text.clone()),
            text,
            format: Some("plain".to_owned()),
            message_id: None,
        })
    }

    fn describe_where_to_decide(&self, turn: &SuspendedTurn) -> String {
        format!(
            "Approval is wanted for `{}` with these arguments:\n{}{}\nIt waits under the id {} until somebody decides it in a \
             client that may.",
            self.tool,
            self.shown,
            self.explain_too_long(),
            turn.signal_descriptor.signal_id,
        )
    }

    /// Explains why the action cannot be approved here; empty if it can.
    fn explain_too_long(&self) -> &'static str {
        if self.is_whole {
            ""
        } else {
            "\nIt is too long to be approved here: approve it where all of it is shown."
        }
    }
}

/// Returns the directive for a wait that is not an approval.
pub(super) fn build_signal_directive(
    turn: &SuspendedTurn,
    clean: &dyn Fn(&str) -> String,
) -> ActionDirective {
    let signal = &turn.signal_descriptor.signal_id;
    ActionDirective::request_signal(&SignalRequest {
        signal_id: signal.clone(),
        run_id: turn.invocation_id.to_string(),
        wait: turn.wait.no,
        about: turn.signal_descriptor.metadata.as_ref().map(|metadata| redact_value(metadata, clean)),
        payload_schema: turn.wait.payload_schema.clone(),
        expires_at: turn.wait.deadline.map(format_timestamp),
        fallback_message: format!(
            "The conversation waits for `{signal}`. It goes on when somebody answers that in a client that may."
        ),
    })
}

/// Returns the word of a decision, for people.
pub(super) fn decision_label(decision: Decision) -> &'static str {
    match decision {
        Decision::Approve => "Approve",
        Decision::Reject => "Reject",
    }
}

/// Returns the risk tier of an effect. An unknown effect is dangerous.
fn risk_of_effect(effect: Option<&str>) -> RiskTier {
    match effect {
        Some("read") => RiskTier::Safe,
        Some("safe_write") => RiskTier::Caution,
        Some(_) | None => RiskTier::Dangerous,
    }
}

/// Returns the shown part of a text, and whether it is the whole text. Invisible characters are shown as escapes.
pub(super) fn cut_shown_text(text: &str) -> (String, bool) {
    let text = visible_value(text);
    match text.char_indices().map(|(at, _)| at).find(|at| *at >= SHOWN_MAX) {
        Some(end) => (format!("{}\n(cut off: {} bytes in all)", &text[..end], text.len()), false),
        None => (text, true),
    }
}

/// Writes arguments for people: one line each.
pub(super) fn format_arguments(arguments: &Value) -> String {
    match arguments {
        Value::Object(fields) => format_fields(fields),
        Value::Null => "(none)".to_owned(),
        other => other.to_string(),
    }
}

fn format_fields(fields: &Map<String, Value>) -> String {
    if fields.is_empty() {
        return "(none)".to_owned();
    }
    fields.iter().map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>().join("\n")
}

fn redact_value(value: &Value, clean: &dyn Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => clean(text).into(),
        Value::Array(items) => items.iter().map(|item| redact_value(item, clean)).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, it)| (name.clone(), redact_value(it, clean))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

fn format_timestamp(at: Timestamp) -> String {
    humantime::format_rfc3339_millis(at.to_system_time()).to_string()
}
