//! An answer in progress: from a turn in a session, or from a run without one.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::response::{IntoResponse, Response};
use futures_core::Stream;
use futures_util::StreamExt;
use serde_json::{Map, Value, json};
use singletree_agent::ClientTools;
use singletree_durable::{StoredTurnStatus, Timestamp};
use singletree_engine::Extensions;
use singletree_harness::{
    Chat, ChatEvent, ChatEventKind, ChatTurnOutcome, Error, ErroredTurn, OnDisconnect, SendOptions,
    StatelessRequest, StatelessRun, SuspendedTurn, Turn,
};
use singletree_llm::{ChatMessage, Role};
use singletree_protocol::openai::{FinishReason, FunctionCall, ToolCall, ToolKind};

use super::answer::{self, CompletionEnding, CompletionHeader};
use super::asked::{CompletionInput, ParsedCompletionRequest, SdkRetryAttempt};
use super::models;
use super::problem;
use super::reasoning::{ReasoningBuffer, ThoughtPiece};
use super::speech::{BETWEEN, CompletionDelta, CompletionText};
use crate::disconnect::DisconnectGuard;
use crate::fold::ChatProjection;
use crate::native::{ContentVisibility, mark_replayed};
use crate::pictures;
use crate::problem::RequestProblem;
use crate::shared::ServerState;
use crate::sse::{self, ServerSentEvent};
use crate::told::{StreamSender, stream_from_work};

/// The time that a stream waits for its first text before it begins. A failure within this time gets an error status,
/// and clients know from it whether to retry.
const PATIENCE: Duration = Duration::from_secs(2);

/// The maximum time between a message and its automatic retry.
const RETRIED_WITHIN: Duration = Duration::from_mins(30);

/// An answer in progress.
pub(super) struct CompletionRun {
    source: CompletionSource,
    head: CompletionHeader,
    streams: bool,
    /// The ignored parameters, which the answer names.
    ignored: Vec<&'static str>,
    speech: CompletionText,
    reasoning: ReasoningBuffer,
    fold: ChatProjection,
    /// The additions that were produced but not yet returned.
    ready: std::collections::VecDeque<CompletionDelta>,
    /// Cancels the turn when its client goes away, if the request or the agent asks for it (D31).
    disconnect: Option<DisconnectGuard>,
}

/// The source of an answer.
enum CompletionSource {
    /// A run without a session; it stops when its reader goes away.
    Run(StatelessRun, Option<ClientTools>),
    /// A turn, which goes on without a reader.
    Turn(Turn, Pin<Box<dyn Stream<Item = Result<ChatEvent, Error>> + Send>>),
}

/// Begins an answer.
///
/// # Errors
/// The reasons for a refusal before anything runs.
pub(super) async fn begin_completion(
    shared: &Arc<ServerState>,
    chat: &Chat,
    asked: ParsedCompletionRequest,
    on_disconnect: Option<OnDisconnect>,
) -> Result<CompletionRun, RequestProblem> {
    let ParsedCompletionRequest { agent, what, streams, tells_usage } = asked;
    if let Some(agent) = agent.as_deref().filter(|name| chat.agents().all(|agent| agent != *name)) {
        return Err(models::unknown_model_problem(agent));
    }
    let mut ignored = Vec::new();
    let (source, id, model) = match what {
        CompletionInput::Conversation { messages, tools, options } => {
            let request = StatelessRequest::new(messages);
            let request = agent.iter().fold(request, |it, agent| it.agent(agent));
            let extensions =
                tools.iter().cloned().fold(Extensions::default().with_value(options), Extensions::with_value);
            let run = chat
                .stateless(request.extensions(extensions))
                .map_err(|error| RequestProblem::from_chat_error(&error))?;
            let model = agent.unwrap_or_else(|| chat.default_agent().to_owned());
            (CompletionSource::Run(run, tools), shared.ids.generate_uuid(), model)
        }
        CompletionInput::Message { session, message, key, retry, ignored: not_taken } => {
            ignored = not_taken;
            let message = pictures::store_pictures(chat, &session, message).await?;
            let options = SendOptions::new().listen();
            let options = key.iter().fold(options, |it, key| it.key(key));
            let options = agent.iter().fold(options, |it, agent| it.agent(agent));
            let begun = match retry.filter(|_| key.is_none()) {
                Some(retry) => find_retried_turn(chat, &session, (&message, &retry), shared.now()).await?,
                None => None,
            };
            let turn = match begun {
                Some(turn) => turn,
                None => chat
                    .session(&session)
                    .submit(message, options)
                    .await
                    .map_err(|error| RequestProblem::from_chat_error(&error))?,
            };
            // A session keeps its agent, even if a request names another one.
            let model = chat
                .session(&session)
                .info()
                .await
                .map(|session| session.agent)
                .map_err(|error| RequestProblem::from_chat_error(&error))?;
            let (id, events) = (turn.id().to_string(), Box::pin(turn.events()));
            (CompletionSource::Turn(turn, events), id, model)
        }
    };
    let created = shared.now().as_millis().div_euclid(1000);
    let head = CompletionHeader { id: format!("chatcmpl-{id}"), created, model, tells_usage };
    let (speech, reasoning, fold) =
        (CompletionText::default(), ReasoningBuffer::default(), ChatProjection::default());
    let ready = std::collections::VecDeque::new();
    let disconnect = match &source {
        CompletionSource::Turn(turn, _) => DisconnectGuard::for_new_turn((shared, chat), on_disconnect, turn),
        CompletionSource::Run(..) => None,
    };
    Ok(CompletionRun { source, head, streams, ignored, speech, reasoning, fold, ready, disconnect })
}

