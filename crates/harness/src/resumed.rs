//! Outcomes of resumed turns for callers who do not subscribe (harness-chat §8.2, D21).

use std::sync::Arc;

use singletree_durable::{SessionKey, StoredTurnKind, TurnRow, TurnRowQuery};
use singletree_llm::ChatMessage;

use crate::chat::Chat;
use crate::outcome::{ChatTurnOutcome, ErroredTurn};
use crate::record::read_outcome;
use crate::send_options::SendOptions;

use crate::turn::Turn;
use crate::{Error, Result};

/// How callers come by the outcome of a turn that resumed. A subscription is told in any case
/// ([`Chat::subscribe`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ResumedReply {
    /// By subscription alone.
    #[default]
    Subscription,
    /// The next send of the session returns it, too, before its own: [`Turn::resumed`], [`Chat::send_catching_up`].
    NextSend,
}

/// The result of a send that catches up.
#[derive(Debug, Clone, PartialEq)]
pub struct CatchUpOutcome {
    /// The outcomes of the turns that resumed since the message before this one, oldest first.
    pub resumed: Vec<Arc<ChatTurnOutcome>>,
    /// The outcome of this message's turn.
    pub outcome: Arc<ChatTurnOutcome>,
}

/// How many turns are read at once, backwards.
const PAGE: u64 = 16;

impl Turn {
    /// Returns how the turns ended that resumed since the message before this one and were accepted before it, oldest
    /// first, where the agent asks for that ([`ResumedReply::NextSend`]): each comes with exactly one message of the
    /// session, and asking again for the same message finds it again, also after a crash. Nothing for turns that answer
    /// no message.
    ///
    /// Those of them that have not ended are left out: none is once this turn's outcome is there.
    ///
    /// # Errors
    /// `store_unavailable` and its kin.
    pub async fn resumed(&self) -> Result<Vec<Arc<ChatTurnOutcome>>> {
        self.chat().read_resumed_before(self).await
    }
}

impl Chat {
    /// As [`Chat::send_with`], and also returns the outcomes that a caller who only sends has missed: those of the
    /// turns that resumed since the message before (harness-chat §8.2). Each is returned once. There are none unless
    /// the agent asks for them: [`Agent::resumed_reply`](crate::Agent::resumed_reply).
    ///
    /// Missed outcomes are returned also when this message's turn fails.
    ///
    /// # Errors
    /// As [`Chat::submit`]: nothing was accepted, and no outcome counts as told. When the missed outcomes cannot be
    /// read (`store_unavailable` and its kin), the turn that the error names has ended all the same. Its outcome and
    /// the missed ones can be asked for: [`Chat::turn`], [`Turn::resumed`].
    ///
    /// # Cancellation
    /// As [`Chat::send`].
    pub async fn send_catching_up(
        &self,
        session_id: &str,
        message: ChatMessage,
        options: SendOptions,
    ) -> Result<CatchUpOutcome, Box<ErroredTurn>> {
        let turn = self.submit(session_id, message, options).await?;
        let outcome = turn.outcome().await;
        let resumed = turn.resumed().await.map_err(|error| {
            let id = Some(turn.id().clone());
            Box::new(self.inner.default_served_agent().make_errored_turn(&self.inner.limits, id, &error))
        })?;
        Ok(CatchUpOutcome { resumed, outcome })
    }

    async fn read_resumed_before(&self, turn: &Turn) -> Result<Vec<Arc<ChatTurnOutcome>>> {
        let (key, id) = (turn.session_key(), turn.id());
        let of = TurnRowQuery::Invocation(id.invocation.clone());
        let rows = self.inner.await_store_read(self.inner.journal.read_turns(key, &of)).await?;
        let row = rows.into_iter().find(|row| row.ordinal == id.ordinal);
        let row = row.ok_or_else(|| Error::TurnUnknown { turn: id.to_string() })?;
        let served = self.inner.find_served_agent(&row.agent)?;
        if row.kind != StoredTurnKind::Message || served.agent.resumed_reply == ResumedReply::Subscription {
            return Ok(Vec::new());
        }
        let mut resumed = Vec::new();
        for row in self.read_turns_since_message(key, row.no).await? {
            let reading = read_outcome(self.inner.journal.as_ref(), key, &row);
            match self.inner.await_read_sequence(reading).await? {
                // A turn that has suspended again has no outcome to tell yet; the turn that resumes it will.
                None | Some(ChatTurnOutcome::Suspended(_)) => {}
                Some(outcome) => resumed.push(Arc::new(outcome)),
            }
        }
        Ok(resumed)
    }

    /// Reads the turns between a message and the one before it, oldest first.
    async fn read_turns_since_message(&self, key: &SessionKey, no: u64) -> Result<Vec<TurnRow>> {
        let (mut between, mut to) = (Vec::new(), no);
        while to > 0 {
            let from = to.saturating_sub(PAGE);
            let query = TurnRowQuery::From { no: from, limit: to - from };
            let mut rows = self.inner.await_store_read(self.inner.journal.read_turns(key, &query)).await?;
            rows.retain(|row| row.no < to);
            // Turns may have been forgotten; before them there is nothing.
            let last = rows.is_empty() || rows.iter().any(|row| row.kind == StoredTurnKind::Message);
            between.extend(rows.into_iter().rev().take_while(|row| row.kind != StoredTurnKind::Message));
            if last {
                break;
            }
            to = from;
        }
        between.reverse();
        Ok(between)
    }
}
