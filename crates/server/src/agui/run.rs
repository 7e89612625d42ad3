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
use super::ours;
use super::said::{AguiRunRequest, AguiUserMessage, InterruptAnswer, object};
use super::telling;
use super::truth::AguiTranscript;
use super::turns::{TurnStartTiming, append_messages};
use super::unanswered::FailedMessages;
use super::view::{self, CLIENT_ID};
use crate::caller::{Caller, Scope};
use crate::disconnect::DisconnectGuard;
use crate::pictures;
use crate::shared::ServerState;
use crate::sse::ServerSentEvent;
use crate::told::{StreamSender, told};

/// The key, in the side record of a message, of the id of the run that sent the message (D17).
pub(super) const RUN_ID: &str = "run_id";

/// The number of times that a message can be sent under its id while its turns fail.
const ATTEMPTS: u32 = 32;

/// Returns the frames of a run. A client that goes away cancels its turn only if it asked for that (D31); otherwise the
/// turn goes on, and the same run finds it again.
pub(super) fn frames(
    shared: Arc<ServerState>,
    caller: Caller,
    asked: AguiRunRequest,
    on_disconnect: Option<OnDisconnect>,
) -> impl Stream<Item = ServerSentEvent> + Send + 'static {
    told(move |teller| async move {
        let chat = shared.chat(&caller);
        let disconnect = DisconnectGuard::new(shared.clone(), chat.clone(), on_disconnect);
        let posted = Some(asked.held.clone());
        let mirror = ClientMessageList::of(&asked.held);
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
        .go()
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
    async fn go(mut self) {
        let (thread_id, run_id) = (self.asked.thread.clone(), self.asked.run.clone());
        self.tell(Event::RunStarted {
            thread_id: thread_id.clone(),
            run_id: run_id.clone(),
            protocol_version: PROTOCOL_VERSION.to_owned(),
            parent_run_id: self.asked.parent.clone(),
        })
        .await;
        let ended = self.work().await;
        let turn = self.turn.as_ref().map(ToString::to_string);
        let last = match ended {
            Ok(end) => {
                let outcome = match end {
                    AguiRunOutcome::Success => Some(Outcome::Success),
                    AguiRunOutcome::Interrupt(interrupts) => Some(Outcome::Interrupt { interrupts }),
                    AguiRunOutcome::Cancelled => self.asked.knows_cancelled.then_some(Outcome::Cancelled),
                };
                let metadata = turn.map(|turn| ours(json!({ "turn": turn }))).unwrap_or_default();
                Event::RunFinished { thread_id, run_id, outcome, metadata }
            }
            Err(failed) => failed.event(&self.shared.redactor, turn),
        };
        self.tell(last).await;
        self.disconnect.finish();
    }

    /// Sends an event, and records the message that the client makes from it.
    pub(super) async fn tell(&mut self, event: Event) {
        if let Some(id) = telling::makes(&event) {
            self.mirror.add(id);
        }
        let data = serde_json::to_string(&event).expect("an event of strings and JSON is JSON");
        self.teller.tell(ServerSentEvent::data(data)).await;
    }

    async fn work(&mut self) -> Result<AguiRunOutcome, AguiRunFailure> {
        let view = self.shared.narration_of(&self.caller.tenant, &self.asked.thread);
        self.narrated_after = view.held(None).pop().map(|it| it.id);
        let truth = self.truth().await?;
        self.begun_after.clone_from(&truth.last_event);
        // Only readers may learn whether the session has a message; a message that is sent again attaches to its turn
        // (D3).
        let is_reader = self.caller.may_read();
        if is_reader && let Some(ended) = self.retry(&truth).await? {
            return Ok(ended);
        }
        let user = self.asked.user.take().filter(|it| !is_reader || !truth.knows(&it.id));
        let answers = std::mem::take(&mut self.asked.answers);
        if !answers.is_empty() {
            let ended = match self.answer(answers).await {
                Ok(InterruptResolution::Resumed(turn, since)) => {
                    if since != TurnStartTiming::Before {
                        self.disconnect.begin(&turn);
                    }
                    self.follow(turn, since, None).await
                }
                Ok(InterruptResolution::GivenUp) if user.is_none() => {
                    self.restate(&[]).await.map(|()| AguiRunOutcome::Cancelled)
                }
                Ok(InterruptResolution::GivenUp | InterruptResolution::Over) => Ok(AguiRunOutcome::Success),
                Err(failed) => Err(failed),
            };
            match (&ended, &user) {
                (Ok(AguiRunOutcome::Success), _) => {}
                (_, None) => return ended,
                (_, Some(user)) => {
                    // The message was not sent. The client keeps it: at its position if its turn has failed before.
                    let unsent = (!self.failed.contains(&user.id)).then(|| user.as_held());
                    self.restate(unsent.as_slice()).await?;
                    return ended;
                }
            }
        }
        match user {
            Some(user) => self.say(user).await,
            None => self.look().await,
        }
    }

    /// Answers the wait of an earlier run. A session has one wait at a time.
    async fn answer(&self, answers: Vec<InterruptAnswer>) -> Result<InterruptResolution, AguiRunFailure> {
        let session = self.asked.thread.clone();
        let [InterruptAnswer { named: Some(named), payload }] = <[InterruptAnswer; 1]>::try_from(answers)
            .map_err(|_| AguiRunFailure::unknown("a session waits for one answer at a time"))?
        else {
            return Err(AguiRunFailure::unknown("there is no interrupt of this id"));
        };
        let pending = self.chat.pending(Some(&session), 1).await?;
        let wait = pending.into_iter().find(|it| named.is(it));
        let Some(payload) = payload else {
            let Some(wait) = wait else { return Ok(InterruptResolution::Over) };
            self.chat.cancel(&TurnId::new(wait.invocation, 0)).await?.outcome().await;
            return Ok(InterruptResolution::GivenUp);
        };
        let payload = object(payload).ok_or_else(AguiRunFailure::no_object)?;
        let address = SignalAddress::Session { session, signal: named.signal.clone() };
        let answer = named.answer(payload).from(self.caller.name.clone());
        let turn = self.chat.answer(address, answer).await?;
        // If the wait was pending just now, its turn begins during this run, whichever request has answered it.
        Ok(InterruptResolution::Resumed(
            turn,
            if wait.is_some() { TurnStartTiming::Run } else { TurnStartTiming::Before },
        ))
    }

    /// Sends the user's message, unless it was sent before, and follows its turn.
    async fn say(&mut self, user: AguiUserMessage) -> Result<AguiRunOutcome, AguiRunFailure> {
        let message = pictures::kept(&self.chat, &self.asked.thread, user.message).await?;
        let user = AguiUserMessage { message, ..user };
        let turn = self.sent(&user).await?;
        if turn.is_parked() {
            self.restate(&[user.as_held()]).await?;
            return self.interrupted().await;
        }
        if turn.is_new() {
            self.disconnect.begin(&turn);
        }
        let since = if turn.is_new() { TurnStartTiming::Itself } else { TurnStartTiming::Before };
        self.follow(turn, since, Some(user.as_held())).await
    }

    /// Sends a message under a key made from its id, so that it is answered once (D3). A message whose turn has
    /// failed, and after which other turns came, is sent again if another run posts it, unless that could
    /// repeat effects or an answer (D29).
    async fn sent(&self, user: &AguiUserMessage) -> Result<Turn, AguiRunFailure> {
        for attempt in 1..=ATTEMPTS {
            let options = SendOptions::new()
                .key(key(&user.id, attempt))
                .note(CLIENT_ID, user.id.as_str())
                .note(RUN_ID, self.asked.run.as_str())
                .listen();
            let options = match &self.asked.agent {
                Some(agent) => options.agent(agent),
                None => options,
            };
            let turn = self.chat.submit(&self.asked.thread, user.message.clone(), options).await?;
            let failed = turn.outcome().now_or_never().is_some_and(|now_or_never| failed(&now_or_never));
            if turn.is_new() || !failed || self.is_of_this_run(&turn).await? || self.may_repeat(&turn).await?
            {
                return Ok(turn);
            }
        }
        Err(AguiRunFailure::tried_too_often(ATTEMPTS))
    }

    async fn is_of_this_run(&self, turn: &Turn) -> Result<bool, AguiRunFailure> {
        let message = turn.message().await?;
        let side = message.and_then(|(_, side)| side);
        Ok(side.is_some_and(|side| side.get(RUN_ID).is_some_and(|side| *side == *self.asked.run)))
    }

    /// Handles a request without a new message: sends the transcript, and joins the running turn, if there is one.
    async fn look(&mut self) -> Result<AguiRunOutcome, AguiRunFailure> {
        self.caller.may(Scope::Read)?;
        let open = match self.chat.open_turns(&self.asked.thread).await {
            Err(singletree_harness::Error::SessionUnknown { .. }) => Vec::new(),
            open => open?,
        };
        if let Some(first) = open.first() {
            let turn = self.chat.turn(&first.id).await?;
            if !turn.is_parked() {
                return self.follow(turn, TurnStartTiming::Before, None).await;
            }
        }
        self.restate(&[]).await?;
        let pending = self.chat.pending(Some(&self.asked.thread), 1).await?;
        if pending.is_empty() { Ok(AguiRunOutcome::Success) } else { self.interrupted().await }
    }

    /// Ends the run with the wait of the session.
    pub(super) async fn interrupted(&self) -> Result<AguiRunOutcome, AguiRunFailure> {
        if !self.caller.may_read() {
            // The pending wait belongs to the action of another request.
            return Ok(AguiRunOutcome::Success);
        }
        let pending = self.chat.pending(Some(&self.asked.thread), 1).await?;
        match pending.first() {
            Some(wait) => Ok(AguiRunOutcome::Interrupt(vec![interrupt::of_wait(wait)])),
            None => Ok(AguiRunOutcome::Success),
        }
    }

    /// Reads the transcript.
    pub(super) async fn truth(&self) -> Result<AguiTranscript, AguiRunFailure> {
        Ok(AguiTranscript::read(&self.chat, &self.asked.thread).await?)
    }

    /// Makes the client's messages equal the transcript, followed by these messages.
    pub(super) async fn restate(&mut self, behind: &[Message]) -> Result<(), AguiRunFailure> {
        let truth = self.truth().await?;
        let behind: Vec<_> = behind.iter().filter(|message| !truth.knows(message.id())).cloned().collect();
        self.sync(append_messages(truth.messages(&self.failed), &behind), truth.all).await;
        Ok(())
    }

    /// Makes the client's messages equal these; if they are not the whole transcript, only its last messages. A
    /// client without the right to read is sent none.
    pub(super) async fn sync(&mut self, mut messages: Vec<Message>, all: bool) {
        if !self.caller.may_read() {
            return;
        }
        let in_sync = match self.posted.take() {
            Some(posted) => {
                let has = mirror::has(&posted, &messages, all);
                if !has {
                    mirror::with_own_copies(&posted, &mut messages);
                }
                has
            }
            None => self.mirror.has(&messages, all),
        };
        if !in_sync {
            for event in self.mirror.restate(messages) {
                self.tell(event).await;
            }
        }
    }
}

impl AguiUserMessage {
    /// Returns the message as the client has it, in the fields that are compared.
    pub(super) fn as_held(&self) -> Message {
        Message::User { id: self.id.clone(), content: view::content(&self.message) }
    }
}

/// Checks whether a turn failed in a way that lets its message be sent again.
fn failed(outcome: &ChatTurnOutcome) -> bool {
    matches!(outcome, ChatTurnOutcome::Errored(it) if it.error_category != "chat_turn_cancelled")
}

/// Makes the idempotency key of a client's message: short, whatever its id.
fn key(message: &str, attempt: u32) -> String {
    format!("agui:{}:{attempt}", digest_hex(message))
}

/// Returns the first half of a text's SHA-256, as hexadecimal digits.
pub(super) fn digest_hex(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}
