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
use crate::told::{StreamSender, told};

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
pub(super) async fn begin(
    shared: &Arc<ServerState>,
    chat: &Chat,
    asked: ParsedCompletionRequest,
    on_disconnect: Option<OnDisconnect>,
) -> Result<CompletionRun, RequestProblem> {
    let ParsedCompletionRequest { agent, what, streams, tells_usage } = asked;
    if let Some(agent) = agent.as_deref().filter(|name| chat.agents().all(|agent| agent != *name)) {
        return Err(models::unknown(agent));
    }
    let mut ignored = Vec::new();
    let (source, id, model) = match what {
        CompletionInput::Conversation { messages, tools, options } => {
            let request = StatelessRequest::new(messages);
            let request = agent.iter().fold(request, |it, agent| it.agent(agent));
            let extensions =
                tools.iter().cloned().fold(Extensions::default().with(options), Extensions::with);
            let run = chat
                .stateless(request.extensions(extensions))
                .map_err(|error| RequestProblem::of_turn(&error))?;
            let model = agent.unwrap_or_else(|| chat.default_agent().to_owned());
            (CompletionSource::Run(run, tools), shared.ids.uuid(), model)
        }
        CompletionInput::Message { session, message, key, retry, ignored: not_taken } => {
            ignored = not_taken;
            let message = pictures::kept(chat, &session, message).await?;
            let options = SendOptions::new().listen();
            let options = key.iter().fold(options, |it, key| it.key(key));
            let options = agent.iter().fold(options, |it, agent| it.agent(agent));
            let begun = match retry.filter(|_| key.is_none()) {
                Some(retry) => said_before(chat, &session, (&message, &retry), shared.now()).await?,
                None => None,
            };
            let turn = match begun {
                Some(turn) => turn,
                None => chat
                    .submit(&session, message, options)
                    .await
                    .map_err(|errored| RequestProblem::of_turn(&errored))?,
            };
            // A session keeps its agent, even if a request names another one.
            let model = chat
                .session_info(&session)
                .await
                .map(|session| session.agent)
                .map_err(|error| RequestProblem::of(&error))?;
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
        CompletionSource::Turn(turn, _) => DisconnectGuard::of((shared, chat), on_disconnect, turn),
        CompletionSource::Run(..) => None,
    };
    Ok(CompletionRun { source, head, streams, ignored, speech, reasoning, fold, ready, disconnect })
}

/// Finds the turn of an automatic retry: the newest turn of the session, if it has the same message and the client does
/// not know its answer yet. Without this, a retry without an idempotency key would send the message twice.
async fn said_before(
    chat: &Chat,
    session: &str,
    (message, retry): (&ChatMessage, &SdkRetryAttempt),
    now: Timestamp,
) -> Result<Option<Turn>, RequestProblem> {
    let newest = match chat.newest_turn(session).await {
        Ok(newest) => newest,
        Err(Error::SessionUnknown { .. }) => None,
        Err(error) => return Err(RequestProblem::of(&error)),
    };
    let Some(newest) = newest.filter(|turn| now.since(turn.accepted_at) < RETRIED_WITHIN) else {
        return Ok(None);
    };
    let turn = chat.turn(&newest.id).await.map_err(|error| RequestProblem::of(&error))?;
    let said = turn.message().await.map_err(|error| RequestProblem::of(&error))?;
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
    pub(super) async fn answer(self, shared: &Arc<ServerState>) -> Result<Response, RequestProblem> {
        let is_replayed = matches!(&self.source, CompletionSource::Turn(turn, _) if !turn.is_new());
        let mut response = self.begun(shared).await?;
        if is_replayed {
            mark_replayed(&mut response);
        }
        Ok(response)
    }

    async fn begun(mut self, shared: &Arc<ServerState>) -> Result<Response, RequestProblem> {
        if !self.streams {
            return self.whole().await;
        }
        // A failure before the first text becomes an error response, with a status.
        let first = match tokio::time::timeout(PATIENCE, self.next()).await {
            Ok(first) => Some(first?),
            Err(_) => None,
        };
        if let Some(CompletionDelta::End(outcome)) = &first
            && let ChatTurnOutcome::Errored(errored) = outcome.as_ref()
        {
            return Err(RequestProblem::of_turn(errored));
        }
        let redactor = shared.redactor.clone();
        let frames = told(move |teller| async move {
            if let Err(problem) = self.tell(first, &teller).await {
                let mut body = problem::body(&problem);
                // The request layer does not look into streams (INV-16).
                body.error.message = redactor.redact(&body.error.message).into_owned();
                let body = serde_json::to_string(&body).expect("an error of strings is JSON");
                teller.tell(ServerSentEvent::data(body)).await;
            }
        });
        Ok(sse::stream(shared, frames))
    }

    async fn whole(mut self) -> Result<Response, RequestProblem> {
        let outcome = loop {
            match self.next().await? {
                CompletionDelta::End(outcome) => break outcome,
                CompletionDelta::Nothing
                | CompletionDelta::Life
                | CompletionDelta::Text(_)
                | CompletionDelta::Thought(_) => {}
            }
        };
        let (note, ending) = self.ending(&outcome).await?;
        let text = note.iter().fold(self.speech.text(), |text, note| text + note);
        Ok(Json(self.head.whole(text, self.reasoning.text(), ending)).into_response())
    }

    /// Sends the answer as chunks.
    async fn tell(
        &mut self,
        first: Option<CompletionDelta>,
        teller: &StreamSender<ServerSentEvent>,
    ) -> Result<(), RequestProblem> {
        teller.tell(self.head.begin()).await;
        let mut added = match first {
            Some(first) => first,
            None => self.next().await?,
        };
        loop {
            match added {
                CompletionDelta::Text(text) => teller.tell(self.head.text(text)).await,
                CompletionDelta::Thought(text) => teller.tell(self.head.thought(text)).await,
                CompletionDelta::Nothing | CompletionDelta::Life => {}
                CompletionDelta::End(outcome) => {
                    let (note, ending) = self.ending(&outcome).await?;
                    for frame in
                        note.map(|note| self.head.text(note)).into_iter().chain(self.head.end(ending))
                    {
                        teller.tell(frame).await;
                    }
                    return Ok(());
                }
            }
            added = self.next().await?;
        }
    }

    /// Waits for the next addition to the answer.
    async fn next(&mut self) -> Result<CompletionDelta, RequestProblem> {
        loop {
            if let Some(added) = self.ready.pop_front() {
                return Ok(added);
            }
            let event = match &mut self.source {
                CompletionSource::Run(run, _) => run.next().await.map(Ok),
                CompletionSource::Turn(_, events) => events.next().await,
            };
            let event = match event {
                Some(event) => event.map_err(|error| RequestProblem::of(&error)),
                // Neither source ends without an outcome or an error.
                None => Err(RequestProblem::of(&Error::ShuttingDown)),
            };
            if event.is_err() {
                // The stream ends here, but its client has not gone away: the turn goes on.
                self.disconnect.iter_mut().for_each(DisconnectGuard::finish);
            }
            let event = event?;
            if let ChatEventKind::ThinkingDelta { id, run, n: _, text, so_far } = &event.what {
                let told = self.reasoning.add(ThoughtPiece { id, run: *run, text, so_far: *so_far });
                self.ready.extend(told.map(CompletionDelta::Thought));
                continue;
            }
            let (fold, speech) = (&mut self.fold, &mut self.speech);
            let added = fold.event(&event).into_iter().map(|it| speech.piece(it));
            self.ready.extend(added.filter(|added| !matches!(added, CompletionDelta::Nothing)));
        }
    }

    /// Returns the end of the answer, and a note for its text if the turn is suspended.
    async fn ending(
        &mut self,
        outcome: &ChatTurnOutcome,
    ) -> Result<(Option<String>, CompletionEnding), RequestProblem> {
        self.disconnect.iter_mut().for_each(DisconnectGuard::finish);
        match outcome {
            ChatTurnOutcome::Completed(_) => Ok((None, self.completed().await)),
            ChatTurnOutcome::Suspended(suspended) => {
                let note = self.speech.note(&waits(suspended, self.session()));
                let mut ending = self.completed().await;
                let told =
                    serde_json::to_value(ContentVisibility::default().outcome(self.session(), outcome));
                let wait = told.ok().and_then(|mut told| told.get_mut("wait").map(Value::take));
                ending.ours.extend([
                    ("outcome".to_owned(), json!("suspended")),
                    ("wait".to_owned(), wait.unwrap_or_default()),
                ]);
                Ok((Some(note), CompletionEnding { reason: FinishReason::Stop, ..ending }))
            }
            ChatTurnOutcome::Errored(errored) => Err(self.errored(errored)),
        }
    }

    fn errored(&self, errored: &ErroredTurn) -> RequestProblem {
        match &self.source {
            CompletionSource::Turn(..) if !errored.recorded => RequestProblem::of_turn(errored)
                .hint("the turn is kept: ask again with the same Idempotency-Key"),
            CompletionSource::Run(..) | CompletionSource::Turn(..) => RequestProblem::of_turn(errored),
        }
    }

    fn session(&self) -> &str {
        match &self.source {
            CompletionSource::Turn(turn, _) => turn.session(),
            CompletionSource::Run(..) => "",
        }
    }

    async fn completed(&mut self) -> CompletionEnding {
        let mut ours = Map::new();
        if self.streams && self.speech.is_void {
            // The void text was sent and cannot be taken back: `superseded` reports that a new text follows it.
            ours.insert("superseded".into(), true.into());
        }
        if !self.ignored.is_empty() {
            ours.insert("ignored".into(), json!(self.ignored));
        }
        let (calls, used) = match &self.source {
            CompletionSource::Run(run, tools) => (self.theirs(tools.as_ref()), run.usage()),
            CompletionSource::Turn(turn, _) => {
                ours.insert("session".into(), turn.session().into());
                ours.insert("turn".into(), turn.id().to_string().into());
                // The answer goes out even if its usage cannot be read.
                (Vec::new(), turn.usage().await.unwrap_or_default())
            }
        };
        let reason = if calls.is_empty() { self.speech.reason() } else { FinishReason::ToolCalls };
        CompletionEnding { reason, calls, usage: answer::usage(&used), ours }
    }

    /// Returns the calls that the client has to run. A message may also call the agent's own tools; those were not
    /// run.
    fn theirs(&self, tools: Option<&ClientTools>) -> Vec<ToolCall> {
        let calls = self.speech.calls().iter().filter(|call| tools.is_some_and(|tools| tools.runs(call)));
        let call = |it: &singletree_llm::ToolCall| {
            let arguments = Value::Object(it.arguments.clone().unwrap_or_default()).to_string();
            let function = FunctionCall { name: it.name.clone(), arguments };
            ToolCall { id: it.id.clone(), kind: ToolKind::Function, function }
        };
        calls.map(call).collect()
    }
}

/// Describes a wait, and how to answer it.
fn waits(suspended: &SuspendedTurn, session: &str) -> String {
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
