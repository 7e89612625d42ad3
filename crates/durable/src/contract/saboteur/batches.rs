//! Batches that are written wrongly.

use super::{Clause, Memo, Trick};
use crate::{Batch, FieldRow, FieldValue, Json, Put, Require, SessionKey, TurnRow, WaitRow};

/// Returns the batch that a store with the broken clause would write.
pub(super) fn twist(trick: &Trick, mut batch: Batch) -> Batch {
    let Some(clause) = trick.broken else { return batch };
    weaken(clause, &mut batch);
    if clause == Clause::BatchWhole && batch.puts.len() > 8 {
        batch.puts.pop();
    }
    if clause == Clause::PositionDropped && batch.puts.iter().all(|put| matches!(put, Put::DropPosition(_))) {
        batch.puts.clear();
    }
    if clause == Clause::PutsInOrder {
        // A stable sort: drops go last.
        batch.puts.sort_by_key(|put| matches!(put, Put::DropPosition(_)));
    }
    let mut memo = trick.memo();
    let puts = std::mem::take(&mut batch.puts);
    for put in puts {
        batch.puts.extend(twist_put(clause, &mut memo, &batch.key, put));
    }
    batch
}

/// Takes requirements away.
fn weaken(clause: Clause, batch: &mut Batch) {
    let puts_turn = batch.puts.iter().any(|put| matches!(put, Put::Turn(row) if !row.status.is_ended()));
    batch.requires.retain(|require| match (clause, require) {
        (Clause::RequireSessionAbsent, Require::SessionAbsent)
        | (Clause::RequireSessionVersion, Require::SessionVersion(_))
        | (Clause::RequireCounters, Require::Counters(_))
        | (Clause::RequireTurn, Require::Turn { .. })
        | (Clause::RequireNewestTurn, Require::NewestTurn(_))
        | (Clause::RequireKeyFree, Require::KeyFree(_))
        | (Clause::RequireWait, Require::Wait { .. })
        | (Clause::RequireMailAbsent, Require::MailAbsent(_))
        | (Clause::RequireIdle, Require::Idle)
        | (Clause::RequireSource, Require::Source { .. }) => false,
        (Clause::RequiresComeFirst, Require::Turn { .. } | Require::Wait { .. }) => !puts_turn,
        _ => true,
    });
}

/// Returns the puts to write instead of a put.
fn twist_put(clause: Clause, memo: &mut Memo, key: &SessionKey, put: Put) -> Vec<Put> {
    let lost = match &put {
        Put::DropField(_) => clause == Clause::FieldDropped,
        Put::DropRecords { .. } => clause == Clause::RecordsDropped,
        Put::DropMail(_) => clause == Clause::MailDropped,
        Put::FreeKey { .. } => clause == Clause::KeyFreed,
        // Only where there is something to lose: that a turn in use stays is another promise.
        Put::DropTurn { .. } => clause == Clause::TurnForgotten && !memo.records.is_empty(),
        Put::DropEvents { .. } => clause == Clause::EventsDropped,
        Put::Document { outlives, .. } => match outlives {
            true => clause == Clause::DocumentOutlives,
            false => clause == Clause::DocumentOfBatch,
        },
        Put::Audit(_) => clause == Clause::AuditOutlives,
        Put::Field(row) => {
            let is_new = memo.fields.insert((key.clone(), row.name.clone()));
            clause == Clause::FieldReplaced && !is_new
        }
        Put::Mail(row) => {
            let is_new = memo.mail.insert((key.clone(), row.signal.clone()));
            clause == Clause::MailReplaced && !is_new
        }
        Put::Usage(row) => {
            let is_new = memo.used.insert((key.clone(), row.model.clone()));
            clause == Clause::UsageAdds && !is_new
        }
        Put::Record(row) => {
            let is_new = memo.records.insert((key.clone(), row.turn, row.name.clone()));
            clause == Clause::RecordReplaced && !is_new
        }
        _ => false,
    };
    if lost { Vec::new() } else { merge_put(clause, memo, key, put) }
}

/// Returns a put that merges with the stored row instead of replacing it.
fn merge_put(clause: Clause, memo: &mut Memo, key: &SessionKey, put: Put) -> Vec<Put> {
    match put {
        Put::Head(mut head) => {
            memo.made.insert(key.clone());
            let parent = memo.parents.entry(key.clone()).or_insert_with(|| head.parent.clone());
            if clause == Clause::HeadReplaced {
                head.parent = head.parent.or_else(|| parent.clone());
            }
            let remembers = clause == Clause::DeleteMakesAnew && memo.deleted.contains(key);
            [Put::Head(head)].into_iter().chain(remembers.then(left_field)).collect()
        }
        Put::Delete => {
            memo.fails = !memo.made.remove(key);
            memo.counters.remove(key);
            memo.deleted.insert(key.clone());
            vec![Put::Delete]
        }
        Put::Counters(row) => {
            memo.counters.insert(key.clone(), row);
            vec![Put::Counters(row)]
        }
        Put::Turn(row) => vec![Put::Turn(merge_turn(clause, memo, key, row))],
        Put::Wait(row) => vec![Put::Wait(merge_wait(clause, memo, key, row))],
        Put::Position(mut row) => {
            let name = (key.clone(), row.invocation.to_string());
            let first = *memo.position_turns.entry(name).or_insert(row.turn);
            row.turn = if clause == Clause::PositionReplaced { first } else { row.turn };
            vec![Put::Position(row)]
        }
        Put::Place { item, placement } => {
            memo.placed.insert((key.clone(), item));
            vec![Put::Place { item, placement }]
        }
        Put::Side { item, side } => {
            memo.sided.insert((key.clone(), item));
            vec![Put::Side { item, side }]
        }
        Put::Inherit { .. } => {
            memo.heirs.insert(key.clone());
            vec![put]
        }
        Put::Event(row) => {
            memo.with_events.insert(key.clone());
            vec![Put::Event(row)]
        }
        other => vec![other],
    }
}

/// Returns a field that stays of a deleted session.
fn left_field() -> Put {
    Put::Field(FieldRow { name: "left".to_owned(), value: FieldValue::Value(Json::from_text("1")) })
}

fn merge_turn(clause: Clause, memo: &mut Memo, key: &SessionKey, mut row: TurnRow) -> TurnRow {
    let before = memo.turns.insert((key.clone(), row.no), row.clone());
    if clause == Clause::TurnReplaced {
        row.outcome = row.outcome.or(before.and_then(|before| before.outcome));
    }
    row
}

fn merge_wait(clause: Clause, memo: &mut Memo, key: &SessionKey, mut row: WaitRow) -> WaitRow {
    let before = memo.waits.insert((key.clone(), row.no), row.clone());
    if clause == Clause::WaitReplaced {
        row.answer = row.answer.or(before.and_then(|before| before.answer));
    }
    row
}
