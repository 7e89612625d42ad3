//! The node that asks the model.

use std::sync::Arc;
use std::time::Duration;

use singletree_engine::{Ctx, JsonField, ModelCallScope, NodeError, NodeResult, ObservedCalls};
use singletree_harness::{EMPTY_ANSWER, SideRecords, TurnBudget, TurnContext, TurnStream};
use singletree_llm::{
    AttemptObserver, ChatMessage, ConversationRange, Error, ModelFinishReason, ModelStreamUpdate,
    ProviderCall, ProviderCallAttempt, ProviderErrorDetail, RandomSource, Request, Response, ResponseDelta,
    Timer, ToolCall,
};
use singletree_narration::find_memory_claim;

use crate::call_options::CallOptions;
use crate::client_tools::ClientTools;
use crate::command::{CommandCycle, ProposalVerdict};
use crate::kit::AgentToolbox;
use crate::member::AgentMember;
use crate::parts::AgentLoopParts;
use crate::place::{is_outermost_loop, loop_random_source, loop_timer, nested_run_scope};
use crate::prompt::{self, ShownMessages};
use crate::repair::{UsableResponse, accept_response, is_empty_response};
use crate::state::{AgentState, CallDecisions};

/// Asks the model for the next message, and passes it the messages that steer the turn. Decisions about an earlier
/// message are cleared. The calls of this message that need a person's decision are determined here, by the tools as
/// they are now.
pub(crate) async fn run_model_node(
    parts: Arc<AgentLoopParts>,
    cx: Ctx<AgentState>,
) -> NodeResult<AgentState> {
    let state = cx.state();
    check_model_call_limit(&parts, state.answers)?;
    let member = parts.find_owner(&cx)?;
    let kit = parts.current_toolbox_of(member).await;
    let is_outermost = is_outermost_loop(&cx);
    let cycle = CommandCycle::from_context(&cx)?;
    let turn = TurnContext::of(&cx);
    let outermost = turn.as_deref().filter(|_| is_outermost);
    // One that steers a command is the next command.
    let steering = outermost.and_then(TurnContext::steering).filter(|_| cycle.is_none());
    let steered = steering.map(|steering| steering.take_messages(&state.messages)).unwrap_or_default();
    let position = state.messages.len() + steered.len() as u64;
    let timer = loop_timer(&cx, turn.as_deref());
    let shown =
        build_shown_messages(&parts, member, state, cycle.as_ref().map(|cycle| (cycle, timer))).await?;
    let answer = outermost.is_some().then_some(position);
    let request = build_request(member, &kit, (shown, &steered), answer);
    let clients = cx.find_extension::<ClientTools>().filter(|_| parts.stateless);
    let request = match &clients {
        Some(clients) => clients.add_to_request(request, state.answers == 0),
        None => request,
    };
    let request = complete_request(&cx, parts.stateless, turn.as_deref(), request);
    let (stream, sides) = (outermost.map(TurnContext::stream), outermost.map(TurnContext::side_records));
    if let (Some(sides), Some(id)) = (sides, &member.id) {
        // Before the first piece, so that who reads along knows who speaks.
        sides.set_side_value(position, "agent", id.as_str());
    }
    let budget = turn.as_deref().map(TurnContext::budget);
    let rng = loop_random_source(&cx, turn.as_deref());
    let calls = cx.calls();
    let call = ModelCall { member, request: &request, calls: &calls, stream, position, budget, timer, rng };
    let (usable, asked) = call.ask_until_usable(&parts, state.answers).await?;
    let UsableResponse { response, unread, problem } = usable;
    let (message, ended) = (response.message, response.finish_reason);
    if let Some(sides) = sides {
        note_finish_reason(sides, position, ended);
    }
    let update = AgentState::update().approved(None).reason(None).answers(state.answers + asked);
    let update = if state.answers == 0 { update.scope(nested_run_scope(&cx)) } else { update };
    let update = if parts.is_team() { update.agent(member.id.clone()) } else { update };
    if message.tool_calls.is_empty() && message.text().trim().is_empty() {
        // Nothing is said at this place; the turn says so when it ends.
        if let Some(sides) = sides {
            sides.set_side_value(position, EMPTY_ANSWER, true);
        }
        return Ok(update.decisions(JsonField(CallDecisions::default())).messages(steered));
    }
    let repairs = if problem.is_some() { state.decisions.0.repairs + 1 } else { 0 };
    let theirs = |it: &ToolCall| clients.as_ref().is_some_and(|clients| clients.is_client_call(it));
    // A client that runs its own tools cannot answer a faulty call with its error.
    let is_repaired = repairs <= member.repairs_max && !message.tool_calls.iter().any(theirs);
    refuse_unrepairable(problem, is_repaired, (&message, member))?;
    let verdict = cycle.is_some().then(|| ProposalVerdict::judge_message(&message, &kit));
    if let Some((verdict, turn)) = verdict.zip(turn.as_deref()) {
        report_proposal(turn, verdict, &message, sides.map(|sides| (sides, position)));
    }
    let carried_out = verdict.is_none_or(|verdict| verdict.rejection_reason().is_none());
    let held = (0..)
        .zip(&message.tool_calls)
        .filter(|(_, it)| carried_out && (kit.needs_approval(it) || theirs(it)));
    let decisions = CallDecisions::with_held_calls(position, held.map(|(at, _)| at).collect());
    let decisions = JsonField(CallDecisions { unread, repairs, ..decisions });
    Ok(update.decisions(decisions).append_messages(steered, message))
}