/// Finds the turn of an automatic retry: the newest turn of the session, if it has the same message and the client does
/// not know its answer yet. Without this, a retry without an idempotency key would send the message twice.
async fn find_retried_turn(
    chat: &Chat,
    session: &str,
    (message, retry): (&ChatMessage, &SdkRetryAttempt),
    now: Timestamp,
) -> Result<Option<Turn>, RequestProblem> {
    let newest = match chat.session(session).newest_turn().await {
        Ok(newest) => newest,
        Err(Error::SessionUnknown { .. }) => None,
        Err(error) => return Err(RequestProblem::from_chat_error(&error)),
    };
    let Some(newest) = newest.filter(|turn| now.duration_since(turn.accepted_at) < RETRIED_WITHIN) else {
        return Ok(None);
    };
    let turn = chat.turn(&newest.id).await.map_err(|error| RequestProblem::from_chat_error(&error))?;
    let said = turn.message().await.map_err(|error| RequestProblem::from_chat_error(&error))?;
    if said.is_none_or(|(said, _)| *said != *message) {
        return Ok(None);
    }
    if newest.status == StoredTurnStatus::Accepted {
        return Ok(Some(turn));
    }
    let outcome = turn.outcome().await;
    let is_another = match outcome.as_ref() {
        // A failed turn that is safe to retry is tried again.
        ChatTurnOutcome::Errored(errored) => errored.retry_safe,
        ChatTurnOutcome::Completed(completed) => {
            let answers = completed.replies.iter().filter(|reply| reply.role == Role::Assistant);
            let texts: Vec<_> = answers.map(|reply| reply.text()).filter(|text| !text.is_empty()).collect();
            // Clients have the texts of all messages as one answer.
            retry.before.as_deref().is_some_and(|before| before == texts.join(BETWEEN))
        }
        ChatTurnOutcome::Suspended(_) => false,
    };
    Ok((!is_another).then_some(turn))
}

impl CompletionRun {
    /// Answers in the form that the request asked for.
    pub(super) async fn answer_request(self, shared: &Arc<ServerState>) -> Result<Response, RequestProblem> {
        let is_replayed = matches!(&self.source, CompletionSource::Turn(turn, _) if !turn.is_new());
        let mut response = self.stream_or_collect(shared).await?;
        if is_replayed {
            mark_replayed(&mut response);
        }
        Ok(response)
    }

