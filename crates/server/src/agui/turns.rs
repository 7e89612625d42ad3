//! Following a turn: its past messages, its pieces as they come, its end.

use std::pin::Pin;
use std::sync::Arc;

use futures_core::Stream;
use futures_util::{FutureExt, StreamExt};
use singletree_harness::{ChatEvent, ChatTurnOutcome, ErroredTurn, Result as ChatResult, Turn};
use singletree_protocol::agui::{Event, Message};

use super::failed::AguiRunFailure;
use super::interrupt;
use super::run::{AguiRunHandler, AguiRunOutcome};
use super::telling::AguiTurnProjection;
use super::truth::AguiTranscript;
use super::view;
use crate::fold::{ChatProjection, ProjectionPiece};
use crate::native::load_visibility as native_view;

/// The name of the events that carry narration.
const NARRATION: &str = "dev.singletree.narration";

type Events = Pin<Box<dyn Stream<Item = ChatResult<ChatEvent>> + Send>>;

/// When a turn began, relative to the run that follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TurnStartTiming {
    /// This run began the turn: its `Turn` has heard all events.
    Itself,
    /// The turn began after the run did.
    Run,
    /// The turn began before the run, and may be over.
    Before,
}

/// The step after a turn.
enum TurnFollowUp {
    /// The run ends.
    End(AguiRunOutcome),
    /// The turn that resumes: its signal had arrived before the wait began.
    Next(Turn),
}

impl AguiRunHandler {
    /// Follows a turn, and the turns that continue it immediately, to the end. `own` is the message that the turn
    /// answers, if the client has it.
    pub(super) async fn follow_turns(
        &mut self,
        turn: Turn,
        since: TurnStartTiming,
        own: Option<Message>,
    ) -> Result<AguiRunOutcome, AguiRunFailure> {
        let (mut turn, mut since, mut own) = (turn, since, own);
        loop {
            match self.follow_one_turn(&turn, since, own.take()).await? {
                TurnFollowUp::End(end) => return Ok(end),
                TurnFollowUp::Next(next) if since == TurnStartTiming::Before => turn = next,
                TurnFollowUp::Next(next) => {
                    self.disconnect.guard_turn(&next);
                    (turn, since) = (next, TurnStartTiming::Run);
                }
            }
        }
    }

    async fn follow_one_turn(
        &mut self,
        turn: &Turn,
        since: TurnStartTiming,
        own: Option<Message>,
    ) -> Result<TurnFollowUp, AguiRunFailure> {
        self.turn = Some(turn.id().clone());
        let own = if own.is_some() { own } else { read_turn_message(turn).await? };
        if let Some(outcome) = turn.outcome().now_or_never().filter(|_| since == TurnStartTiming::Before) {
            return self.handle_turn_end(&outcome, own, true).await;
        }
        let truth = self.read_transcript().await?;
        if since == TurnStartTiming::Before && !self.is_open(turn).await? {
            // It may have ended before the transcript was read: then no later event tells of it.
            let outcome = turn.outcome().await;
            return self.handle_turn_end(&outcome, own, true).await;
        }
        let (before, len) = truth.merge_messages_before(turn.id(), &self.failed);
        self.sync_messages(append_messages(before, own.as_slice()), truth.all).await;
        let mut events = self.read_turn_events(turn, since, &truth).await?;
        let (mut fold, mut telling) = (ChatProjection::default(), AguiTurnProjection::default());
        let shows_thinking = native_view(&self.shared, &self.chat, &self.asked.thread).await?.thinking;
        let mut narrated = self.follow_narration();
        loop {
            let event = tokio::select! {
                biased;
                event = events.next() => event,
                Some(said) = narrated.next() => {
                    self.send_event(said).await;
                    continue;
                }
            };
            let Some(event) = event else { break };
            let event = event?;
            if shows_thinking {
                for event in telling.project_thinking(&event) {
                    self.send_event(event).await;
                }
            }
            for piece in fold.apply_event(&event) {
                if let ProjectionPiece::TurnEnd { outcome, .. } = piece {
                    while let Some(Some(said)) = narrated.next().now_or_never() {
                        self.send_event(said).await;
                    }
                    for event in telling.end_open_content() {
                        self.send_event(event).await;
                    }
                    let now = len + u64::from(own.is_some()) + telling.recorded;
                    let differs = telling.stale || self.read_message_count().await? != now;
                    return self.handle_turn_end(&outcome, own, differs).await;
                }
                if let (ProjectionPiece::Begin { .. }, true) = (&piece, telling.stale) {
                    // Removes the void text before the message begins again.
                    let before = truth.merge_messages_before(turn.id(), &self.failed).0;
                    let mut messages = append_messages(before, own.as_slice());
                    messages.extend(telling.told.iter().cloned());
                    self.sync_messages(messages, truth.all).await;
                    telling.stale = false;
                }
                for event in telling.project_piece(piece) {
                    self.send_event(event).await;
                }
            }
        }
        // A stream of events ends with the outcome, or with an error.
        let outcome = turn.outcome().await;
        self.handle_turn_end(&outcome, own, true).await
    }