/// Returns the messages that the model is shown.
async fn build_shown_messages(
    parts: &AgentLoopParts,
    member: &AgentMember,
    state: &AgentState,
    cycle: Option<(&CommandCycle<'_>, &dyn Timer)>,
) -> Result<ShownMessages, NodeError> {
    let alone = |messages: Vec<_>| ShownMessages { skipped: messages.len(), messages };
    Ok(match cycle {
        Some((cycle, timer)) => alone(cycle.build_prompt(member, timer).await?.messages()),
        None if parts.stateless => alone(prompt::build_stateless_prompt(member, &state.messages)),
        None => prompt::build_session_prompt(
            member,
            parts.compaction.as_ref(),
            (&state.messages, state.summary.0.as_ref()),
        ),
    })
}

/// Adds the options of the caller, in a run without a session, and the pictures of the session.
fn complete_request(
    cx: &Ctx<AgentState>,
    is_stateless: bool,
    turn: Option<&TurnContext>,
    request: Request,
) -> Request {
    let request = match cx.find_extension::<CallOptions>().filter(|_| is_stateless) {
        Some(options) => options.apply_to_request(request),
        None => request,
    };
    match turn.and_then(TurnContext::pictures) {
        Some(pictures) => request.with_pictures(pictures.clone()),
        None => request,
    }
}

/// Refuses an answer with a problem that cannot be repaired: one beyond the bound of repairs, and one that contains a
/// secret of the provider, which must not become history (INV-16).
fn refuse_unrepairable(
    problem: Option<Error>,
    is_repaired: bool,
    (message, member): (&ChatMessage, &AgentMember),
) -> Result<(), Error> {
    let Some(problem) = problem else { return Ok(()) };
    let tells_secret = |text: &String| {
        let as_told = || Error::InvalidResponse(ProviderErrorDetail::new(text.clone()));
        member.provider.redact_secrets(as_told()).to_string() != as_told().to_string()
    };
    let mut names = message.tool_calls.iter().flat_map(|call| [&call.id, &call.name]);
    if is_repaired && !names.any(tells_secret) {
        Ok(())
    } else {
        Err(member.provider.redact_secrets(problem))
    }
}

/// Makes the request of messages that are shown, and of those that steer; with the place of the answer in the session's
/// history it says which of them are of that history, whose end they are.
fn build_request(
    member: &AgentMember,
    kit: &AgentToolbox<'_>,
    (shown, steered): (ShownMessages, &[ChatMessage]),
    answer: Option<u64>,
) -> Request {
    let skipped = shown.skipped as u64;
    let mut messages = shown.messages;
    messages.extend(steered.iter().cloned().map(Arc::new));
    let count = (messages.len() as u64).saturating_sub(skipped);
    let mut request = Request::new(messages).with_config(member.sampling.clone());
    if let Some(answer) = answer {
        let first = answer.saturating_sub(count);
        request = request.with_conversation(ConversationRange { skipped, first, count });
    }
    let tools = kit.definitions();
    let request = if tools.is_empty() { request } else { request.with_tools(tools) };
    match &member.reply_schema {
        Some(schema) => request.with_response_schema(schema.clone()),
        None => request,
    }
}

/// Tells people why the model proposes its action, before the action is carried out (agent-chat-output §5.2), and notes
/// in the message's side record when the model claims to remember something that it cannot know (§11).
fn report_proposal(
    turn: &TurnContext,
    verdict: ProposalVerdict,
    message: &ChatMessage,
    sides: Option<(&SideRecords, u64)>,
) {
    if let Some(narrator) = turn.narrator().filter(|_| verdict == ProposalVerdict::Proposal) {
        narrator.narrate_rationale(&message.text());
    }
    if let Some(((sides, position), phrase)) = sides.zip(find_memory_claim(&message.text())) {
        sides.set_side_value(position, "claims_memory", phrase);
    }
}

/// Says beside the message why it ended where that is not as usual.
fn note_finish_reason(sides: &SideRecords, position: u64, ended: ModelFinishReason) {
    match ended {
        ModelFinishReason::Stop | ModelFinishReason::ToolCalls => {}
        ModelFinishReason::Length | ModelFinishReason::ContentFilter | ModelFinishReason::Error => {
            sides.set_side_value(position, "finish_reason", ended.as_str());
        }
    }
}

/// Tells the turn's listeners that a call of the model is made again.
#[derive(Debug)]
struct RetryNarrator<'a>(Option<&'a TurnStream>);

