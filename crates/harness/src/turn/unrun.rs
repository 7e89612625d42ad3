//! Turns that end without being run, or without being run further.

use std::sync::Arc;

use singletree_durable::TurnRow;
use singletree_engine::{RunEntry, TraceHeaders};
use singletree_session::{
    EffectIntent, Records, StoppedRun, StoredFields, StoredPosition, StoredTrace, TurnModelUsage, TurnState,
    has_intent_record, project_session_state,
};

use crate::Error;
use crate::turn::journal_port::JournalPort;
use crate::turn::prepare::TurnPreparation;

/// A turn that is ended without being run further.
#[derive(Clone)]
pub(crate) struct AbandonedTurn {
    row: TurnRow,
    /// Its model usage in this process, if it has run here; its committed usage is part of that.
    used: TurnModelUsage,
}

impl AbandonedTurn {
    pub(crate) fn from_port(port: &JournalPort) -> Self {
        Self { row: port.committed_row(), used: port.turn_budget().model_usage() }
    }

    pub(crate) fn turn_row(&self) -> &TurnRow {
        &self.row
    }
}

impl From<TurnRow> for AbandonedTurn {
    fn from(row: TurnRow) -> Self {
        Self { row, used: TurnModelUsage::default() }
    }
}

impl TurnPreparation<'_> {
    /// Makes a port for a turn that ends without running, or without running further. Also returns the position of its
    /// run, if the turn had effects (D29).
    pub(crate) async fn prepare_abandoned_turn(
        &self,
        unrun: AbandonedTurn,
    ) -> Result<(Arc<JournalPort>, Option<StoppedRun>), Error> {
        let AbandonedTurn { row, used } = unrun;
        let mut turning = match self.load_session_fields().await {
            Ok(stored) => self.build_turn_state(stored, row)?,
            // A history that nobody can read has no calls to close, and its turns end all the same (INV-8).
            Err(error) if error.is_corrupt() => {
                TurnState { unread: true, ..self.build_turn_state(StoredFields::new(), row)? }
            }
            Err(error) => return Err(error),
        };
        let journal = &self.inner.journal;
        let position = self
            .inner
            .await_store_read(journal.read_position(&self.loaded.key, &turning.row.invocation))
            .await?;
        turning.positioned = position.is_some();
        if turning.positioned {
            turning.records = self.read_records(turning.row.no).await?;
        }
        let is_own = position.as_ref().is_some_and(|position| position.turn == turning.row.no);
        // Calls that it had committed are its own to close (D8); a position that cannot be read says nothing about
        // them.
        let position = position.and_then(|position| position.body.decode::<StoredPosition>().ok());
        let stood_with_effects = position.as_ref().is_some_and(|position| position.effects);
        turning.effects =
            EffectIntent::from_has_intent(stood_with_effects || has_intent_record(&turning.records));
        turning.trace = match &position {
            Some(position) => position.trace.clone().map(Arc::new),
            None => self.read_caller_trace(&turning.row).await,
        };
        let mut stopped = None;
        if let Some(position) = position.filter(|_| is_own) {
            turning.marks.first = position.marks.first.min(turning.marks.first);
            turning.used = position.used.clone();
            turning.taken = self.read_taken_messages(&position).await?;
            if turning.effects.is_intended() {
                stopped = self.read_stopped_run(&mut turning, &position).await?;
            }
        }
        if !used.is_empty() {
            turning.used = used;
        }
        Ok((self.open_journal_port(turning, RunEntry::Fresh(None), None).0, stopped))
    }

    /// Reads the trace of a turn that never ran. One that cannot be read is none: the turn ends all the same (INV-8).
    async fn read_caller_trace(&self, row: &TurnRow) -> Option<Arc<TraceHeaders>> {
        let before = self.loaded.lock_state().next_numbers().events;
        let first = self.inner.find_first_event(&self.loaded.key, before, row.no).await.ok()??;
        StoredTrace::read_from(&first).map(Arc::new)
    }

    /// Reads where the run of a turn with effects stood; none when that cannot be read, or the session is another by
    /// now.
    async fn read_stopped_run(
        &self,
        turning: &mut TurnState,
        position: &StoredPosition,
    ) -> Result<Option<StoppedRun>, Error> {
        if turning.unread || position.version != turning.head.version {
            return Ok(None);
        }
        let graph = &self.served.agent.graph;
        let read = match self.read_stored_run(turning, position, Records::new()).await {
            Ok((standing, numbers)) => Ok((standing.frames, numbers)),
            // A state that this graph cannot go on with has a history all the same.
            Err(_) => self.read_frames(turning, position).await,
        };
        let (frames, numbers) = match read {
            Ok(read) => read,
            Err(error) if is_unreadable(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let Some(fields) = frames.first() else { return Ok(None) };
        let session = project_session_state(fields, &turning.names, graph.session_version());
        let session = session.filter(|session| {
            graph.check_session_state(session).is_ok() && self.serves_agent(&turning.row.agent)
        });
        let stopped = StoppedRun::from_fields(fields, &position.cursor, session);
        if stopped.is_some() {
            (turning.numbers, turning.marks) = (numbers, position.marks);
        }
        Ok(stopped)
    }

    fn serves_agent(&self, agent: &str) -> bool {
        self.served.agent.name == agent
    }
}

/// Tells whether reading again cannot help.
fn is_unreadable(error: &Error) -> bool {
    error.is_corrupt() || !matches!(error, Error::Store { .. })
}
