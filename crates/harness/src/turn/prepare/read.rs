//! Reads the stored rows of a turn that is prepared.

use singletree_durable::{ItemRange, PositionHistory, RecordRow, TurnRow, TurnRowQuery};
use singletree_engine::{Fields, Identity, Item, StoredRun};
use singletree_session::{
    ItemNumbering, Records, SteeredMessage, SteeredPosition, StoredPosition, TelemetryRecord, TurnState,
};

use super::{TurnPreparation, position_schema_version};
use crate::Error;
use crate::error::store_corrupt_error;
use crate::turn::frame_decoder::FrameDecoder;

impl TurnPreparation<'_> {
    /// Reads one item.
    pub(crate) async fn read_item(&self, no: u64) -> Result<Item, Error> {
        let range = ItemRange::Numbers { from: no, to: no + 1 };
        let rows =
            self.inner.await_store_read(self.inner.journal.read_items(&self.loaded.key, &range)).await?;
        let missing = || store_corrupt_error(format!("item {no} is missing"), None);
        rows.first().map(|row| Item::from_text(row.body.as_str())).ok_or_else(missing)
    }

    /// Reads where a run stands, brought to the graph's version: the process that stored it may have had another (R36).
    pub(crate) async fn read_stored_run(
        &self,
        turning: &mut TurnState,
        position: &StoredPosition,
        mut records: Records,
    ) -> Result<(StoredRun, ItemNumbering), Error> {
        let (frames, numbers) = self.read_frames(turning, position).await?;
        let from = position_schema_version(position, &turning.head);
        let invocation = &turning.row.invocation;
        let identity = Some(Identity {
            invocation_id: invocation.clone(),
            correlation_id: invocation.to_string(),
            session_id: Some(self.loaded.key.session.clone()),
        });
        let (cursor, containers, completed) = (position.cursor.clone(), Vec::new(), PositionHistory::new());
        // The nodes see the facts that they recorded, and nothing else.
        records.retain(|name, _| !TelemetryRecord::is_telemetry_name(name));
        let standing = StoredRun { identity, cursor, frames, records, containers, completed };
        let migrations = self.served.agent.stored_run_migrations();
        Ok((self.served.agent.graph.migrate_stored_run(standing, &from, &migrations)?, numbers))
    }

    /// Reads the states of where a run stands, in the version that they are stored in.
    pub(crate) async fn read_frames(
        &self,
        turning: &mut TurnState,
        position: &StoredPosition,
    ) -> Result<(Vec<Fields>, ItemNumbering), Error> {
        let is_old =
            position_schema_version(position, &turning.head) != self.served.agent.graph.schema().version();
        let window = self.history_window().filter(|_| !is_old);
        if is_old {
            // Migrations see whole lists.
            turning.stored = self.read_stored_fields(None).await?;
        }
        let mut numbers = ItemNumbering::default();
        let names = (!is_old).then_some(turning.names.as_ref());
        let (journal, key, stored) = (self.inner.journal.as_ref(), &self.loaded.key, &turning.stored);
        let mut decoder = FrameDecoder { journal, key, stored, names, numbers: &mut numbers, window };
        let frames = self.inner.await_read_sequence(decoder.decode_frames(position.frames.clone())).await?;
        Ok((frames, numbers))
    }

    pub(crate) async fn read_records(&self, turn: u64) -> Result<Records, Error> {
        Ok(records_by_name(
            self.inner.await_store_read(self.inner.journal.read_turn_records(&self.loaded.key, turn)).await?,
        ))
    }

    /// Reads the turns of the messages that a turn had taken where it stands.
    pub(crate) async fn read_taken_messages(
        &self,
        position: &StoredPosition,
    ) -> Result<Vec<SteeredMessage>, Error> {
        let mut taken = Vec::new();
        for SteeredPosition { turn, position } in &position.taken {
            taken.push(SteeredMessage {
                row: self.read_turn_row(*turn).await?,
                position: *position,
                side: None,
            });
        }
        Ok(taken)
    }

    /// Reads the row of a turn.
    pub(crate) async fn read_turn_row(&self, no: u64) -> Result<TurnRow, Error> {
        let rows = self
            .inner
            .await_store_read(self.inner.journal.read_turns(&self.loaded.key, &TurnRowQuery::No(no)))
            .await?;
        rows.into_iter().next().ok_or_else(|| store_corrupt_error(format!("turn {no} is missing"), None))
    }
}

pub(super) fn records_by_name(records: Vec<RecordRow>) -> Records {
    records.into_iter().map(|record| (record.name, Item::from_text(record.body.as_str()))).collect()
}
