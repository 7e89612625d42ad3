//! A message of a person begins a turn (D1, D3, D16, D18).

use singletree_harness::{ChatTurnOutcome, SendOptions, TurnPromptPolicy};
use singletree_llm::ChatMessage;
use singletree_protocol::openharness::{EnvironmentState, ResponsePayload};

use super::admission::PersonMessageContent;
use super::engine::{ExecutedRequest, RequestReplayPolicy, ShellRequestContext};
use super::failure::EngineErrorResponse;
use super::{attachments, campaigns, digest, directives};
use crate::caller::Scope;

/// Sends the person's message and waits for the outcome. The request's id is the key of the turn: the same request
/// joins it.
pub(super) async fn send_person_message(
    asking: &ShellRequestContext<'_>,
    session: &str,
    saying: &PersonMessageContent,
    (request_id, environment): (Option<&str>, Option<&EnvironmentState>),
) -> Result<ExecutedRequest, EngineErrorResponse> {
    asking.caller.require_scope(Scope::Write)?;
    let mut options = SendOptions::new();
    if let Some(sop) = &saying.sop_id
        && let Some(controller) = campaigns::find_template(asking, sop)
    {
        return campaigns::begin_campaign(asking, (controller, sop), saying, request_id).await;
    }
    if let Some(sop) = &saying.sop_id {
        check_procedure(asking, session, sop).await?;
        options = options.agent(sop).policy(TurnPromptPolicy::Command);
    }
    if let Some(id) = request_id {
        options = options.key(format!("openharness:{}", digest::digest_parts_hex(&[id])));
    }
    let content = attachments::build_message_content(asking, session, saying).await?;
    let message = ChatMessage::user(content);
    // Visible to the turn until the request is answered.
    let _shown = environment.and_then(|state| {
        asking.shared.environments.make_state_visible(asking.caller.tenant.clone(), session, state)
    });
    let submitted = asking.chat.session(session).submit(message, options).await;
    let turn = match submitted.map_err(singletree_harness::Error::into_errored_turn) {
        Ok(turn) => turn,
        // The turn may have been accepted: the same request finds out.
        Err(refused) if refused.turn.is_some() => {
            return Ok(unknown_outcome(
                session,
                asking.redact_failure(EngineErrorResponse::from_errored_turn(&refused)),
            ));
        }
        Err(refused) => return Err(EngineErrorResponse::from_errored_turn(&refused)),
    };
    let outcome = turn.outcome().await;
    let before = match outcome.as_ref() {
        // An error has no directives; the missed messages can be requested.
        ChatTurnOutcome::Errored(_) => Vec::new(),
        // Only readers may see turns that other requests resumed.
        _ if !asking.caller.can_read_messages() => Vec::new(),
        ChatTurnOutcome::Completed(_) | ChatTurnOutcome::Suspended(_) => match turn.resumed().await {
            Ok(resumed) => {
                resumed.iter().flat_map(|it| directives::convert_resumed_outcome(asking, it)).collect()
            }
            Err(error) => return Ok(unknown_outcome(session, asking.redact_failure(error.into()))),
        },
    };
    Ok(directives::convert_outcome(asking, session, before, &outcome))
}

/// Returns the result for a turn that is stored but whose outcome cannot be read.
fn unknown_outcome(session: &str, failure: EngineErrorResponse) -> ExecutedRequest {
    let payload = ResponsePayload::error(failure.error);
    ExecutedRequest {
        payload,
        session: Some(session.to_owned()),
        changes: Vec::new(),
        keep: RequestReplayPolicy::Nothing,
    }
}

/// Checks that the session can follow a procedure: an agent of this name, which the session keeps from its beginning.
async fn check_procedure(
    asking: &ShellRequestContext<'_>,
    session: &str,
    sop: &str,
) -> Result<(), EngineErrorResponse> {
    const FIELD: &str = "context.task_hint.sop_id";
    // A procedure is followed command by command: the transcript is no part of it (D18).
    if !asking.chat.agents().any(|agent| agent == sop) {
        return Err(EngineErrorResponse::invalid_field(FIELD, "names no procedure of this engine"));
    }
    match asking.chat.session(session).info().await {
        Ok(info) if info.agent != sop => {
            Err(EngineErrorResponse::invalid_field(FIELD, "the session follows another procedure"))
        }
        // The prompt policy of a session is fixed: here the procedure would get the whole conversation in its prompt.
        Ok(info) if info.prompt_policy != TurnPromptPolicy::Command => {
            let why = "the session is a conversation; a procedure is followed in a session of its own";
            Err(EngineErrorResponse::invalid_field(FIELD, why))
        }
        Ok(_) | Err(singletree_harness::Error::SessionUnknown { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
