//! Accepting messages: validate, take a place, make it durable (harness-chat §3.1, §5, D3).

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use singletree_durable::{BoxFuture, InvocationId, JsonDocument, TurnRow};
use singletree_engine::{Item, TraceHeaders};
use singletree_llm::ChatMessage;
use singletree_session::apply::accept::{accept_into_queue, check_acceptable};
use singletree_session::{
    AcceptanceRefusal, AcceptedMessage, ErroredTurn, ForkSource, MessageToQueue, RetriedTurn, ReusableKey,
    TurnId, TurnPromptPolicy, TurnRowExt, apply, effective_nesting,
};

use crate::agents::admission::TurnPermit;
use crate::api::chat::Chat;
use crate::api::chat_session::Session;
use crate::api::idempotency::KeyedTurn;
use crate::api::send_options::SendOptions;
use crate::api::turn::Turn;
use crate::dispatch::runner::is_transient_failure;
use crate::runtime::chat_inner::ServedAgent;
use crate::runtime::commit::DoubtReport;
use crate::runtime::loaded_session::{LoadedSession, LoadedState, OutcomeReceiver, TurnHandle};
use crate::{Error, Result};

/// A message that may be accepted.
#[derive(Clone)]
pub(crate) struct ValidatedMessage {
    message: Arc<ChatMessage>,
    item: Item,
    body: JsonDocument,
    key: Option<(String, String)>,
    steers: bool,
    side: Option<Value>,
    policy: Option<TurnPromptPolicy>,
    trace: Option<Arc<TraceHeaders>>,
}

impl ValidatedMessage {
    /// Sets the message's side record.
    pub(crate) fn with_side_record(self, side: Option<Value>) -> Self {
        Self { side, ..self }
    }
}

/// A message to accept, and the agent that answers it.
pub(crate) struct Acceptance<'a> {
    pub(crate) served: &'a ServedAgent,
    pub(crate) valid: ValidatedMessage,
    /// The fork that the session begins as, when it begins with this message.
    pub(crate) forking: Option<ForkSource<'a>>,
    /// The failed turn that it retries.
    pub(crate) retried: Option<RetriedTurn>,
    /// The failed turn whose idempotency key it takes over.
    pub(crate) reusable: Option<ReusableKey>,
}

/// A place that was taken: the turn's name and number, who tells how it ends, and where its events begin.
pub(crate) struct AcceptedTurn {
    pub(crate) id: TurnId,
    pub(crate) told: OutcomeReceiver,
    pub(crate) no: u64,
    pub(crate) from: u64,
}

/// How often a message is tried again to be accepted whose place was taken in the meantime.
const ATTEMPTS: u32 = 8;

/// Why a message was not accepted.
pub(crate) enum AcceptanceError {
    /// Something was decided in the meantime: look again.
    Again(Error),
    /// Nothing of it is stored.
    Refused(Error),
}

impl From<AcceptanceRefusal> for AcceptanceError {
    fn from(refusal: AcceptanceRefusal) -> Self {
        match refusal {
            AcceptanceRefusal::Again => again_error(),
            AcceptanceRefusal::QueueFull(max) => Self::Refused(Error::QueueFull { max }),
            AcceptanceRefusal::Refused(error) => Self::Refused(error.into()),
        }
    }
}

impl Session {
    /// Accepts a message: when this returns, no crash loses it, and its turn reaches exactly one outcome (INV-2).
    ///
    /// # Errors
    /// Refused before acceptance, with nothing stored: `chat_message_shape_invalid`, `harness_session_id_unresolved`,
    /// `session_load_failed`, `server_quota_exceeded`, `chat_queue_full`, `chat_accept_failed`,
    /// `chat_idempotency_conflict`, `chat_agent_unknown`, `chat_blob_unknown`, `chat_blob_refused`,
    /// `chat_sessions_full`, `chat_shutting_down`; `chat_subscriptions_full` when it would listen.
    /// `chat_accept_unknown`, with the turn's name, when the store says neither that it accepted nor that it did not
    /// (D20, D38); safe to retry with the same idempotency key only.
    ///
    /// # Cancellation
    /// A dropped call has accepted the message or has not.
    pub async fn submit(&self, message: impl Into<ChatMessage>, options: SendOptions) -> Result<Turn> {
        self.chat
            .try_submit_message(&self.id, message.into(), options)
            .await
            .map_err(|error| self.chat.refused_turn(&error))
    }
}

