//! Outcomes of resumed turns for callers who do not subscribe (harness-chat §8.2, D21).

use std::sync::Arc;

use singletree_durable::{SessionKey, StoredTurnKind, TurnRow, TurnRowQuery};
use singletree_llm::ChatMessage;
use singletree_session::ChatTurnOutcome;

use crate::agents::agent::ResumedReply;
use crate::api::chat::Chat;
use crate::api::chat_session::Session;
use crate::api::send_options::SendOptions;
use crate::runtime::outcome_reads::read_outcome;

use crate::api::turn::Turn;
use crate::{Error, Result};

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

impl Session {
    /// As [`Session::send_with`], and also returns the outcomes that a caller who only sends has missed: those of the
    /// turns that resumed since the message before (harness-chat §8.2). Each is returned once. There are none unless
    /// the agent asks for them: [`GraphAgent::resumed_reply`](crate::GraphAgent::resumed_reply).
    ///
    /// Missed outcomes are returned also when this message's turn fails.
    ///
    /// # Errors
    /// As [`Session::submit`]: nothing was accepted, and no outcome counts as told. When the missed outcomes cannot be
    /// read (`store_unavailable` and its kin), the turn that the error names has ended all the same. Its outcome and
    /// the missed ones can be asked for: [`Chat::turn`], [`Turn::resumed`].
    ///
    /// # Cancellation
    /// As [`Session::send`].
    pub async fn send_catching_up(
        &self,
        message: impl Into<ChatMessage>,
        options: SendOptions,
    ) -> Result<CatchUpOutcome> {
        let turn = self.submit(message.into(), options).await?;
        let outcome = turn.outcome().await;
        let resumed = turn.resumed().await.map_err(|error| {
            let id = Some(turn.id().clone());
            let served = self.chat.inner.default_served_agent();
            Error::Refused(Box::new(served.make_errored_turn(&self.chat.inner.limits, id, &error)))
        })?;
        Ok(CatchUpOutcome { resumed, outcome })
    }
}

impl Chat {
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
