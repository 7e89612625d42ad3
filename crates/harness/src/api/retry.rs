//! Retries of failed turns: a new turn with the task of the failed one (D29).

use std::sync::Arc;

use serde_json::{Map, Value};
use singletree_durable::{
    BoxFuture, InvocationId, ItemRange, JsonDocument, ListItemRow, SessionKey, StoredTurnStatus, TurnRow,
    TurnRowQuery,
};
use singletree_engine::Item;
use singletree_llm::Role;
use singletree_session::{
    ACCEPTED_AS, HISTORY, OutcomeRecord, RetriedTurn, StoredOutcome, TAKEN_BY, TurnId, decode_message,
    find_list_field,
};

use crate::agents::history::Messages;
use crate::api::chat::Chat;
use crate::api::idempotency::KeyedTurn;
use crate::api::send_options::SendOptions;
use crate::api::submit::{Acceptance, AcceptanceError, AcceptedTurn};
use crate::api::turn::Turn;
use crate::error::store_corrupt_error;
use crate::runtime::chat_inner::ChatInner;
use crate::runtime::loaded_session::LoadedSession;
use crate::turn::prepare::TurnPreparation;
use crate::{Error, Result};

/// How many retries of retries a message is followed through.
const GENERATIONS: usize = 1024;

/// How often a retry is tried again to be accepted whose place was taken in the meantime.
const ATTEMPTS: u32 = 8;

impl Chat {
    /// Retries a turn that ended errored, and returns the new turn (D29). Without effects the same message is sent
    /// again, with its images and notes. With effects, and wherever the message is part of the history already and
    /// awaits an answer, no message is appended: the graph runs over the history, which has the effects.
    ///
    /// It is allowed once, while the turn is the newest one of its session; that is decided in the transaction that
    /// accepts the new turn. Of the options the idempotency key and [`SendOptions::listen`] count: with the key of an
    /// earlier call for the same turn the turn is returned that this call began. Message, agent and policy are those of
    /// the failed turn.
    ///
    /// # Errors
    /// `chat_turn_unknown`; `chat_retry_superseded` when the turn did not end errored, or is not the newest one any
    /// more; those of [`Session::submit`](crate::Session::submit), with the same meaning.
    ///
    /// # Cancellation
    /// A dropped call has accepted the retry or has not.
    pub async fn retry(&self, turn: &TurnId, options: SendOptions) -> Result<Turn> {
        self.try_retry_turn(turn, options).await.map_err(|error| self.refused_turn(&error))
    }

