//! The node that asks the model.

use std::sync::Arc;

use singletree_engine::{Ctx, Json, NodeError, NodeResult};
use singletree_harness::{TurnBudget, TurnStream};
use singletree_llm::{
    ChatMessage, Delta, Detail, Error, FinishReason, Request, Response, ResponseLimits, Usage,
    complete_streaming,
};

use crate::asking::answers;
use crate::parts::Parts;
use crate::state::{AgentState, Decisions};

/// Asks the model for the next message. Whatever was decided about an earlier one is forgotten with it.
pub(crate) async fn model(parts: Arc<Parts>, cx: Ctx<AgentState>) -> NodeResult<AgentState> {
    let messages = &cx.state().messages;
    if answers(messages) >= parts.model_calls_max {
        let what = format!("the limit max_model_calls of {} was reached", parts.model_calls_max);
        return Err(NodeError::new(what).with_category("chat_budget_exhausted"));
    }
    let request = parts.request(messages);
    let stream = cx.extension::<TurnStream>();
    let asking = ask(&parts, &request, stream.as_deref(), messages.len());
    let answered = tokio::time::timeout(parts.model_time_max, asking).await;
    let response = answered.unwrap_or_else(|_| {
        let seconds = parts.model_time_max.as_secs();
        Err(Error::Unavailable(Detail::new(format!("the model did not answer within {seconds} s"))))
    })?;
    if let Some(budget) = cx.extension::<TurnBudget>() {
        budget.tokens(tokens(&response.usage))?;
    }
    let message = sound(response)?;
    let forgotten = AgentState::update().approved(None).reason(None).decisions(Json(Decisions::default()));
    Ok(forgotten.messages([message]))
}

/// Asks, and shows the text as it comes where somebody may be looking. Thinking is never shown (D19).
async fn ask(
    parts: &Parts,
    request: &Request,
    stream: Option<&TurnStream>,
    position: u64,
) -> Result<Response, Error> {
    let provider = parts.provider.as_ref();
    let Some(stream) = stream.filter(|_| provider.streams()) else {
        return provider.complete(request).await;
    };
    let shown = stream.message(position);
    let show = |delta: &Delta| match delta {
        Delta::Text { text, .. } if !text.is_empty() => shown.delta(text),
        Delta::Text { .. }
        | Delta::Thinking { .. }
        | Delta::RedactedThinking { .. }
        | Delta::ToolCall { .. }
        | Delta::Finish { .. } => {}
    };
    complete_streaming(provider, request, ResponseLimits::standard(), show).await
}

/// Returns how many tokens a provider says that an answer took; none when it does not say (D13).
fn tokens(usage: &Usage) -> u64 {
    let parts = usage.prompt_tokens.unwrap_or(0).saturating_add(usage.completion_tokens.unwrap_or(0));
    usage.total_tokens.unwrap_or(parts)
}

/// Takes the message of a response, if it can be part of a conversation.
///
/// A provider that failed on the way may have left calls that do not read: the tools say so to the model. Without any
/// call, what there is would be half an answer that looks whole (spec: llm-provider §3, §6).
fn sound(response: Response) -> Result<ChatMessage, Error> {
    let Response { message, finish_reason, .. } = response;
    if finish_reason == FinishReason::Error && message.tool_calls.is_empty() {
        return Err(Error::Unavailable(Detail::new("the provider failed in the middle of its answer")));
    }
    message.validate().map_err(|it| {
        Error::InvalidResponse(Detail::new("the provider's message is malformed").with_source(it))
    })?;
    Ok(message)
}
