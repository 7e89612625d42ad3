//! Changes a batch as a store with a broken clause would write it.

use singletree_durable::{
    Batch, BatchPrecondition, FieldRow, FieldValue, JsonDocument, RowMutation, SessionKey, TurnRow, WaitRow,
};

use super::{ClauseFault, ContractClause, StoreCallHistory};

/// Returns the batch that a store with the broken clause would write.
pub(super) fn twist_batch(trick: &ClauseFault, mut batch: Batch) -> Batch {
    let Some(clause) = trick.broken else { return batch };
    weaken_requirements(clause, &mut batch);
    if clause == ContractClause::BatchWhole && batch.puts.len() > 8 {
        batch.puts.pop();
    }
    if clause == ContractClause::PositionDropped
        && batch.puts.iter().all(|put| matches!(put, RowMutation::DropPosition(_)))
    {
        batch.puts.clear();
    }
    if clause == ContractClause::PutsInOrder {
        // A stable sort: drops go last.
        batch.puts.sort_by_key(|put| matches!(put, RowMutation::DropPosition(_)));
    }
    let mut memo = trick.lock_history();
    let puts = std::mem::take(&mut batch.puts);
    for put in puts {
        batch.puts.extend(twist_mutation(clause, &mut memo, &batch.key, put));
    }
    batch
}

/// Removes the requirements that the broken clause ignores.
fn weaken_requirements(clause: ContractClause, batch: &mut Batch) {
    let puts_turn =
        batch.puts.iter().any(|put| matches!(put, RowMutation::Turn(row) if !row.status.is_ended()));
    batch.requires.retain(|require| match (clause, require) {
        (ContractClause::RequireSessionAbsent, BatchPrecondition::SessionAbsent)
        | (ContractClause::RequireSessionVersion, BatchPrecondition::SessionVersion(_))
        | (ContractClause::RequireCounters, BatchPrecondition::Counters(_))
        | (ContractClause::RequireTurn, BatchPrecondition::Turn { .. })
        | (ContractClause::RequireNewestTurn, BatchPrecondition::NewestTurn(_))
        | (ContractClause::RequireKeyFree, BatchPrecondition::KeyFree(_))
        | (ContractClause::RequireWait, BatchPrecondition::Wait { .. })
        | (ContractClause::RequireMailAbsent, BatchPrecondition::MailAbsent(_))
        | (ContractClause::RequireIdle, BatchPrecondition::Idle)
        | (ContractClause::RequireSource, BatchPrecondition::Source { .. }) => false,
        (
            ContractClause::RequiresComeFirst,
            BatchPrecondition::Turn { .. } | BatchPrecondition::Wait { .. },
        ) => !puts_turn,
        _ => true,
    });
}

/// Returns the puts to write instead of a put.
fn twist_mutation(
    clause: ContractClause,
    memo: &mut StoreCallHistory,
    key: &SessionKey,
    put: RowMutation,
) -> Vec<RowMutation> {
    let lost = match &put {
        RowMutation::DropField(_) => clause == ContractClause::FieldDropped,
        RowMutation::DropRecords { .. } => clause == ContractClause::RecordsDropped,
        RowMutation::DropMail(_) => clause == ContractClause::MailDropped,
        RowMutation::FreeKey { .. } => clause == ContractClause::KeyFreed,
        // Only if there are records to remove: another promise states that a turn in use stays.
        RowMutation::DropTurn { .. } => clause == ContractClause::TurnForgotten && !memo.records.is_empty(),
        RowMutation::DropEvents { .. } => clause == ContractClause::EventsDropped,
        RowMutation::Document { outlives, .. } => match outlives {
            true => clause == ContractClause::DocumentOutlives,
            false => clause == ContractClause::DocumentOfBatch,
        },
        RowMutation::Audit(_) => clause == ContractClause::AuditOutlives,
        RowMutation::Field(row) => {
            let is_new = memo.fields.insert((key.clone(), row.name.clone()));
            clause == ContractClause::FieldReplaced && !is_new
        }
        RowMutation::Mail(row) => {
            let is_new = memo.mail.insert((key.clone(), row.signal.clone()));
            clause == ContractClause::MailReplaced && !is_new
        }
        RowMutation::Usage(row) => {
            let is_new = memo.used.insert((key.clone(), row.model.clone()));
            clause == ContractClause::UsageAdds && !is_new
        }
        RowMutation::Record(row) => {
            let is_new = memo.records.insert((key.clone(), row.turn, row.name.clone()));
            clause == ContractClause::RecordReplaced && !is_new
        }
        _ => false,
    };
    if lost { Vec::new() } else { merge_mutation(clause, memo, key, put) }
}

