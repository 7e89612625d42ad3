//! Messages of failed turns, which a client keeps and posts with its others (D29).
//!
//! They are not part of the transcript. A client that holds one keeps it at its position. A client that does not hold
//! it does not get it, because AG-UI cannot mark it as failed.

use singletree_durable::StoredTurnStatus;
use singletree_harness::{Chat, ChatTurnOutcome, Error, SendOptions, Turn, TurnId, TurnInfo};
use singletree_protocol::agui::Message;

use super::failed::AguiRunFailure;
use super::mirror::ClientMessageList;
use super::run::{AguiRunHandler, AguiRunOutcome, RUN_ID, half_sha256_hex};
use super::truth::AguiTranscript;
use super::turns::TurnStartTiming;
use super::view;
use crate::retry_chain::RetryChain;

/// The maximum number of failed turns whose messages are read, the newest ones.
const FAILED: usize = 100;

/// A message of a failed turn, with the position in the history before which it stands.
#[derive(Debug)]
struct FailedMessage {
    place: u64,
    message: Message,
}

/// The messages of failed turns that a client holds, in the order of acceptance.
#[derive(Debug, Default)]
pub(super) struct FailedMessages(Vec<FailedMessage>);

impl FailedMessages {
    /// Reads the messages, if the client holds any that the transcript does not have.
    pub(super) async fn read_held_failures(
        chat: &Chat,
        session: &str,
        (truth, held): (&AguiTranscript, &ClientMessageList),
    ) -> Result<Self, Error> {
        if held.message_ids().all(|id| truth.contains_message(id)) {
            return Ok(Self::default());
        }
        let failed = match chat.session(session).failed_turns(truth.first_position()..u64::MAX, FAILED).await
        {
            Err(Error::SessionUnknown { .. }) => Vec::new(),
            failed => failed?,
        };
        let mut messages: Vec<FailedMessage> = Vec::new();
        for failed in failed.iter().filter(|failed| failed.retried_by.is_none()) {
            let Some((message, side)) = &failed.message else { continue };
            let id = view::first_message_id(side.as_ref(), &failed.turn.id);
            if held.message_ids().all(|held| *held != id) {
                continue;
            }
            // A message that was sent again under its id has the position of its last failure.
            messages.retain(|earlier| earlier.message.id() != id);
            if let Some(message) = view::convert_message(id, message, None) {
                messages.push(FailedMessage { place: failed.place, message });
            }
        }
        Ok(Self(messages))
    }

    /// Checks whether a message is among them.
    pub(super) fn contains_message(&self, id: &str) -> bool {
        self.0.iter().any(|failed| failed.message.id() == id)
    }

    /// Adds the messages to those of a transcript, which come with their positions. Messages that the transcript
    /// `knows` were answered later, and are omitted.
    pub(super) fn merge_into_transcript(
        &self,
        entries: impl Iterator<Item = (u64, Message)>,
        knows: impl Fn(&str) -> bool,
    ) -> Vec<Message> {
        let mut failed = self.0.iter().filter(|failed| !knows(failed.message.id())).peekable();
        let mut messages = Vec::new();
        for (seq, message) in entries {
            while let Some(failed) = failed.next_if(|failed| failed.place <= seq) {
                messages.push(failed.message.clone());
            }
            messages.push(message);
        }
        messages.extend(failed.map(|failed| failed.message.clone()));
        messages
    }
}

impl AguiRunHandler {
    /// Retries the newest turn of the session, if it has failed and answers the last message that the client posted.
    /// `None` if it does not, or if the run answers an interrupt.
    pub(super) async fn retry_failed_turn(
        &mut self,
        truth: &AguiTranscript,
    ) -> Result<Option<AguiRunOutcome>, AguiRunFailure> {
        let held = (truth, &self.mirror);
        self.failed = FailedMessages::read_held_failures(&self.chat, &self.asked.thread, held).await?;
        let Some(user) = self.asked.user.as_ref().filter(|_| self.asked.answers.is_empty()) else {
            return Ok(None);
        };
        let Some((turn, since)) = self.retry_or_follow(&user.id).await? else { return Ok(None) };
        if since == TurnStartTiming::Itself {
            self.disconnect.guard_turn(&turn);
        }
        self.follow_turns(turn, since, None).await.map(Some)
    }

