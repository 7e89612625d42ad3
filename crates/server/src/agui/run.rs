//! One run: from the request of a client to the last event of its stream.

use std::sync::Arc;

use futures_core::Stream;
use futures_util::FutureExt;
use serde_json::json;
use sha2::{Digest, Sha256};
use singletree_harness::{
    Chat, ChatEventId, ChatTurnOutcome, OnDisconnect, SendOptions, SignalAddress, Turn, TurnId,
};
use singletree_protocol::agui::{Event, Interrupt, Message, Outcome, PROTOCOL_VERSION};

use super::failed::AguiRunFailure;
use super::interrupt;
use super::mirror::{self, ClientMessageList};
use super::said::{AguiRunRequest, AguiUserMessage, InterruptAnswer, payload_to_object};
use super::telling;
use super::truth::AguiTranscript;
use super::turns::{TurnStartTiming, append_messages};
use super::unanswered::FailedMessages;
use super::view::{self, CLIENT_ID};
use super::wrap_own_metadata;
use crate::caller::{Caller, Scope};
use crate::disconnect::DisconnectGuard;
use crate::pictures;
use crate::shared::ServerState;
use crate::sse::ServerSentEvent;
use crate::told::{StreamSender, stream_from_work};

/// The key, in the side record of a message, of the id of the run that sent the message (D17).
pub(super) const RUN_ID: &str = "run_id";

/// The number of times that a message can be sent under its id while its turns fail.
const ATTEMPTS: u32 = 32;

/// Returns the frames of a run. A client that goes away cancels its turn only if it asked for that (D31); otherwise the
/// turn goes on, and the same run finds it again.
pub(super) fn stream_run_frames(
    shared: Arc<ServerState>,
    caller: Caller,
    asked: AguiRunRequest,
    on_disconnect: Option<OnDisconnect>,
) -> impl Stream<Item = ServerSentEvent> + Send + 'static {
    stream_from_work(move |teller| async move {
        let chat = shared.chat_of_caller(&caller);
        let disconnect = DisconnectGuard::new(shared.clone(), chat.clone(), on_disconnect);
        let posted = Some(asked.held.clone());
        let mirror = ClientMessageList::from_posted(&asked.held);
        AguiRunHandler {
            shared,
            chat,
            caller,
            asked,
            teller,
            posted,
            mirror,
            failed: FailedMessages::default(),
            begun_after: None,
            narrated_after: None,
            turn: None,
            disconnect,
        }
        .run_to_finish()
        .await;
    })
}

/// One run.
pub(super) struct AguiRunHandler {
    pub(super) shared: Arc<ServerState>,
    pub(super) chat: Chat,
    pub(super) caller: Caller,
    pub(super) asked: AguiRunRequest,
    teller: StreamSender<ServerSentEvent>,
    /// The messages that the client posted, until they were compared with the transcript.
    posted: Option<Vec<singletree_protocol::agui::Held>>,
    /// The messages that the client holds now.
    pub(super) mirror: ClientMessageList,
    /// The messages of failed turns that the client held when the run began.
    pub(super) failed: FailedMessages,
    /// The last event before the run.
    pub(super) begun_after: Option<ChatEventId>,
    /// The id of the last narration before the run.
    pub(super) narrated_after: Option<String>,
    /// The turn of the last events that were sent.
    pub(super) turn: Option<TurnId>,
    /// Cancels the turn that the run began when its client goes away.
    pub(super) disconnect: DisconnectGuard,
}

/// The end of a run that did not fail.
#[derive(Debug)]
pub(super) enum AguiRunOutcome {
    Success,
    Interrupt(Vec<Interrupt>),
    Cancelled,
}

/// The result of the answers to interrupts.
enum InterruptResolution {
    /// The turn that goes on, and its age.
    Resumed(Turn, TurnStartTiming),
    /// The turn was given up.
    GivenUp,
    /// The interrupt to give up is no longer pending.
    Over,
}

impl AguiRunHandler {
    async fn run_to_finish(mut self) {
        let (thread_id, run_id) = (self.asked.thread.clone(), self.asked.run.clone());
        self.send_event(Event::RunStarted {
            thread_id: thread_id.clone(),
            run_id: run_id.clone(),
            protocol_version: PROTOCOL_VERSION.to_owned(),
            parent_run_id: self.asked.parent.clone(),
        })
        .await;
        let ended = self.execute_run().await;
        let turn = self.turn.as_ref().map(ToString::to_string);
        let last = match ended {
            Ok(end) => {
                let outcome = match end {
                    AguiRunOutcome::Success => Some(Outcome::Success),
                    AguiRunOutcome::Interrupt(interrupts) => Some(Outcome::Interrupt { interrupts }),
                    AguiRunOutcome::Cancelled => self.asked.knows_cancelled.then_some(Outcome::Cancelled),
                };
                let metadata =
                    turn.map(|turn| wrap_own_metadata(json!({ "turn": turn }))).unwrap_or_default();
                Event::RunFinished { thread_id, run_id, outcome, metadata }
            }
            Err(failed) => failed.into_run_error_event(&self.shared.redactor, turn),
        };
        self.send_event(last).await;
        self.disconnect.mark_finished();
    }