impl Chat {
    /// Reports a message that was refused before it became a turn.
    pub(crate) fn refused_turn(&self, error: &Error) -> Error {
        let (turn, has_key) = match error {
            Error::AcceptUnknown { turn, has_key, .. } => (Some(turn.clone()), *has_key),
            _ => (None, false),
        };
        let is_known = turn.is_none();
        let errored = self.inner.default_served_agent().make_errored_turn(&self.inner.limits, turn, error);
        let retry_safe = if is_known { errored.retry_safe } else { has_key };
        Error::Refused(Box::new(ErroredTurn { recorded: is_known, retry_safe, ..errored }))
    }

    pub(crate) fn try_submit_message<'a>(
        &'a self,
        session_id: &'a str,
        message: ChatMessage,
        options: SendOptions,
    ) -> BoxFuture<'a, Result<Turn>> {
        Box::pin(async move {
            // No store is touched before the input is known to be valid (harness-chat §3.1).
            let key = self.session_key(session_id)?;
            self.check_not_reserved(session_id)?;
            let valid = self.validate_message(message, &options)?;
            if self.inner.is_closing() {
                return Err(Error::ShuttingDown);
            }
            if let Some(agent) = &options.agent {
                self.find_agent_for_session(agent, session_id)?;
            }
            self.check_blobs(&key, &valid.message).await.map_err(accept_failed_error)?;
            let loaded = self.inner.session_in_memory(&key)?;
            let max = self.inner.limits.subscriptions;
            if options.listen && !loaded.readers.has_reader_room(max) {
                return Err(Error::SubscriptionsFull { max });
            }
            let live = options.listen.then(|| loaded.feed.subscribe_to_events());
            let mut attempt = 1;
            loop {
                // A failure here has stored nothing. A session that cannot be read is a failed load (harness-chat
                // §10.1), also before its turn is accepted; a turn that cannot be written is `chat_accept_failed` (D3).
                let mut ready = self.inner.ensure_session_ready(&loaded).await;
                if is_transient_failure(&ready) && self.inner.pause_before_load().await {
                    ready = self.inner.ensure_session_ready(&loaded).await;
                }
                self.inner.translate_load_error(ready)?;
                let reusable = match self.find_keyed_turn(&loaded, valid.key.as_ref()).await? {
                    KeyedTurn::Found(turn) => return Ok(*turn),
                    KeyedTurn::Free(reusable) => reusable,
                };
                let served = self.find_answering_agent(&loaded, options.agent.as_deref())?;
                self.check_tool_message(&loaded, &served, &valid.message).await?;
                let valid = valid.clone();
                let acceptance =
                    Acceptance { served: &served, valid, forking: None, retried: None, reusable };
                match self.accept_message(&loaded, acceptance).await {
                    Ok(AcceptedTurn { id, told, no, from }) => {
                        let turn = Turn::with_outcome_receiver(self.clone(), key, id, told);
                        return Ok(turn.with_log_start(no, from, live));
                    }
                    Err(AcceptanceError::Again(_)) if attempt < ATTEMPTS => attempt += 1,
                    Err(AcceptanceError::Again(error) | AcceptanceError::Refused(error)) => {
                        return Err(error);
                    }
                }
            }
        })
    }

    /// Checks a message before anything is done for it.
    pub(crate) fn validate_message(
        &self,
        message: ChatMessage,
        options: &SendOptions,
    ) -> Result<ValidatedMessage> {
        let limits = &self.inner.limits;
        message.validate().map_err(|error| Error::MessageShape { why: error.to_string() })?;
        let item = Item::from_typed(message);
        let text = item.json_text().map_err(|error| Error::MessageShape { why: error.to_string() })?;
        let side = (!options.notes.is_empty()).then(|| Value::Object(options.notes.clone()));
        let bytes = text.len() + side.as_ref().map_or(0, |side| side.to_string().len());
        if bytes > limits.message_bytes {
            let why = format!("it has {bytes} bytes, and {} are allowed", limits.message_bytes);
            return Err(Error::MessageShape { why });
        }
        let max = effective_nesting(limits);
        let side_levels = side.as_ref().map_or(0, |side| JsonDocument::nesting_depth(&side.to_string()));
        if JsonDocument::nesting_depth(text).max(side_levels) > max {
            return Err(Error::MessageShape { why: format!("it has more than {max} levels") });
        }
        let body = JsonDocument::from_text(text);
        let key = self.digest_idempotency_key(&body, options)?;
        let message = item.decode_shared().map_err(|error| Error::MessageShape { why: error.to_string() })?;
        let (policy, steers) = (options.policy, options.steers);
        let trace = options.trace.clone().or_else(TraceHeaders::current);
        Ok(ValidatedMessage { message, item, body, key, steers, side, policy, trace })
    }

    /// Finds an agent that may answer in a session: one that has sessions of its own answers in those only.
    pub(crate) fn find_agent_for_session(&self, agent: &str, session: &str) -> Result<&Arc<ServedAgent>> {
        let served = self.inner.find_served_agent(agent)?;
        match &served.agent.reserved {
            Some(prefix) if !session.starts_with(prefix.as_str()) => {
                Err(Error::AgentUnknown { agent: agent.to_owned() })
            }
            Some(_) | None => Ok(served),
        }
    }

    fn find_answering_agent(&self, loaded: &LoadedSession, asked: Option<&str>) -> Result<Arc<ServedAgent>> {
        let held = loaded
            .lock_state()
            .session_head()
            .map(|head| head.agent.clone())
            .filter(|agent| !agent.is_empty());
        let name = held.as_deref().or(asked).unwrap_or(&self.inner.default_agent);
        self.inner.find_served_agent(name).cloned()
    }

    /// Takes a place in the queue and makes it durable, in the commit that makes the session where it is a fork.
    pub(crate) async fn accept_message(
        &self,
        loaded: &Arc<LoadedSession>,
        acceptance: Acceptance<'_>,
    ) -> Result<AcceptedTurn, AcceptanceError> {
        let Acceptance { served, valid, forking, retried, reusable } = acceptance;
        self.admit_tokens().await.map_err(AcceptanceError::Refused)?;
        let invocation = InvocationId::parse(self.inner.env.ids.generate_uuid());
        let invocation =
            invocation.map_err(|error| AcceptanceError::Refused(Error::Accept { source: error.into() }))?;
        let handle = TurnHandle::new(None, valid.key.clone());
        let ((row, from), commit) = self.inner.commit_decision(loaded, |state, writing| {
            // A stop marks the turns that it leaves: later ones would count as dead with the process (D24).
            if self.inner.is_closing() {
                return Err(AcceptanceError::Refused(Error::ShuttingDown));
            }
            let accepted = AcceptedMessage {
                agent: served.agent.describe_version(),
                invocation,
                message: valid.message,
                body: valid.body,
                key: valid.key,
                reusable,
                side: valid.side.as_ref().map(JsonDocument::from),
                exists: state.session_head().is_some(),
                policy: valid.policy.unwrap_or(served.agent.prompt_policy),
                retried,
                subject: self.session_subject().cloned(),
                trace: valid.trace.clone(),
            };
            let begins_as = forking.as_ref().map(|forking| &forking.source.head);
            let policy = check_acceptable(state, self.inner.limits.queue, &accepted, begins_as)?;
            handle.set_run_permit(self.admit_acceptance(state).map_err(AcceptanceError::Refused)?);
            handle.set_admission(self.admission.as_ref());
            handle.set_caller_trace(valid.trace);
            if let Some(forking) = forking {
                let forked = apply::fork::fork_session(state, writing, forking);
                forked.map_err(|error| AcceptanceError::Refused(error.into()))?;
            }
            let from = writing.counters.events;
            let queued = MessageToQueue {
                handle: handle.clone(),
                message: valid.item,
                steers: valid.steers,
                side: valid.side,
            };
            let accepted = AcceptedMessage { policy, ..accepted };
            let row = accept_into_queue(state, writing, accepted, queued);
            handle.assign_turn_id(row.turn_id());
            Ok::<_, AcceptanceError>((row, from))
        })?;
        let (no, id) = (row.no, row.turn_id());
        self.await_acceptance(loaded, commit, row).await?;
        Ok(AcceptedTurn { id, told: handle.subscribe_outcome(), no, from })
    }

    /// Asks the admission for the turn, and for the session where it begins now. Returns the permit to run.
    fn admit_acceptance(&self, state: &LoadedState) -> Result<Option<TurnPermit>> {
        let permit = self.admit_turn()?;
        if state.session_head().is_none() {
            self.admit_session()?;
        }
        Ok(permit)
    }

    /// Waits, in a task of the chat, until the message is durable; then lets it run.
    async fn await_acceptance(
        &self,
        loaded: &Arc<LoadedSession>,
        commit: crate::runtime::commit::PendingCommit,
        row: TurnRow,
    ) -> Result<(), AcceptanceError> {
        let (told, landed) = tokio::sync::oneshot::channel();
        let (inner, loaded) = (self.inner.clone(), loaded.clone());
        self.inner.tasks.spawn_task(async move {
            let told = Mutex::new(Some(told));
            let take_sender = || told.lock().unwrap_or_else(PoisonError::into_inner).take();
            // The first failed read tells the sender (D20).
            let report: DoubtReport<'_> = &|error| {
                if let Some(told) = take_sender() {
                    let source = singletree_engine::format_error_chain(error);
                    drop(told.send(Err(accept_unknown_error(&row, source))));
                }
                true
            };
            let landed = inner.await_settled_commit(&loaded, commit, Some(report)).await;
            let handle = loaded.lock_state().settle_message(&row, landed.is_ok());
            if let Some(handle) = handle {
                handle.settle_acceptance(landed.is_ok());
            }
            loaded.freed.notify_waiters();
            if let Some(told) = take_sender() {
                let landed = landed.map_err(|error| match error {
                    it @ (singletree_durable::Error::Refused { .. }
                    | singletree_durable::Error::LeaseLost { .. }) => {
                        AcceptanceError::Again(accept_failed_error(it.into()))
                    }
                    // Nothing of it is visible here, and the next process may find it (D38).
                    it @ singletree_durable::Error::CommitUnknown { .. } => accept_unknown_error(&row, it),
                    it => AcceptanceError::Refused(accept_failed_error(it.into())),
                });
                // Who sent it may have gone; the message is kept.
                drop(told.send(landed));
            }
            inner.run_queue(&loaded).await;
        });
        landed.await.unwrap_or(Err(AcceptanceError::Refused(Error::ShuttingDown)))
    }
}

fn again_error() -> AcceptanceError {
    AcceptanceError::Again(Error::Accept { source: "the session changed in the meantime".into() })
}

/// Says that it is not known whether a turn was accepted.
fn accept_unknown_error(row: &TurnRow, source: impl Into<singletree_durable::BoxError>) -> AcceptanceError {
    let (turn, has_key) = (row.turn_id(), row.key.is_some());
    AcceptanceError::Refused(Error::AcceptUnknown { turn, has_key, source: source.into() })
}

pub(crate) fn accept_failed_error(error: Error) -> Error {
    match error {
        Error::Store { source } => Error::Accept { source: source.into() },
        other => other,
    }
}