    fn try_retry_turn<'a>(&'a self, turn: &'a TurnId, options: SendOptions) -> BoxFuture<'a, Result<Turn>> {
        Box::pin(async move {
            let inner = &self.inner;
            if inner.is_closing() {
                return Err(Error::ShuttingDown);
            }
            let unknown = || Error::TurnUnknown { turn: turn.to_string() };
            let key = inner
                .await_store_read(
                    inner.journal.find_session_of_invocation(self.served_tenant()?, &turn.invocation),
                )
                .await?;
            let key = key.ok_or_else(unknown)?;
            self.check_not_reserved(key.session.as_str())?;
            let options = options.for_retry_of(turn);
            let loaded = inner.session_in_memory(&key)?;
            let max = inner.limits.subscriptions;
            if options.listen && !loaded.readers.has_reader_room(max) {
                return Err(Error::SubscriptionsFull { max });
            }
            let live = options.listen.then(|| loaded.feed.subscribe_to_events());
            let mut attempt = 1;
            loop {
                inner.translate_load_error(inner.ensure_session_ready(&loaded).await)?;
                let reusable = match self.find_keyed_retry(&loaded, &options).await? {
                    KeyedTurn::Found(known) => return Ok(*known),
                    KeyedTurn::Free(reusable) => reusable,
                };
                let failed = self.read_retryable_turn(&key, turn).await?;
                let row = self.read_message_row(&key, &failed).await?.ok_or_else(unknown)?;
                let said = decode_message(&Item::from_text(row.body.as_str()))?;
                let side = row.side.as_ref().map(JsonDocument::decode::<Map<String, Value>>).transpose();
                let side = side.map_err(|error| {
                    store_corrupt_error(format!("the side record of item {}", row.no), Some(error.into()))
                })?;
                let side = side.and_then(without_taker);
                let says_again = self.must_repeat_message(&loaded, &failed, &row).await?;
                let valid = self.validate_message(said.as_ref().clone(), &options)?.with_side_record(side);
                let served = inner.find_served_agent(&failed.agent)?;
                let retried = Some(RetriedTurn { turn: failed.no, says_again });
                let acceptance = Acceptance { served, valid, forking: None, retried, reusable };
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

    /// Reads a turn that may be retried.
    async fn read_retryable_turn(&self, key: &SessionKey, id: &TurnId) -> Result<TurnRow> {
        let superseded = |why| Error::RetrySuperseded { turn: id.to_string(), why };
        let failed = self.read_turn_row(key, id).await?;
        if failed.status != StoredTurnStatus::Errored {
            return Err(superseded("it did not end errored"));
        }
        let after = TurnRowQuery::From { no: failed.no + 1, limit: 1 };
        match self.inner.await_store_read(self.inner.journal.read_turns(key, &after)).await?.first() {
            None => Ok(failed),
            Some(later) if later.retries == Some(failed.no) => Err(superseded("it was retried already")),
            Some(_) => Err(superseded("a later turn was accepted in its session")),
        }
    }

    async fn read_turn_row(&self, key: &SessionKey, id: &TurnId) -> Result<TurnRow> {
        let query = TurnRowQuery::Invocation(id.invocation.clone());
        let rows = self.inner.await_store_read(self.inner.journal.read_turns(key, &query)).await?;
        let row = rows.into_iter().find(|row| row.ordinal == id.ordinal);
        row.ok_or_else(|| Error::TurnUnknown { turn: id.to_string() })
    }

    async fn read_message_row(&self, key: &SessionKey, row: &TurnRow) -> Result<Option<ListItemRow>> {
        let Some(no) = self.inner.find_message_item(key, row).await? else { return Ok(None) };
        let range = ItemRange::Numbers { from: no, to: no + 1 };
        Ok(self.inner.await_store_read(self.inner.journal.read_items(key, &range)).await?.into_iter().next())
    }

    /// Decides whether the retry says the message again.
    async fn must_repeat_message(
        &self,
        loaded: &Arc<LoadedSession>,
        failed: &TurnRow,
        said: &ListItemRow,
    ) -> Result<bool> {
        if let Some(OutcomeRecord::Errored { effects: true, .. }) =
            StoredOutcome::from_turn_row(failed)?.map(|it| it.recorded)
        {
            return Ok(false);
        }
        if said.placement.is_none() {
            return Ok(true);
        }
        // A suspension, a save or a cancel has made it history: it awaits an answer, unless one follows.
        let served = self.inner.find_served_agent(&failed.agent)?;
        let fields = TurnPreparation { inner: &self.inner, loaded, served }.load_session_fields().await?;
        let history = find_list_field(&fields, HISTORY).cloned().unwrap_or_default();
        let last = Messages::from_list(&history).last();
        Ok(last.is_none_or(|last| last.role == Role::Assistant && last.tool_calls.is_empty()))
    }
}

/// Returns a message's side record for a retry of its turn. A turn that took the message has ended with it: no turn has
/// taken the retry.
fn without_taker(mut side: Map<String, Value>) -> Option<Value> {
    side.remove(TAKEN_BY);
    side.remove(ACCEPTED_AS);
    (!side.is_empty()).then_some(Value::Object(side))
}

impl ChatInner {
    /// Finds the message that a turn answers, or whose answer it retries: the number of its item.
    pub(crate) async fn find_message_item(&self, key: &SessionKey, row: &TurnRow) -> Result<Option<u64>> {
        let mut row = row.clone();
        for _ in 0..GENERATIONS {
            if row.ordinal > 0 {
                row = match self.find_first_turn(key, &row.invocation).await? {
                    Some(first) => first,
                    None => return Ok(None),
                };
            }
            let Some(retried) = row.retries.filter(|_| row.message.is_none()) else { return Ok(row.message) };
            let rows =
                self.await_store_read(self.journal.read_turns(key, &TurnRowQuery::No(retried))).await?;
            row = match rows.into_iter().next() {
                Some(retried) => retried,
                None => return Ok(None),
            };
        }
        Ok(None)
    }

    async fn find_first_turn(&self, key: &SessionKey, invocation: &InvocationId) -> Result<Option<TurnRow>> {
        let query = TurnRowQuery::Invocation(invocation.clone());
        let rows = self.await_store_read(self.journal.read_turns(key, &query)).await?;
        Ok(rows.into_iter().find(|row| row.ordinal == 0))
    }
}