    async fn stream_or_collect(mut self, shared: &Arc<ServerState>) -> Result<Response, RequestProblem> {
        if !self.streams {
            return self.collect_whole_response().await;
        }
        // A failure before the first text becomes an error response, with a status.
        let first = match tokio::time::timeout(PATIENCE, self.wait_for_delta()).await {
            Ok(first) => Some(first?),
            Err(_) => None,
        };
        if let Some(CompletionDelta::End(outcome)) = &first
            && let ChatTurnOutcome::Errored(errored) = outcome.as_ref()
        {
            return Err(RequestProblem::from_errored_turn(errored));
        }
        let redactor = shared.redactor.clone();
        let frames = stream_from_work(move |teller| async move {
            if let Err(problem) = self.send_chunks(first, &teller).await {
                let mut body = problem::build_error_body(&problem);
                // The request layer does not look into streams (INV-16).
                body.error.message = redactor.redact(&body.error.message).into_owned();
                let body = serde_json::to_string(&body).expect("an error of strings is JSON");
                teller.send_value(ServerSentEvent::from_data(body)).await;
            }
        });
        Ok(sse::stream_response(shared, frames))
    }

    async fn collect_whole_response(mut self) -> Result<Response, RequestProblem> {
        let outcome = loop {
            match self.wait_for_delta().await? {
                CompletionDelta::End(outcome) => break outcome,
                CompletionDelta::Nothing
                | CompletionDelta::Life
                | CompletionDelta::Text(_)
                | CompletionDelta::Thought(_) => {}
            }
        };
        let (note, ending) = self.finish_answer(&outcome).await?;
        let text = note.iter().fold(self.speech.joined_text(), |text, note| text + note);
        Ok(Json(self.head.into_completion(text, self.reasoning.joined_thoughts(), ending)).into_response())
    }

    /// Sends the answer as chunks.
    async fn send_chunks(
        &mut self,
        first: Option<CompletionDelta>,
        teller: &StreamSender<ServerSentEvent>,
    ) -> Result<(), RequestProblem> {
        teller.send_value(self.head.encode_first_chunk()).await;
        let mut added = match first {
            Some(first) => first,
            None => self.wait_for_delta().await?,
        };
        loop {
            match added {
                CompletionDelta::Text(text) => teller.send_value(self.head.encode_text_chunk(text)).await,
                CompletionDelta::Thought(text) => {
                    teller.send_value(self.head.encode_thought_chunk(text)).await
                }
                CompletionDelta::Nothing | CompletionDelta::Life => {}
                CompletionDelta::End(outcome) => {
                    let (note, ending) = self.finish_answer(&outcome).await?;
                    for frame in note
                        .map(|note| self.head.encode_text_chunk(note))
                        .into_iter()
                        .chain(self.head.encode_last_chunks(ending))
                    {
                        teller.send_value(frame).await;
                    }
                    return Ok(());
                }
            }
            added = self.wait_for_delta().await?;
        }
    }

    /// Waits for the next addition to the answer.
    async fn wait_for_delta(&mut self) -> Result<CompletionDelta, RequestProblem> {
        loop {
            if let Some(added) = self.ready.pop_front() {
                return Ok(added);
            }
            let event = match &mut self.source {
                CompletionSource::Run(run, _) => run.next().await.map(Ok),
                CompletionSource::Turn(_, events) => events.next().await,
            };
            let event = match event {
                Some(event) => event.map_err(|error| RequestProblem::from_chat_error(&error)),
                // Neither source ends without an outcome or an error.
                None => Err(RequestProblem::from_chat_error(&Error::ShuttingDown)),
            };
            if event.is_err() {
                // The stream ends here, but its client has not gone away: the turn goes on.
                self.disconnect.iter_mut().for_each(DisconnectGuard::mark_finished);
            }
            let event = event?;
            if let ChatEventKind::ThinkingDelta { id, run, n: _, text, so_far } = &event.what {
                let told = self.reasoning.add_piece(ThoughtPiece { id, run: *run, text, so_far: *so_far });
                self.ready.extend(told.map(CompletionDelta::Thought));
                continue;
            }
            let (fold, speech) = (&mut self.fold, &mut self.speech);
            let added = fold.apply_event(&event).into_iter().map(|it| speech.apply_piece(it));
            self.ready.extend(added.filter(|added| !matches!(added, CompletionDelta::Nothing)));
        }
    }