/// Returns a put that merges with the stored row instead of replacing it.
fn merge_mutation(
    clause: ContractClause,
    memo: &mut StoreCallHistory,
    key: &SessionKey,
    put: RowMutation,
) -> Vec<RowMutation> {
    match put {
        RowMutation::Head(mut head) => {
            memo.made.insert(key.clone());
            let parent = memo.parents.entry(key.clone()).or_insert_with(|| head.parent.clone());
            if clause == ContractClause::HeadReplaced {
                head.parent = head.parent.or_else(|| parent.clone());
            }
            let remembers = clause == ContractClause::DeleteMakesAnew && memo.deleted.contains(key);
            [RowMutation::Head(head)].into_iter().chain(remembers.then(left_field)).collect()
        }
        RowMutation::Delete => {
            memo.fails = !memo.made.remove(key);
            memo.counters.remove(key);
            memo.deleted.insert(key.clone());
            vec![RowMutation::Delete]
        }
        RowMutation::Counters(row) => {
            memo.counters.insert(key.clone(), row);
            vec![RowMutation::Counters(row)]
        }
        RowMutation::Turn(row) => vec![RowMutation::Turn(merge_turn(clause, memo, key, row))],
        RowMutation::Wait(row) => vec![RowMutation::Wait(merge_wait(clause, memo, key, row))],
        RowMutation::Position(mut row) => {
            let name = (key.clone(), row.invocation.to_string());
            let first = *memo.position_turns.entry(name).or_insert(row.turn);
            row.turn = if clause == ContractClause::PositionReplaced { first } else { row.turn };
            vec![RowMutation::Position(row)]
        }
        RowMutation::Place { item, placement } => {
            memo.placed.insert((key.clone(), item));
            vec![RowMutation::Place { item, placement }]
        }
        RowMutation::Side { item, side } => {
            memo.sided.insert((key.clone(), item));
            vec![RowMutation::Side { item, side }]
        }
        RowMutation::Inherit { .. } => {
            memo.heirs.insert(key.clone());
            vec![put]
        }
        RowMutation::Event(row) => {
            memo.with_events.insert(key.clone());
            vec![RowMutation::Event(row)]
        }
        other => vec![other],
    }
}

/// Returns a field that remains of a deleted session.
fn left_field() -> RowMutation {
    RowMutation::Field(FieldRow {
        name: "left".to_owned(),
        value: FieldValue::Value(JsonDocument::from_text("1")),
    })
}

fn merge_turn(
    clause: ContractClause,
    memo: &mut StoreCallHistory,
    key: &SessionKey,
    mut row: TurnRow,
) -> TurnRow {
    let before = memo.turns.insert((key.clone(), row.no), row.clone());
    if clause == ContractClause::TurnReplaced {
        row.outcome = row.outcome.or(before.and_then(|before| before.outcome));
    }
    row
}

fn merge_wait(
    clause: ContractClause,
    memo: &mut StoreCallHistory,
    key: &SessionKey,
    mut row: WaitRow,
) -> WaitRow {
    let before = memo.waits.insert((key.clone(), row.no), row.clone());
    if clause == ContractClause::WaitReplaced {
        row.answer = row.answer.or(before.and_then(|before| before.answer));
    }
    row
}