    /// Sends an event, and records the message that the client makes from it.
    pub(super) async fn send_event(&mut self, event: Event) {
        if let Some(id) = telling::created_message_id(&event) {
            self.mirror.add_message(id);
        }
        let data = serde_json::to_string(&event).expect("an event of strings and JSON is JSON");
        self.teller.send_value(ServerSentEvent::from_data(data)).await;
    }

    async fn execute_run(&mut self) -> Result<AguiRunOutcome, AguiRunFailure> {
        let view = self.shared.narration_of(&self.caller.tenant, &self.asked.thread);
        self.narrated_after = view.entries_after(None).pop().map(|it| it.id);
        let truth = self.read_transcript().await?;
        self.begun_after.clone_from(&truth.last_event);
        // Only readers may learn whether the session has a message; a message that is sent again attaches to its turn
        // (D3).
        let is_reader = self.caller.can_read_messages();
        if is_reader && let Some(ended) = self.retry_failed_turn(&truth).await? {
            return Ok(ended);
        }
        let user = self.asked.user.take().filter(|it| !is_reader || !truth.contains_message(&it.id));
        let answers = std::mem::take(&mut self.asked.answers);
        if !answers.is_empty() {
            let ended = match self.answer_interrupt(answers).await {
                Ok(InterruptResolution::Resumed(turn, since)) => {
                    if since != TurnStartTiming::Before {
                        self.disconnect.guard_turn(&turn);
                    }
                    self.follow_turns(turn, since, None).await
                }
                Ok(InterruptResolution::GivenUp) if user.is_none() => {
                    self.sync_transcript(&[]).await.map(|()| AguiRunOutcome::Cancelled)
                }
                Ok(InterruptResolution::GivenUp | InterruptResolution::Over) => Ok(AguiRunOutcome::Success),
                Err(failed) => Err(failed),
            };
            match (&ended, &user) {
                (Ok(AguiRunOutcome::Success), _) => {}
                (_, None) => return ended,
                (_, Some(user)) => {
                    // The message was not sent. The client keeps it: at its position if its turn has failed before.
                    let unsent = (!self.failed.contains_message(&user.id)).then(|| user.to_client_message());
                    self.sync_transcript(unsent.as_slice()).await?;
                    return ended;
                }
            }
        }
        match user {
            Some(user) => self.send_and_follow(user).await,
            None => self.sync_and_join_turn().await,
        }
    }

    /// Answers the wait of an earlier run. A session has one wait at a time.
    async fn answer_interrupt(
        &self,
        answers: Vec<InterruptAnswer>,
    ) -> Result<InterruptResolution, AguiRunFailure> {
        let session = self.asked.thread.clone();
        let [InterruptAnswer { named: Some(named), payload }] = <[InterruptAnswer; 1]>::try_from(answers)
            .map_err(|_| AguiRunFailure::unknown_interrupt("a session waits for one answer at a time"))?
        else {
            return Err(AguiRunFailure::unknown_interrupt("there is no interrupt of this id"));
        };
        let pending = self.chat.session(&session).pending().await?;
        let wait = pending.into_iter().find(|it| named.is_same_wait(it));
        let Some(payload) = payload else {
            let Some(wait) = wait else { return Ok(InterruptResolution::Over) };
            self.chat.cancel(&TurnId::new(wait.invocation.clone(), 0)).await?.outcome().await;
            return Ok(InterruptResolution::GivenUp);
        };
        let payload = payload_to_object(payload).ok_or_else(AguiRunFailure::payload_not_object)?;
        let address = SignalAddress::Session { session, signal: named.signal.clone() };
        let answer = named.build_answer(payload).from(self.caller.name.clone());
        let turn = self.chat.answer(address, answer).await?;
        // If the wait was pending just now, its turn begins during this run, whichever request has answered it.
        Ok(InterruptResolution::Resumed(
            turn,
            if wait.is_some() { TurnStartTiming::Run } else { TurnStartTiming::Before },
        ))
    }

    /// Sends the user's message, unless it was sent before, and follows its turn.
    async fn send_and_follow(&mut self, user: AguiUserMessage) -> Result<AguiRunOutcome, AguiRunFailure> {
        let message = pictures::store_pictures(&self.chat, &self.asked.thread, user.message).await?;
        let user = AguiUserMessage { message, ..user };
        let turn = self.submit_user_message(&user).await?;
        if turn.is_parked() {
            self.sync_transcript(&[user.to_client_message()]).await?;
            return self.end_with_pending_wait().await;
        }
        if turn.is_new() {
            self.disconnect.guard_turn(&turn);
        }
        let since = if turn.is_new() { TurnStartTiming::Itself } else { TurnStartTiming::Before };
        self.follow_turns(turn, since, Some(user.to_client_message())).await
    }