    /// Checks in the store whether a turn has not ended.
    async fn is_open(&self, turn: &Turn) -> Result<bool, AguiRunFailure> {
        match self.chat.session(&self.asked.thread).open_turns().await {
            Err(singletree_harness::Error::SessionUnknown { .. }) => Ok(false),
            open => Ok(open?.iter().any(|open| open.id == *turn.id())),
        }
    }

    /// Returns the events of a turn, from its beginning.
    async fn read_turn_events(
        &self,
        turn: &Turn,
        since: TurnStartTiming,
        truth: &AguiTranscript,
    ) -> Result<Events, AguiRunFailure> {
        // Does not read the log from its beginning: it may be long.
        let after = match since {
            TurnStartTiming::Itself => return Ok(Box::pin(turn.events())),
            TurnStartTiming::Run => &self.begun_after,
            TurnStartTiming::Before => &truth.last_event,
        };
        let (session, id) = (&self.asked.thread, turn.id().clone());
        let events = self.chat.session(session).events().after(after.clone()).stream().await?;
        Ok(Box::pin(events.filter(move |event| {
            let ours = event.as_ref().map_or(true, |event| event.turn == id);
            std::future::ready(ours)
        })))
    }

    /// Returns the narration since the run began: text for people, and no part of any message (INV-9). It covers the
    /// whole session, so only readers get it.
    fn follow_narration(&self) -> Pin<Box<dyn Stream<Item = Event> + Send>> {
        if !self.caller.can_read_messages() {
            return Box::pin(futures_util::stream::pending());
        }
        let view = self.shared.narration_of(&self.caller.tenant, &self.asked.thread);
        Box::pin(view.follow_entries(self.narrated_after.as_deref()).map(|told| {
            let value = serde_json::to_value(told.narration.as_ref());
            Event::Custom { name: NARRATION.to_owned(), value: value.expect("narration is texts") }
        }))
    }

    async fn read_message_count(&self) -> Result<u64, AguiRunFailure> {
        match self.chat.session(&self.asked.thread).info().await {
            Err(singletree_harness::Error::SessionUnknown { .. }) => Ok(0),
            info => Ok(info?.messages),
        }
    }

    /// Handles the end of a turn. `differs` says that the client's messages may differ from the transcript.
    async fn handle_turn_end(
        &mut self,
        outcome: &Arc<ChatTurnOutcome>,
        own: Option<Message>,
        differs: bool,
    ) -> Result<TurnFollowUp, AguiRunFailure> {
        match outcome.as_ref() {
            ChatTurnOutcome::Completed(_) => {
                if differs {
                    self.sync_transcript(&[]).await?;
                }
                Ok(TurnFollowUp::End(AguiRunOutcome::Success))
            }
            ChatTurnOutcome::Suspended(suspended) => {
                if differs {
                    self.sync_transcript(&[]).await?;
                }
                match &suspended.resumed_by {
                    Some(next) => Ok(TurnFollowUp::Next(self.chat.turn(next).await?)),
                    None => Ok(TurnFollowUp::End(AguiRunOutcome::Interrupt(vec![
                        interrupt::interrupt_from_turn(suspended),
                    ]))),
                }
            }
            ChatTurnOutcome::Errored(errored) => {
                self.handle_turn_failure(errored, own).await.map(TurnFollowUp::End)
            }
        }
    }

    async fn handle_turn_failure(
        &mut self,
        errored: &ErroredTurn,
        own: Option<Message>,
    ) -> Result<AguiRunOutcome, AguiRunFailure> {
        if errored.error_category == "chat_turn_cancelled" {
            self.sync_transcript(&[]).await?;
            return Ok(AguiRunOutcome::Cancelled);
        }
        // The failed message of a turn without effects is no part of the transcript (D29); the client keeps it, to be
        // able to send it again.
        self.sync_transcript(own.as_slice()).await?;
        Err(errored.into())
    }
}

/// Appends messages to others. A message that is already among them, because its turn failed before, moves to the end.
pub(super) fn append_messages(mut messages: Vec<Message>, behind: &[Message]) -> Vec<Message> {
    messages.retain(|message| behind.iter().all(|behind| behind.id() != message.id()));
    messages.extend(behind.iter().cloned());
    messages
}

/// Returns the message that a turn answers, as clients have it; `None` for a turn that resumes.
async fn read_turn_message(turn: &Turn) -> Result<Option<Message>, AguiRunFailure> {
    let Some((message, side)) = turn.message().await? else { return Ok(None) };
    Ok(view::convert_message(view::first_message_id(side.as_ref(), turn.id()), &message, None))
}
