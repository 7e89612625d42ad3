//! Steering: a message that the running turn may take before it would have a turn of its own.
//!
//! A message that steers is accepted as every message is: it has a row, a place in the queue and exactly one outcome
//! (INV-2). In addition, the running turn may take it: a node asks for new messages (`SteeringInbox::take_messages`) and appends
//! them to the history. The commit that announces such a message there also records, beside the position of the run,
//! that it was taken. From then on it ends with the turn that took it, in the same commit. A message that no commit
//! records as taken keeps its place and has a turn of its own. So no message is lost or answered twice, whichever
//! process dies and whenever a turn is cancelled.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use singletree_durable::{BatchPrecondition, JsonDocument, RowMutation, StoredTurnStatus, TurnRow};
use singletree_graph::PersistentList;
use singletree_llm::{ChatMessage, Role};

use crate::batch::{BatchBuilder, TurnIdentity};
use crate::codec::record::{self, OutcomeRecord, ReplyRange, TurnRowExt};
use crate::event::ChatEventKind;
use crate::outcome::{AnswerEnd, ChatTurnOutcome, CompletedTurn, DispatchPath, ErroredTurn};
use crate::turn::{TurnState, messages_from};
use crate::{Error, TurnId};

/// The name under which the side record of a message says which turn took it (D17).
pub const TAKEN_BY: &str = "taken_by";

/// The name under which the side record of a message that was taken says as which turn it was accepted.
pub const ACCEPTED_AS: &str = "accepted_as";

/// Returns the side record of a message that a turn has taken: that of its sender, with the turn that has taken it and the
/// turn as which it was accepted.
#[must_use]
pub fn build_taken_side(side: Option<Value>, taker: &TurnId, own: &TurnId) -> Value {
    let mut side = side.unwrap_or_else(|| Value::Object(Map::new()));
    side[TAKEN_BY] = taker.to_string().into();
    side[ACCEPTED_AS] = own.to_string().into();
    side
}

/// A message that was handed to the turn that runs.
#[derive(Debug, Clone)]
pub struct OfferedMessage {
    /// The row of the message's turn.
    pub row: TurnRow,
    /// The message.
    pub message: Arc<ChatMessage>,
    /// Its side record.
    pub side: Option<Value>,
}

/// A message that a turn has taken: its turn, and where it stands in the history.
#[derive(Debug, Clone)]
pub struct SteeredMessage {
    /// The row of the message's turn.
    pub row: TurnRow,
    /// Its position in the history.
    pub position: u64,
    /// The side record that its sender gave it.
    pub side: Option<Value>,
}

/// The same, as it is stored with a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SteeredPosition {
    /// The number of the message's turn.
    pub turn: u64,
    /// Its position in the history.
    pub position: u64,
}

/// Finds where messages that were offered stand in a history, from a position on.
pub fn find_offered_places(
    history: &PersistentList,
    from: u64,
    offered: &[OfferedMessage],
) -> Vec<Option<u64>> {
    let mut places = vec![None; offered.len()];
    if offered.is_empty() {
        return places;
    }
    for (position, item) in (from..).zip(history.iter_from(from)) {
        // A message that cannot be read is none that was just handed out.
        let Ok(message) = record::decode_message(item) else { continue };
        if message.role != Role::User {
            continue;
        }
        let free =
            places.iter().zip(offered).position(|(place, it)| place.is_none() && it.message == message);
        if let Some(at) = free {
            places[at] = Some(position);
        }
    }
    places
}

impl TurnState {
    /// Decides which of the messages on offer are part of the history from here on, and records that they are.
    pub(crate) fn take_offered_messages(&mut self, writing: &mut BatchBuilder, messages: &PersistentList) {
        let offered = std::mem::take(&mut writing.offered);
        let places = find_offered_places(messages, self.marks.announced.max(self.marks.boundary), &offered);
        let mut taken: Vec<_> =
            offered.into_iter().zip(places).filter_map(|(it, at)| Some((it, at?))).collect();
        taken.sort_by_key(|(_, at)| *at);
        for (OfferedMessage { row, side, .. }, position) in taken {
            writing.require(BatchPrecondition::Turn { no: row.no, status: StoredTurnStatus::Accepted });
            let item = messages.get(position);
            if let (Some(item), Some(no)) = (item, row.message) {
                // Its body is written already.
                self.numbers.insert_number(item, no);
            }
            self.taken.push(SteeredMessage { row, position, side });
        }
    }

    /// Says beside a message that this turn has taken that it has: its body was written when it was accepted.
    pub(crate) fn write_taken_side(
        &self,
        writing: &mut BatchBuilder,
        (item, position): (u64, u64),
        side: Option<Value>,
    ) -> Option<Value> {
        let taken = self.taken.iter().find(|it| it.position == position)?;
        let side = side.or_else(|| taken.side.clone());
        let side = build_taken_side(side, &self.row.turn_id(), &taken.row.turn_id());
        writing.add_mutation(RowMutation::Side { item, side: JsonDocument::from(&side) });
        Some(side)
    }

    /// Ends, with this turn, the turns of the messages that it has taken. Where this turn completed or suspended, they
    /// are completed, with the messages after them as replies.
    pub(crate) fn end_taken_turns(
        &mut self,
        writing: &mut BatchBuilder,
        errored: Option<&ErroredTurn>,
    ) -> Result<(), Error> {
        let messages = self.committed_history();
        let answer = AnswerEnd::from_side_records(&self.sides, messages.len());
        for SteeredMessage { row, position, .. } in std::mem::take(&mut self.taken) {
            writing.require(BatchPrecondition::Turn { no: row.no, status: StoredTurnStatus::Accepted });
            let turn = row.turn_id();
            let (recorded, outcome) = match errored {
                Some(errored) => {
                    let own = ErroredTurn { turn: Some(turn), ..errored.clone() };
                    (self.failure_record(&own), ChatTurnOutcome::Errored(own))
                }
                None => {
                    let replies = messages_from(&messages, position + 1)?;
                    let tail = ReplyRange {
                        from: position + 1,
                        existing: true,
                        answer,
                        ..self.reply_range(messages.len())
                    };
                    let path = DispatchPath::ExistingSession;
                    let completed = CompletedTurn { turn, replies, final_state: None, path, answer };
                    (OutcomeRecord::Completed(tail), ChatTurnOutcome::Completed(completed))
                }
            };
            self.end_taken_turn(writing, row, &recorded, Arc::new(outcome))?;
        }
        Ok(())
    }

    fn end_taken_turn(
        &mut self,
        writing: &mut BatchBuilder,
        mut row: TurnRow,
        recorded: &OutcomeRecord,
        outcome: Arc<ChatTurnOutcome>,
    ) -> Result<(), Error> {
        row.status = record::status_of_outcome(&outcome);
        row.ended_at = Some(writing.now);
        row.outcome = Some(recorded.to_json_document()?);
        let author = TurnIdentity { no: row.no, id: row.turn_id() };
        writing.landed.ended.push((row.no, outcome.clone()));
        writing.add_mutation(RowMutation::Turn(row));
        let what = match *outcome {
            ChatTurnOutcome::Completed(_) => ChatEventKind::TurnCompleted { outcome },
            ChatTurnOutcome::Suspended(_) => ChatEventKind::TurnSuspended { outcome },
            ChatTurnOutcome::Errored(_) => ChatEventKind::TurnErrored { outcome },
        };
        writing.add_event(&author, None, None, what);
        Ok(())
    }
}
