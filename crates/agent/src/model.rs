//! The node that asks the model.

use std::sync::Arc;
use std::time::Duration;

use singletree_engine::{Ctx, JsonField, NodeError, NodeResult};
use singletree_harness::{EMPTY_ANSWER, SideRecords, TurnBudget, TurnContext, TurnStream};
use singletree_llm::{
    AttemptObserver, ChatMessage, Error, ModelFinishReason, ModelStreamUpdate, ProviderCall,
    ProviderCallAttempt, ProviderErrorDetail, Request, Response, ResponseDelta, ToolCall,
};
use singletree_narration::find_memory_claim;

use crate::call_options::CallOptions;
use crate::client_tools::ClientTools;
use crate::command::{CommandCycle, ProposalVerdict};
use crate::kit::AgentToolbox;
use crate::member::AgentMember;
use crate::parts::AgentLoopParts;
use crate::place::{is_outermost, scope};
use crate::prompt;
use crate::repair::{UsableResponse, is_empty, usable};
use crate::state::{AgentState, CallDecisions};

/// Asks the model for the next message, and passes it the messages that steer the turn. Decisions about an earlier
/// message are cleared. The calls of this message that need a person's decision are determined here, by the tools as
/// they are now.
pub(crate) async fn model(parts: Arc<AgentLoopParts>, cx: Ctx<AgentState>) -> NodeResult<AgentState> {
    let state = cx.state();
    within_calls(&parts, state.answers)?;
    let member = parts.owner(&cx)?;
    let kit = parts.kit(member).await;
    let is_outermost = is_outermost(&cx);
    let cycle = CommandCycle::of(&cx)?;
    let turn = TurnContext::of(&cx);
    let outermost = turn.as_deref().filter(|_| is_outermost);
    // One that steers a command is the next command.
    let steering = outermost.and_then(TurnContext::steering).filter(|_| cycle.is_none());
    let steered = steering.map(|steering| steering.take(&state.messages)).unwrap_or_default();
    let position = state.messages.len() + steered.len() as u64;
    let shown = match &cycle {
        Some(cycle) => cycle.prompt(member).await?.messages(),
        None if parts.stateless => prompt::given(member, &state.messages),
        None => prompt::shown(member, parts.compaction.as_ref(), (&state.messages, state.summary.0.as_ref())),
    };
    let request = request(member, &kit, shown.into_iter().chain(steered.iter().cloned().map(Arc::new)));
    let clients = cx.extension::<ClientTools>().filter(|_| parts.stateless);
    let request = match &clients {
        Some(clients) => clients.offered(request, state.answers == 0),
        None => request,
    };
    let request = match cx.extension::<CallOptions>().filter(|_| parts.stateless) {
        Some(options) => options.applied(request),
        None => request,
    };
    let request = match turn.as_deref().and_then(TurnContext::pictures) {
        Some(pictures) => request.with_pictures(pictures.clone()),
        None => request,
    };
    let (stream, sides) = (outermost.map(TurnContext::stream), outermost.map(TurnContext::side_records));
    if let (Some(sides), Some(id)) = (sides, &member.id) {
        // Before the first piece, so that who reads along knows who speaks.
        sides.note(position, "agent", id.as_str());
    }
    let budget = turn.as_deref().map(TurnContext::budget);
    let call = ModelCall { member, request: &request, stream, position, budget };
    let (usable, asked) = call.usable(&parts, state.answers).await?;
    let UsableResponse { response, unread, problem } = usable;
    let (message, ended) = (response.message, response.finish_reason);
    if let Some(sides) = sides {
        note(sides, position, ended);
    }
    let update = AgentState::update().approved(None).reason(None).answers(state.answers + asked);
    let update = if state.answers == 0 { update.scope(scope(&cx)) } else { update };
    let update = if parts.is_team() { update.agent(member.id.clone()) } else { update };
    if message.tool_calls.is_empty() && message.text().trim().is_empty() {
        // Nothing is said at this place; the turn says so when it ends.
        if let Some(sides) = sides {
            sides.note(position, EMPTY_ANSWER, true);
        }
        return Ok(update.decisions(JsonField(CallDecisions::default())).messages(steered));
    }
    let repairs = if problem.is_some() { state.decisions.0.repairs + 1 } else { 0 };
    let theirs = |it: &ToolCall| clients.as_ref().is_some_and(|clients| clients.runs(it));
    // A client that runs its own tools cannot answer a faulty call with its error.
    let is_repaired = repairs <= member.repairs_max && !message.tool_calls.iter().any(theirs);
    refuse(problem, is_repaired, (&message, member))?;
    let verdict = cycle.is_some().then(|| ProposalVerdict::of(&message, &kit));
    if let Some((verdict, turn)) = verdict.zip(turn.as_deref()) {
        explain(turn, verdict, &message, sides.map(|sides| (sides, position)));
    }
    let carried_out = verdict.is_none_or(|verdict| verdict.rejection().is_none());
    let held = (0..)
        .zip(&message.tool_calls)
        .filter(|(_, it)| carried_out && (kit.needs_approval(it) || theirs(it)));
    let decisions = CallDecisions::holding(position, held.map(|(at, _)| at).collect());
    let decisions = JsonField(CallDecisions { unread, repairs, ..decisions });
    Ok(update.decisions(decisions).said(steered, message))
}

