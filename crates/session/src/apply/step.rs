//! A node has completed: stores the run's position and the items that it has made, without making them history (D11).

use singletree_durable::{
    BatchPrecondition, JsonDocument, PositionRow, RecordRow, RowMutation, StoredTurnStatus,
};
use singletree_graph::{Descriptor, Item, RunProgress};

use crate::Error;
use crate::apply::steer::SteeredPosition;
use crate::batch::BatchBuilder;
use crate::codec::calls::{EffectIntent, is_intent_record};
use crate::codec::position::{FrameEncoder, StoredPosition};
use crate::codec::provenance;
use crate::codec::stored::store_corrupt_error;
use crate::codec::telemetry::TelemetryRecord;
use crate::turn::{TurnState, history_of_state};
use crate::usage::TurnModelUsage;

/// Writes the position of the run after a node has completed.
///
/// # Errors
/// `chat_budget_exhausted`; `store_corrupt`.
pub fn write_completed_step(
    writing: &mut BatchBuilder,
    turning: &mut TurnState,
    progress: &RunProgress,
) -> Result<(), Error> {
    writing.require(BatchPrecondition::Turn { no: turning.row.no, status: StoredTurnStatus::Accepted });
    if let Some(state) = progress.frames.first() {
        turning.announce_messages(writing, &history_of_state(state))?;
    }
    if !turning.records.is_empty() {
        writing.add_mutation(RowMutation::DropRecords { turn: turning.row.no });
        turning.records.clear();
    }
    write_position(writing, turning, progress, None)
}

/// Writes where the invocation stands.
pub(crate) fn write_position(
    writing: &mut BatchBuilder,
    turning: &mut TurnState,
    progress: &RunProgress,
    descriptor: Option<Descriptor>,
) -> Result<(), Error> {
    let author = turning.turn_identity();
    let (names, numbers) = (&turning.names, &mut turning.numbers);
    let mut encoder = FrameEncoder { author: &author, stored: &turning.stored, names, numbers };
    let frames = encoder.encode_frames(writing, &progress.frames)?;
    // Whoever runs it may have another version of the graph than who accepted the turn.
    let own = progress.frames.first().map(|frame| frame.schema().version());
    let schema_version = own.filter(|own| *own != turning.head.schema_version).map(str::to_owned);
    let position = StoredPosition {
        agent: turning.row.agent.clone(),
        graph: turning.row.graph.clone(),
        schema_version,
        version: turning.head.version,
        marks: turning.marks,
        spent: turning.spent,
        used: if descriptor.is_some() { TurnModelUsage::default() } else { turning.used.clone() },
        effects: turning.effects.is_intended(),
        taken: turning
            .taken
            .iter()
            .map(|it| SteeredPosition { turn: it.row.no, position: it.position })
            .collect(),
        trace: turning.trace.as_deref().cloned(),
        cursor: progress.cursor.clone(),
        frames,
        descriptor,
    };
    let (invocation, turn) = (turning.row.invocation.clone(), turning.row.no);
    let body = position.to_json_document()?;
    turning.bounds.check_position(body.as_str())?;
    writing.add_mutation(RowMutation::Position(PositionRow { invocation, turn, body }));
    turning.positioned = true;
    turning.stands = true;
    turning.making.inside = provenance::entered_outer_node(&progress.cursor);
    Ok(())
}

/// A node records one fact before it goes on (D7).
pub fn record_fact(
    writing: &mut BatchBuilder,
    turning: &mut TurnState,
    (name, fact): (&str, &Item),
    progress: Option<&RunProgress>,
) -> Result<(), Error> {
    writing.require(BatchPrecondition::Turn { no: turning.row.no, status: StoredTurnStatus::Accepted });
    let text = fact
        .json_text()
        .map_err(|error| store_corrupt_error(format!("the record '{name}'"), Some(error.into())))?;
    // The stored records were encoded when they were inserted.
    let facts = turning.records.iter().filter(|(name, _)| !TelemetryRecord::is_telemetry_name(name));
    let held: usize = facts.map(|(_, record)| record.json_text().map_or(0, str::len)).sum();
    turning.bounds.check_record(text, held)?;
    let body = JsonDocument::from_text(text);
    writing.add_mutation(RowMutation::Record(RecordRow {
        turn: turning.row.no,
        name: name.to_owned(),
        body,
    }));
    turning.records.insert(name.to_owned(), fact.clone());
    if is_intent_record(name) {
        turning.effects = EffectIntent::Intended;
    }
    // A run that began anew would not look for records: from the first one on it goes on at its node.
    match progress.filter(|_| !turning.stands) {
        Some(progress) => write_position(writing, turning, progress, None),
        None => Ok(()),
    }
}