    /// Returns the end of the answer, and a note for its text if the turn is suspended.
    async fn finish_answer(
        &mut self,
        outcome: &ChatTurnOutcome,
    ) -> Result<(Option<String>, CompletionEnding), RequestProblem> {
        self.disconnect.iter_mut().for_each(DisconnectGuard::mark_finished);
        match outcome {
            ChatTurnOutcome::Completed(_) => Ok((None, self.build_completed_ending().await)),
            ChatTurnOutcome::Suspended(suspended) => {
                let note = self.speech.format_note(&describe_wait(suspended, self.session_id()));
                let mut ending = self.build_completed_ending().await;
                let told = serde_json::to_value(
                    ContentVisibility::default().convert_outcome(self.session_id(), outcome),
                );
                let wait = told.ok().and_then(|mut told| told.get_mut("wait").map(Value::take));
                ending.ours.extend([
                    ("outcome".to_owned(), json!("suspended")),
                    ("wait".to_owned(), wait.unwrap_or_default()),
                ]);
                Ok((Some(note), CompletionEnding { reason: FinishReason::Stop, ..ending }))
            }
            ChatTurnOutcome::Errored(errored) => Err(self.problem_from_failure(errored)),
        }
    }

    fn problem_from_failure(&self, errored: &ErroredTurn) -> RequestProblem {
        match &self.source {
            CompletionSource::Turn(..) if !errored.recorded => RequestProblem::from_errored_turn(errored)
                .with_hint("the turn is kept: ask again with the same Idempotency-Key"),
            CompletionSource::Run(..) | CompletionSource::Turn(..) => {
                RequestProblem::from_errored_turn(errored)
            }
        }
    }

    fn session_id(&self) -> &str {
        match &self.source {
            CompletionSource::Turn(turn, _) => turn.session(),
            CompletionSource::Run(..) => "",
        }
    }

    async fn build_completed_ending(&mut self) -> CompletionEnding {
        let mut ours = Map::new();
        if self.streams && self.speech.is_void {
            // The void text was sent and cannot be taken back: `superseded` reports that a new text follows it.
            ours.insert("superseded".into(), true.into());
        }
        if !self.ignored.is_empty() {
            ours.insert("ignored".into(), json!(self.ignored));
        }
        let (calls, used) = match &self.source {
            CompletionSource::Run(run, tools) => (self.client_tool_calls(tools.as_ref()), run.usage()),
            CompletionSource::Turn(turn, _) => {
                ours.insert("session".into(), turn.session().into());
                ours.insert("turn".into(), turn.id().to_string().into());
                // The answer goes out even if its usage cannot be read.
                (Vec::new(), turn.usage().await.unwrap_or_default())
            }
        };
        let reason = if calls.is_empty() { self.speech.finish_reason() } else { FinishReason::ToolCalls };
        CompletionEnding { reason, calls, usage: answer::sum_token_usage(&used), ours }
    }

    /// Returns the calls that the client has to run. A message may also call the agent's own tools; those were not
    /// run.
    fn client_tool_calls(&self, tools: Option<&ClientTools>) -> Vec<ToolCall> {
        let calls = self
            .speech
            .last_tool_calls()
            .iter()
            .filter(|call| tools.is_some_and(|tools| tools.is_client_call(call)));
        let call = |it: &singletree_llm::ToolCall| {
            let arguments = Value::Object(it.arguments.clone().unwrap_or_default()).to_string();
            let function = FunctionCall { name: it.name.clone(), arguments };
            ToolCall { id: it.id.clone(), kind: ToolKind::Function, function }
        };
        calls.map(call).collect()
    }
}

/// Describes a wait, and how to answer it.
fn describe_wait(suspended: &SuspendedTurn, session: &str) -> String {
    let signal = &suspended.signal_descriptor.signal_id;
    let metadata = suspended.signal_descriptor.metadata.as_ref();
    let said = |name: &str| metadata.and_then(|metadata| metadata.get(name));
    let what = match (said("tool").and_then(Value::as_str), &suspended.wait.action) {
        (Some(tool), Some(_)) => {
            let arguments = said("arguments").map(ToString::to_string).unwrap_or_default();
            format!("Before the tool `{tool}` is run with {arguments}, somebody has to approve it.")
        }
        (_, Some(_)) => "Before this goes on, somebody has to approve it.".to_owned(),
        (_, None) => "This waits for an answer.".to_owned(),
    };
    format!(
        "{what} It is answered at POST /v1/sessions/{session}/signals/{signal}, and is listed at GET /v1/pending."
    )
}