    /// Sends a message under a key made from its id, so that it is answered once (D3). A message whose turn has
    /// failed, and after which other turns came, is sent again if another run posts it, unless that could
    /// repeat effects or an answer (D29).
    async fn submit_user_message(&self, user: &AguiUserMessage) -> Result<Turn, AguiRunFailure> {
        for attempt in 1..=ATTEMPTS {
            let options = SendOptions::new()
                .key(build_message_key(&user.id, attempt))
                .note(CLIENT_ID, user.id.as_str())
                .note(RUN_ID, self.asked.run.as_str())
                .listen();
            let options = match &self.asked.agent {
                Some(agent) => options.agent(agent),
                None => options,
            };
            let turn = self.chat.session(&self.asked.thread).submit(user.message.clone(), options).await?;
            let failed = turn
                .outcome()
                .now_or_never()
                .is_some_and(|now_or_never| is_resendable_failure(&now_or_never));
            if turn.is_new()
                || !failed
                || self.is_of_this_run(&turn).await?
                || self.can_repeat_effects(&turn).await?
            {
                return Ok(turn);
            }
        }
        Err(AguiRunFailure::too_many_attempts(ATTEMPTS))
    }

    async fn is_of_this_run(&self, turn: &Turn) -> Result<bool, AguiRunFailure> {
        let message = turn.message().await?;
        let side = message.and_then(|(_, side)| side);
        Ok(side.is_some_and(|side| side.get(RUN_ID).is_some_and(|side| *side == *self.asked.run)))
    }

    /// Handles a request without a new message: sends the transcript, and joins the running turn, if there is one.
    async fn sync_and_join_turn(&mut self) -> Result<AguiRunOutcome, AguiRunFailure> {
        self.caller.require_scope(Scope::Read)?;
        let open = match self.chat.session(&self.asked.thread).open_turns().await {
            Err(singletree_harness::Error::SessionUnknown { .. }) => Vec::new(),
            open => open?,
        };
        if let Some(first) = open.first() {
            let turn = self.chat.turn(&first.id).await?;
            if !turn.is_parked() {
                return self.follow_turns(turn, TurnStartTiming::Before, None).await;
            }
        }
        self.sync_transcript(&[]).await?;
        let pending = self.chat.session(&self.asked.thread).pending().await?;
        if pending.is_empty() { Ok(AguiRunOutcome::Success) } else { self.end_with_pending_wait().await }
    }

    /// Ends the run with the wait of the session.
    pub(super) async fn end_with_pending_wait(&self) -> Result<AguiRunOutcome, AguiRunFailure> {
        if !self.caller.can_read_messages() {
            // The pending wait belongs to the action of another request.
            return Ok(AguiRunOutcome::Success);
        }
        let pending = self.chat.session(&self.asked.thread).pending().await?;
        match pending.first() {
            Some(wait) => Ok(AguiRunOutcome::Interrupt(vec![interrupt::interrupt_from_wait(wait)])),
            None => Ok(AguiRunOutcome::Success),
        }
    }

    /// Reads the transcript.
    pub(super) async fn read_transcript(&self) -> Result<AguiTranscript, AguiRunFailure> {
        Ok(AguiTranscript::read_session(&self.chat, &self.asked.thread).await?)
    }

    /// Makes the client's messages equal the transcript, followed by these messages.
    pub(super) async fn sync_transcript(&mut self, behind: &[Message]) -> Result<(), AguiRunFailure> {
        let truth = self.read_transcript().await?;
        let behind: Vec<_> =
            behind.iter().filter(|message| !truth.contains_message(message.id())).cloned().collect();
        self.sync_messages(append_messages(truth.merge_messages(&self.failed), &behind), truth.all).await;
        Ok(())
    }

    /// Makes the client's messages equal these; if they are not the whole transcript, only its last messages. A
    /// client without the right to read is sent none.
    pub(super) async fn sync_messages(&mut self, mut messages: Vec<Message>, all: bool) {
        if !self.caller.can_read_messages() {
            return;
        }
        let in_sync = match self.posted.take() {
            Some(posted) => {
                let has = mirror::has_equal_messages(&posted, &messages, all);
                if !has {
                    mirror::replace_by_client_copies(&posted, &mut messages);
                }
                has
            }
            None => self.mirror.has_messages(&messages, all),
        };
        if !in_sync {
            for event in self.mirror.build_snapshots(messages) {
                self.send_event(event).await;
            }
        }
    }
}

impl AguiUserMessage {
    /// Returns the message as the client has it, in the fields that are compared.
    pub(super) fn to_client_message(&self) -> Message {
        Message::User { id: self.id.clone(), content: view::convert_user_content(&self.message) }
    }
}

/// Checks whether a turn failed in a way that lets its message be sent again.
fn is_resendable_failure(outcome: &ChatTurnOutcome) -> bool {
    matches!(outcome, ChatTurnOutcome::Errored(it) if it.error_category != "chat_turn_cancelled")
}

/// Makes the idempotency key of a client's message: short, whatever its id.
fn build_message_key(message: &str, attempt: u32) -> String {
    format!("agui:{}:{attempt}", half_sha256_hex(message))
}

/// Returns the first half of a text's SHA-256, as hexadecimal digits.
pub(super) fn half_sha256_hex(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}