/// Refuses an answer with a problem that cannot be repaired: one beyond the bound of repairs, and one that contains a
/// secret of the provider, which must not become history (INV-16).
fn refuse(
    problem: Option<Error>,
    is_repaired: bool,
    (message, member): (&ChatMessage, &AgentMember),
) -> Result<(), Error> {
    let Some(problem) = problem else { return Ok(()) };
    let tells_secret = |text: &String| {
        let as_told = || Error::InvalidResponse(ProviderErrorDetail::new(text.clone()));
        member.provider.redact(as_told()).to_string() != as_told().to_string()
    };
    let mut names = message.tool_calls.iter().flat_map(|call| [&call.id, &call.name]);
    if is_repaired && !names.any(tells_secret) { Ok(()) } else { Err(member.provider.redact(problem)) }
}

fn request(
    member: &AgentMember,
    kit: &AgentToolbox<'_>,
    messages: impl Iterator<Item = Arc<ChatMessage>>,
) -> Request {
    let request = Request::new(messages.collect()).with_config(member.sampling.clone());
    let tools = kit.definitions();
    let request = if tools.is_empty() { request } else { request.with_tools(tools) };
    match &member.reply_schema {
        Some(schema) => request.with_response_schema(schema.clone()),
        None => request,
    }
}

/// Tells people why the model proposes its action, before the action is carried out (agent-chat-output §5.2), and notes
/// in the message's side record when the model claims to remember something that it cannot know (§11).
fn explain(
    turn: &TurnContext,
    verdict: ProposalVerdict,
    message: &ChatMessage,
    sides: Option<(&SideRecords, u64)>,
) {
    if let Some(narrator) = turn.narrator().filter(|_| verdict == ProposalVerdict::Proposal) {
        narrator.rationale(&message.text());
    }
    if let Some(((sides, position), phrase)) = sides.zip(find_memory_claim(&message.text())) {
        sides.note(position, "claims_memory", phrase);
    }
}

/// Says beside the message why it ended where that is not as usual.
fn note(sides: &SideRecords, position: u64, ended: ModelFinishReason) {
    match ended {
        ModelFinishReason::Stop | ModelFinishReason::ToolCalls => {}
        ModelFinishReason::Length | ModelFinishReason::ContentFilter | ModelFinishReason::Error => {
            sides.note(position, "finish_reason", ended.as_str());
        }
    }
}

/// Tells the turn's listeners that a call of the model is made again.
#[derive(Debug)]
struct RetryNarrator<'a>(Option<&'a TurnStream>);

impl AttemptObserver for RetryNarrator<'_> {
    fn started(&self, attempt: &ProviderCallAttempt<'_>) {
        if let Some(stream) = self.0.filter(|_| attempt.index > 0) {
            stream.retried();
        }
    }

    fn ended(&self, _attempt: &ProviderCallAttempt<'_>, _outcome: Result<&Response, &Error>) {}

    fn retrying(&self, next: u32, wait: Duration, error: &Error) {
        if let Some(stream) = self.0 {
            stream.retrying(next.saturating_add(1), wait, error.category());
        }
    }
}

