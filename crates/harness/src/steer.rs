//! Steering: a message that the running turn may take before it would have a turn of its own.
//!
//! A message that steers is accepted as every message is: it has a row, a place in the queue and exactly one outcome
//! (INV-2). In addition, the running turn may take it: a node asks for new messages ([`SteeringInbox::take_messages`]) and appends
//! them to the history. The commit that announces such a message there also records, beside the position of the run,
//! that it was taken. From then on it ends with the turn that took it, in the same commit. A message that no commit
//! records as taken keeps its place and has a turn of its own. So no message is lost or answered twice, whichever
//! process dies and whenever a turn is cancelled.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use singletree_durable::{BatchPrecondition, JsonDocument, RowMutation, StoredTurnStatus, TurnRow};
use singletree_engine::PersistentList;
use singletree_llm::{ChatMessage, Role};

use crate::Error;
use crate::chat::Chat;
use crate::event::ChatEventKind;
use crate::history::Messages;
use crate::loaded_session::LoadedSession;
use crate::outcome::{AnswerEnd, ChatTurnOutcome, CompletedTurn, DispatchPath, ErroredTurn};
use crate::record::{self, OutcomeRecord, ReplyRange, TurnRowExt};
use crate::send_options::SendOptions;
use crate::session::batch::{BatchBuilder, TurnIdentity};
use crate::session::turn::{TurnState, messages_from};
use crate::stream::TurnStream;

use crate::turn::Turn;

/// The name under which the side record of a message says which turn took it (D17).
pub(crate) const TAKEN_BY: &str = "taken_by";

/// Hands the running turn the messages that steer it. Nodes of the outermost graph get it from their
/// [`TurnContext`](crate::TurnContext).
#[derive(Debug, Clone)]
pub struct SteeringInbox {
    loaded: Arc<LoadedSession>,
    agent: String,
    stream: TurnStream,
}

/// A message that was handed to the turn that runs.
#[derive(Debug, Clone)]
pub(crate) struct OfferedMessage {
    pub(crate) row: TurnRow,
    pub(crate) message: Arc<ChatMessage>,
    pub(crate) side: Option<Value>,
}

/// A message that a turn has taken: its turn, and where it stands in the history.
#[derive(Debug, Clone)]
pub(crate) struct SteeredMessage {
    pub(crate) row: TurnRow,
    pub(crate) position: u64,
    /// The side record that its sender gave it.
    pub(crate) side: Option<Value>,
}

/// The same, as it is stored with a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SteeredPosition {
    pub(crate) turn: u64,
    pub(crate) position: u64,
}

impl SteeringInbox {
    pub(crate) fn new(loaded: Arc<LoadedSession>, agent: String, stream: TurnStream) -> Self {
        Self { loaded, agent, stream }
    }

    /// Returns the messages that have come to steer this turn, in the order of acceptance, and are not part of this
    /// history yet. Whoever asks appends them to `messages`, unchanged, in the update of the same node: in the commit
    /// of that they count as taken. Asked again before, as a node does that is tried again, it returns them again.
    ///
    /// Messages behind one that does not steer, or that is another agent's, keep their places.
    #[must_use]
    pub fn take_messages(&self, history: &Messages) -> Vec<ChatMessage> {
        let (offered, after) = self.loaded.lock_state().offer_steering(&self.agent);
        let places = find_offered_places(
            history.as_persistent_list(),
            self.stream.reply_boundary().max(after),
            &offered,
        );
        let new = offered.into_iter().zip(places).filter(|(_, place)| place.is_none());
        let new: Vec<_> = new.map(|(it, _)| it.message.as_ref().clone()).collect();
        self.stream.note_steering_messages(new.len() as u64);
        new
    }
}

/// Finds where messages that were offered stand in a history, from a position on.
fn find_offered_places(history: &PersistentList, from: u64, offered: &[OfferedMessage]) -> Vec<Option<u64>> {
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
        let mut side = side.or_else(|| taken.side.clone()).unwrap_or_else(|| Value::Object(Map::new()));
        side[TAKEN_BY] = self.row.turn_id().to_string().into();
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

impl Chat {
    /// Accepts a message that steers: the turn that runs takes it before it asks its model the next time, if its graph
    /// looks for such messages ([`SteeringInbox::take_messages`]; the loop of an agent does). If the turn ends before, or if none
    /// runs, the message has its own turn, as one that was sent. It is accepted durably, and reaches exactly one
    /// outcome, whatever dies when (INV-2).
    ///
    /// The outcome of a message that was taken comes with that of the turn that took it: completed with the messages
    /// after it, also where that turn suspends; errored as that turn. To cancel it is to cancel that turn. Which turn
    /// that was stands beside the message, in its side record: `{"taken_by": TURN}`, told by its
    /// [`ChatEventKind::MessageAppended`], which is an event of that turn, and by [`Chat::history`].
    ///
    /// Messages are taken in the order of acceptance: one that waits behind a message that was sent waits its turn.
    ///
    /// # Errors
    /// As [`Chat::submit`].
    ///
    /// # Cancellation
    /// A dropped call has accepted the message or has not.
    pub async fn steer(
        &self,
        session_id: &str,
        message: ChatMessage,
        options: SendOptions,
    ) -> Result<Turn, Box<ErroredTurn>> {
        self.submit(session_id, message, options.with_steering()).await
    }
}