impl AttemptObserver for RetryNarrator<'_> {
    fn on_attempt_started(&self, attempt: &ProviderCallAttempt<'_>) {
        if let Some(stream) = self.0.filter(|_| attempt.index > 0) {
            stream.show_retry_start();
        }
    }

    fn on_attempt_ended(&self, _attempt: &ProviderCallAttempt<'_>, _outcome: Result<&Response, &Error>) {}

    fn on_retry_scheduled(&self, next: u32, wait: Duration, error: &Error) {
        if let Some(stream) = self.0 {
            stream.show_retry_wait(next.saturating_add(1), wait, error.category());
        }
    }
}

/// Asks, with retries, and shows the text as it comes where the turn has a stream. Thinking is shown only if the agent
/// is set to (D19).
async fn ask_model(call: &ModelCall<'_>, report: &ModelCallScope) -> Result<Response, Error> {
    let ModelCall { member, request, stream, position, timer, rng, .. } = *call;
    let retries = RetryNarrator(stream);
    let ask = ProviderCall::of(member.provider.as_ref()).reporting_to(report).with_observer(&retries);
    let ask = match &member.retry {
        Some(retry) => ask.retrying(retry, timer, rng),
        None => ask,
    };
    let Some(stream) = stream.filter(|_| member.provider.can_stream()) else {
        return ask.complete(request).await;
    };
    let mut message = stream.begin_message(position);
    let show = |shown: ModelStreamUpdate<'_>| match shown {
        ModelStreamUpdate::Delta(ResponseDelta::Text { text, .. }) if !text.is_empty() => {
            message.show_text_piece(text)
        }
        ModelStreamUpdate::Delta(ResponseDelta::Thinking { text, .. })
            if member.shows_thinking && !text.is_empty() =>
        {
            message.show_thinking_piece(text);
        }
        // A restart of the answer takes back the streamed text.
        ModelStreamUpdate::Void => message = stream.begin_message(position),
        ModelStreamUpdate::Delta(
            ResponseDelta::Text { .. }
            | ResponseDelta::Thinking { .. }
            | ResponseDelta::RedactedThinking { .. }
            | ResponseDelta::ToolCall { .. }
            | ResponseDelta::Finish { .. },
        ) => {}
    };
    ask.complete_with_updates(request, show).await
}

/// One request to the model of a member, with its budget and the stream to its listeners.
struct ModelCall<'a> {
    member: &'a AgentMember,
    request: &'a Request,
    calls: &'a ObservedCalls,
    stream: Option<&'a TurnStream>,
    position: u64,
    budget: Option<&'a TurnBudget>,
    timer: &'a dyn Timer,
    rng: &'a dyn RandomSource,
}

impl ModelCall<'_> {
    /// Asks for an answer that the loop can go on with; one without a word is asked for once more (D30). Returns, too,
    /// how often the model was asked; each answer counts for the budget, also an unusable one.
    async fn ask_until_usable(
        &self,
        parts: &AgentLoopParts,
        answers: u64,
    ) -> Result<(UsableResponse, u64), NodeError> {
        let mut asked = 0;
        loop {
            check_model_call_limit(parts, answers + asked)?;
            asked += 1;
            let answered = self.ask_within_time().await;
            let response = match &answered {
                Ok(response) => Some(response),
                Err(error) => error.refused_response(),
            };
            if let (Some(budget), Some(response)) = (self.budget, response) {
                budget.count_model_call(self.member.provider.model_name(), &response.usage)?;
            }
            let usable = accept_response(answered.and_then(require_whole_response), self.request)?;
            if asked > 1 || !is_empty_response(&usable.response) {
                return Ok((usable, asked));
            }
        }
    }

    /// Asks within the time that one answer may take.
    async fn ask_within_time(&self) -> Result<Response, Error> {
        let report = self.calls.begin_model_call(self.member.provider.as_ref(), self.request);
        let answered =
            self.timer.run_with_timeout(self.member.model_time_max, ask_model(self, &report)).await;
        let answered = answered.unwrap_or_else(|_| {
            let seconds = self.member.model_time_max.as_secs();
            Err(Error::Unavailable(ProviderErrorDetail::new(format!(
                "the model did not answer within {seconds} s"
            ))))
        });
        report.end(answered.as_ref());
        answered
    }
}

/// Refuses half an answer that looks whole: one that finished with `error` and has no calls (spec: llm-provider §3,
/// §6). One with calls is repaired.
fn require_whole_response(response: Response) -> Result<Response, Error> {
    if response.finish_reason == ModelFinishReason::Error && response.message.tool_calls.is_empty() {
        return Err(Error::Unavailable(ProviderErrorDetail::new(
            "the provider failed in the middle of its answer",
        )));
    }
    Ok(response)
}

/// Checks that the model may be asked once more (D13).
fn check_model_call_limit(parts: &AgentLoopParts, answers: u64) -> Result<(), NodeError> {
    if answers < parts.model_calls_max {
        return Ok(());
    }
    let what = format!("the limit max_model_calls of {} was reached", parts.model_calls_max);
    Err(NodeError::new(what).with_category("chat_budget_exhausted"))
}
