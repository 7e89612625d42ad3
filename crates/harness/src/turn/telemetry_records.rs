//! Storing the records for telemetry of a turn with its commits.

use singletree_engine::Item;
use singletree_session::{BatchBuilder, Records, TelemetryRecord, TurnState};
use singletree_telemetry::{RecordedPiece, RecorderLimits, TurnRecorder};

/// The recorder of a turn in this process.
#[derive(Debug)]
pub(crate) struct TelemetryRecords {
    pub(crate) recorder: TurnRecorder,
    /// The number of the next record of the turn that holds records for telemetry.
    next: u64,
}

impl TelemetryRecords {
    /// Begins with those that the records of the turn hold from a process before.
    pub(crate) fn restore(records: &Records) -> Self {
        let (mut recorder, mut next) = (TurnRecorder::new(RecorderLimits::default()), 0);
        let stored = records.iter().filter(|(name, _)| TelemetryRecord::is_telemetry_name(name));
        let stored = stored.filter_map(|(name, item)| Some((name.as_str(), item.json_text().ok()?)));
        for record in TelemetryRecord::read_from(stored) {
            recorder.restore_interim_piece(record.at, &record.piece);
            next = record.number + 1;
        }
        Self { recorder, next }
    }

    /// Adds records to a commit of the turn: to its event, else as a record of the turn. Returns the piece, which is to be
    /// marked as stored once the commit has landed.
    pub(crate) fn add_to_commit(
        &mut self,
        writing: &mut BatchBuilder,
        turning: &mut TurnState,
    ) -> Option<RecordedPiece> {
        let (turn, at) = (turning.row.no, writing.now);
        writing.telemetry_bytes = self.recorder.recorded_bytes();
        if writing.carries_telemetry(turn) {
            let piece = self.recorder.take_piece(at, turning.row.status.is_ended())?;
            writing.add_telemetry(turn, &piece.json);
            return Some(piece);
        }
        let piece = self.recorder.take_interim_piece(at, writing.drops_records(turn))?;
        let record = TelemetryRecord { number: self.next, at, piece: piece.json.clone() };
        self.next += 1;
        writing.add_mutation(record.to_mutation(turn));
        // The commit that stores them for good drops the records of the turn, since there are some.
        turning.records.insert(record.record_name(), Item::from_text(record.record_body().as_str()));
        Some(piece)
    }
}
