//! The trace of a turn's invocation: read where this process does not know it, and passed on by its calls.
//!
//! The trace in which a message was sent is stored in the first event of its turn, with the position of its run, and in the
//! first events of the turns that resume it. So it goes on after any restart, and in any process.

use std::sync::Arc;

use singletree_durable::{EventRow, SessionKey, TurnRow};
use singletree_engine::{Identity, TraceHeaders};
use singletree_session::{StoredTrace, TurnState, event_kinds};
use singletree_telemetry::{InvocationTrace, TraceContext, TraceId};

use crate::Result;
use crate::runtime::chat_inner::ChatInner;
use crate::runtime::loaded_session::{LoadedSession, TurnHandle};

/// How many events are read at once.
const PAGE: u64 = 256;

/// Tells whether an event is the first of its turn.
pub(crate) fn is_first_turn_event(row: &EventRow) -> bool {
    match row.kind.as_str() {
        event_kinds::ACCEPTED => true,
        // An early signal that was refused is an event of the turn that keeps waiting.
        event_kinds::SIGNAL => {
            let body = row.body.as_ref().and_then(|body| body.decode::<serde_json::Value>().ok());
            body.is_none_or(|body| body["how"] != "refused")
        }
        _ => false,
    }
}

/// Returns the seed of the ids of a turn's spans.
pub(crate) fn span_id_seed(epoch: &str, key: &SessionKey, turn: u64) -> Vec<u8> {
    let mut seed = Vec::new();
    for part in [epoch, key.tenant.as_str(), key.session.as_str(), &turn.to_string()] {
        // With its length, so that no two lists of parts run into the same bytes.
        seed.extend((part.len() as u64).to_be_bytes());
        seed.extend(part.as_bytes());
    }
    seed
}

impl ChatInner {
    /// Finds the first event of a turn, searching backwards from an event, since it is usually recent. None when it is
    /// not kept.
    pub(crate) async fn find_first_event(
        &self,
        key: &SessionKey,
        before: u64,
        turn: u64,
    ) -> Result<Option<EventRow>> {
        let mut to = before;
        while to > 0 {
            let from = to.saturating_sub(PAGE);
            let rows = self.await_store_read(self.journal.read_events(key, from, to - from)).await?;
            let first = rows.into_iter().find(|row| row.turn == turn && is_first_turn_event(row));
            if first.is_some() {
                return Ok(first);
            }
            to = from;
        }
        Ok(None)
    }

    /// Returns the trace in which the message of a turn was sent: from its handle, or from the log where another process
    /// accepted it.
    pub(crate) async fn find_caller_trace(
        &self,
        loaded: &LoadedSession,
        handle: &TurnHandle,
        row: &TurnRow,
    ) -> Result<Option<Arc<TraceHeaders>>> {
        if let Some(known) = handle.caller_trace() {
            return Ok(known);
        }
        let before = loaded.lock_state().next_numbers().events;
        let first = self.find_first_event(&loaded.key, before, row.no).await?;
        Ok(first.as_ref().and_then(StoredTrace::read_from).map(Arc::new))
    }

    /// Returns the trace of a turn's invocation, for its calls to pass on. None where nobody has a use for it: the caller
    /// is in no trace, and none is exported.
    pub(crate) fn invocation_trace(&self, turning: &TurnState, key: &SessionKey) -> Option<InvocationTrace> {
        let caller = turning.trace.clone();
        if !self.unsent_turns.notes_turns() {
            return caller.map(InvocationTrace::passed_on);
        }
        let context = caller.as_ref().and_then(|headers| TraceContext::from_header(headers.traceparent()));
        let trace_id = match context {
            Some(context) => context.trace_id,
            None => TraceId::of_invocation(&Identity {
                invocation_id: turning.row.invocation.clone(),
                correlation_id: String::new(),
                session_id: None,
            }),
        };
        let is_sampled = self.trace_sampling.includes(&turning.row.agent, trace_id, context);
        let seed = span_id_seed(&self.epoch, key, turning.row.no);
        Some(InvocationTrace::exported((trace_id, is_sampled), seed, caller))
    }
}
