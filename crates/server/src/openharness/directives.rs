//! Converts the outcome of a turn to directives (spec: OpenHarness §10, §14).

use singletree_durable::DocumentChange;
use singletree_harness::{ChatTurnOutcome, CompletedTurn, ErroredTurn, MessageId, SuspendedTurn, TurnId};
use singletree_llm::{ChatMessage, Role};
use singletree_protocol::openharness::{ActionDirective, Issued, RenderMessage, ResponsePayload};

use super::admission::ShellThreadRef;
use super::approval::{self, ActionRequiringApproval};
use super::engine::{ExecutedRequest, RequestReplayPolicy, ShellRequestContext};
use super::failure::EngineErrorResponse;
use super::tokens;

/// Converts an outcome; `before` are the directives to show first.
pub(super) fn convert_outcome(
    asking: &ShellRequestContext<'_>,
    session: &str,
    before: Vec<ActionDirective>,
    outcome: &ChatTurnOutcome,
) -> ExecutedRequest {
    let mut directives = before;
    let mut changes = Vec::new();
    let (payload, keep) = match outcome {
        ChatTurnOutcome::Completed(turn) => {
            directives.extend(convert_completed_turn(asking, turn));
            (ResponsePayload::success(directives), RequestReplayPolicy::Answer)
        }
        ChatTurnOutcome::Suspended(turn) => {
            directives.extend(convert_messages(asking, &turn.turn, &turn.pending_messages));
            add_wait_directives(asking, session, turn, &mut directives, &mut changes);
            (ResponsePayload::success(directives), RequestReplayPolicy::Answer)
        }
        ChatTurnOutcome::Errored(turn) => (
            ResponsePayload::error(asking.redact_failure(EngineErrorResponse::from_errored_turn(turn)).error),
            replay_policy_of_error(turn),
        ),
    };
    let ShellThreadRef { session_id, conversation_id } = ShellThreadRef::from_session_id(session);
    let issued = Issued {
        session_id,
        conversation_id,
        run_id: outcome.turn_id().map(|turn| turn.invocation.to_string()),
        turn_id: outcome.turn_id().map(ToString::to_string),
    };
    ExecutedRequest {
        payload: payload.with_issued(&issued),
        session: Some(session.to_owned()),
        changes,
        keep,
    }
}

/// Converts the outcome of a turn that resumed without a request to text (D21).
pub(super) fn convert_resumed_outcome(
    asking: &ShellRequestContext<'_>,
    outcome: &ChatTurnOutcome,
) -> Vec<ActionDirective> {
    match outcome {
        ChatTurnOutcome::Completed(turn) => convert_completed_turn(asking, turn),
        ChatTurnOutcome::Suspended(turn) => convert_messages(asking, &turn.turn, &turn.pending_messages),
        ChatTurnOutcome::Errored(turn) => vec![convert_message(asking, &turn.reply, None)],
    }
}

fn convert_completed_turn(asking: &ShellRequestContext<'_>, turn: &CompletedTurn) -> Vec<ActionDirective> {
    convert_messages(asking, &turn.turn, &turn.replies)
}

/// Returns one directive for each text of the assistant, in order; tool calls and their results are not shown.
fn convert_messages(
    asking: &ShellRequestContext<'_>,
    turn: &TurnId,
    messages: &[std::sync::Arc<ChatMessage>],
) -> Vec<ActionDirective> {
    let numbered = (0..).zip(messages);
    let told = numbered.filter(|(_, it)| it.role == Role::Assistant && !it.text().trim().is_empty());
    told.map(|(k, it)| convert_message(asking, it, Some(MessageId { turn: turn.clone(), k }))).collect()
}

fn convert_message(
    asking: &ShellRequestContext<'_>,
    message: &ChatMessage,
    id: Option<MessageId>,
) -> ActionDirective {
    let text = asking.redact_text(&message.text());
    ActionDirective::render_message(&RenderMessage {
        fallback_message: Some(text.clone()),
        text,
        format: Some("markdown".to_owned()),
        message_id: id.map(|id| id.to_string()),
    })
}

fn add_wait_directives(
    asking: &ShellRequestContext<'_>,
    session: &str,
    turn: &SuspendedTurn,
    directives: &mut Vec<ActionDirective>,
    changes: &mut Vec<DocumentChange>,
) {
    let clean = |text: &str| asking.redact_text(text);
    let Some(wanted) = ActionRequiringApproval::from_suspended_turn(turn, &clean) else {
        directives.push(approval::build_signal_directive(turn, &clean));
        return;
    };
    if asking.terms.can_ask {
        let until = tokens::decision_deadline(asking, turn.wait.deadline);
        let pair = tokens::issue_tokens(asking, &wanted.build_question(session, turn, until));
        changes.extend(pair.changes);
        directives.push(wanted.build_request_directive(turn, &pair.tokens, asking.shared.now()));
    } else {
        directives.push(wanted.build_text_directive(turn));
        directives.push(wanted.build_request_directive(turn, &[], asking.shared.now()));
    }
}

/// Returns how to treat the same request after a failure: if nothing was done, it is executed again (D3).
fn replay_policy_of_error(turn: &ErroredTurn) -> RequestReplayPolicy {
    if turn.retry_safe || turn.error_category == "chat_session_suspended" {
        RequestReplayPolicy::Free
    } else if turn.recorded {
        RequestReplayPolicy::Answer
    } else {
        RequestReplayPolicy::Nothing
    }
}