/// Asks, with retries, and shows the text as it comes where the turn has a stream. Thinking is shown only if the agent
/// is set to (D19).
async fn ask(
    member: &AgentMember,
    request: &Request,
    stream: Option<&TurnStream>,
    position: u64,
) -> Result<Response, Error> {
    let retrying = &member.retrying;
    let fraction = || (retrying.fraction)();
    let retries = RetryNarrator(stream);
    let ask = ProviderCall::of(member.provider.as_ref()).observed_by(&retries);
    let ask = match &retrying.retry {
        Some(retry) => ask.retrying(retry, retrying.pace.as_ref(), &fraction),
        None => ask,
    };
    let Some(stream) = stream.filter(|_| member.provider.streams()) else {
        return ask.complete(request).await;
    };
    let mut message = stream.message(position);
    let show = |shown: ModelStreamUpdate<'_>| match shown {
        ModelStreamUpdate::Delta(ResponseDelta::Text { text, .. }) if !text.is_empty() => message.delta(text),
        ModelStreamUpdate::Delta(ResponseDelta::Thinking { text, .. })
            if member.shows_thinking && !text.is_empty() =>
        {
            message.thinking(text);
        }
        // A restart of the answer takes back the streamed text.
        ModelStreamUpdate::Void => message = stream.message(position),
        ModelStreamUpdate::Delta(
            ResponseDelta::Text { .. }
            | ResponseDelta::Thinking { .. }
            | ResponseDelta::RedactedThinking { .. }
            | ResponseDelta::ToolCall { .. }
            | ResponseDelta::Finish { .. },
        ) => {}
    };
    ask.stream(request, show).await
}

/// One request to the model of a member, with its budget and the stream to its listeners.
struct ModelCall<'a> {
    member: &'a AgentMember,
    request: &'a Request,
    stream: Option<&'a TurnStream>,
    position: u64,
    budget: Option<&'a TurnBudget>,
}

impl ModelCall<'_> {
    /// Asks for an answer that the loop can go on with; one without a word is asked for once more (D30). Returns, too,
    /// how often the model was asked; each answer counts for the budget, also an unusable one.
    async fn usable(&self, parts: &AgentLoopParts, answers: u64) -> Result<(UsableResponse, u64), NodeError> {
        let mut asked = 0;
        loop {
            within_calls(parts, answers + asked)?;
            asked += 1;
            let answered = self.answer().await;
            let response = match &answered {
                Ok(response) => Some(response),
                Err(error) => error.response(),
            };
            if let (Some(budget), Some(response)) = (self.budget, response) {
                budget.model_call(self.member.provider.model(), &response.usage)?;
            }
            let usable = usable(answered.and_then(whole), self.request)?;
            if asked > 1 || !is_empty(&usable.response) {
                return Ok((usable, asked));
            }
        }
    }

    /// Asks within the time that one answer may take.
    async fn answer(&self) -> Result<Response, Error> {
        let asking = ask(self.member, self.request, self.stream, self.position);
        let answered = tokio::time::timeout(self.member.model_time_max, asking).await;
        answered.unwrap_or_else(|_| {
            let seconds = self.member.model_time_max.as_secs();
            Err(Error::Unavailable(ProviderErrorDetail::new(format!(
                "the model did not answer within {seconds} s"
            ))))
        })
    }
}

/// Refuses half an answer that looks whole: one that finished with `error` and has no calls (spec: llm-provider §3,
/// §6). One with calls is repaired.
fn whole(response: Response) -> Result<Response, Error> {
    if response.finish_reason == ModelFinishReason::Error && response.message.tool_calls.is_empty() {
        return Err(Error::Unavailable(ProviderErrorDetail::new(
            "the provider failed in the middle of its answer",
        )));
    }
    Ok(response)
}

/// Checks that the model may be asked once more (D13).
fn within_calls(parts: &AgentLoopParts, answers: u64) -> Result<(), NodeError> {
    if answers < parts.model_calls_max {
        return Ok(());
    }
    let what = format!("the limit max_model_calls of {} was reached", parts.model_calls_max);
    Err(NodeError::new(what).with_category("chat_budget_exhausted"))
}