    /// Returns the turn that answers a message whose newest turn has failed: a retry of that turn (D29), which this
    /// request or an earlier one of the same run has begun. A repeated request of the run that failed gets the failed
    /// turn, unless the failure is safe to retry: then it is retried once. `None` if the newest turn of the session
    /// does not belong to this message, or did not fail.
    async fn retry_or_follow(
        &self,
        message: &str,
    ) -> Result<Option<(Turn, TurnStartTiming)>, AguiRunFailure> {
        let mut read = None;
        loop {
            let newest = match self.chat.session(&self.asked.thread).newest_turn().await {
                Err(Error::SessionUnknown { .. }) => None,
                newest => newest?,
            };
            let Some(newest) = newest else { return Ok(None) };
            match self.retry_or_follow_newest(message, &newest).await? {
                // Another request was faster, and its turn is the newest one now.
                RetryAttempt::Superseded if read.as_ref() != Some(&newest.id) => read = Some(newest.id),
                // The newest turn is a retry of which this run knows no key.
                RetryAttempt::Superseded => {
                    return Ok(Some((self.chat.turn(&newest.id).await?, TurnStartTiming::Before)));
                }
                RetryAttempt::Decided(found) => return Ok(found),
            }
        }
    }

    async fn retry_or_follow_newest(
        &self,
        message: &str,
        newest: &TurnInfo,
    ) -> Result<RetryAttempt, AguiRunFailure> {
        let none = Ok(RetryAttempt::Decided(None));
        let is_open = newest.status == StoredTurnStatus::Accepted;
        if !is_open && newest.status != StoredTurnStatus::Errored {
            return none;
        }
        let Some(chain) = RetryChain::load_for_turn(&self.chat, newest).await? else { return none };
        let (_, side) = &chain.message;
        let is_first_try = chain.turns.len() == 1;
        if view::first_message_id(side.as_ref(), &chain.first) != message || (is_open && is_first_try) {
            return none;
        }
        if !is_open && self.read_turn_failure(&newest.id).await?.is_none_or(|failure| failure.is_cancelled) {
            return none;
        }
        let is_of_this_run =
            side.as_ref().and_then(|side| side.get(RUN_ID)).is_some_and(|run| *run == *self.asked.run);
        if is_of_this_run
            && let Some(first) = chain.turns.first()
            && self.read_turn_failure(first).await?.is_some_and(|failure| !failure.is_retry_safe)
        {
            let turn = self.chat.turn(first).await?;
            return Ok(RetryAttempt::Decided(Some((turn, TurnStartTiming::Before))));
        }
        // The oldest turn first: with the key of this run, the chat returns the retry that an earlier request has begun.
        for failed in &chain.turns {
            let key = format!("agui:retry:{}", half_sha256_hex(&format!("{failed} {}", self.asked.run)));
            match self.chat.retry(failed, SendOptions::new().key(key).listen()).await {
                Ok(turn) if turn.is_new() => {
                    return Ok(RetryAttempt::Decided(Some((turn, TurnStartTiming::Itself))));
                }
                Ok(turn) => return Ok(RetryAttempt::Decided(Some((turn, TurnStartTiming::Before)))),
                Err(refused) if refused.category() == "chat_retry_superseded" => {}
                Err(refused) => return Err(refused.into()),
            }
        }
        Ok(RetryAttempt::Superseded)
    }

    /// Checks whether to send the message of a failed turn again could repeat something: the turn or a retry of it had
    /// effects, a retry has not failed, or the record of one of them is not among the newest ones.
    pub(super) async fn can_repeat_effects(&self, turn: &Turn) -> Result<bool, AguiRunFailure> {
        let failed = self.chat.session(turn.session()).failed_turns(0..u64::MAX, FAILED).await?;
        let mut next = Some(turn.id().clone());
        // A retry comes after the turn that it retries.
        for failed in &failed {
            if next.as_ref() == Some(&failed.turn.id) {
                if failed.effects {
                    return Ok(true);
                }
                next.clone_from(&failed.retried_by);
            }
        }
        Ok(next.is_some())
    }

    /// Returns how a turn failed, if it did.
    async fn read_turn_failure(&self, turn: &TurnId) -> Result<Option<TurnFailure>, AguiRunFailure> {
        let turn = self.chat.turn(turn).await?;
        Ok(match turn.outcome().await.as_ref() {
            ChatTurnOutcome::Errored(errored) => Some(TurnFailure {
                is_cancelled: errored.error_category == "chat_turn_cancelled",
                is_retry_safe: errored.retry_safe,
            }),
            ChatTurnOutcome::Completed(_) | ChatTurnOutcome::Suspended(_) => None,
        })
    }
}

/// Whether a run could retry the failed turn of its message.
enum RetryAttempt {
    /// The turn that answers the message, if one does.
    Decided(Option<(Turn, TurnStartTiming)>),
    /// No turn of the message can be retried any more.
    Superseded,
}

/// How a turn failed.
#[derive(Debug, Clone, Copy)]
struct TurnFailure {
    is_cancelled: bool,
    is_retry_safe: bool,
}
