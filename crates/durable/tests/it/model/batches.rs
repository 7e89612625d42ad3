//! Batches at random: few names and numbers, so that they meet.

use proptest::prelude::*;
use proptest::sample::select;
use singletree_durable::{
    AuditRow, Batch, BatchPrecondition, Counters, EarlySignalRow, EventRow, FencingToken, FieldRow,
    FieldValue, ItemPlacement, JsonDocument, ListItemRow, PositionRow, RecordRow, RowMutation, SessionKey,
    StoredTurnStatus, StoredWaitStatus, TurnRow, UsageRow, WaitRow,
};

use crate::rows::{at, head, invocation, item, key_of, turn, wait};

pub(super) fn keys() -> Vec<SessionKey> {
    [("a", "x"), ("a", "y"), ("b", "x")].map(|(tenant, session)| key_of(tenant, session)).to_vec()
}

pub(super) const NAMES: [&str; 2] = ["one", "two"];

fn no() -> impl Strategy<Value = u64> {
    0_u64..4
}

fn name() -> impl Strategy<Value = String> {
    select(&NAMES[..]).prop_map(str::to_owned)
}

fn placement() -> impl Strategy<Value = ItemPlacement> {
    (name(), 0_u64..2, 0_u64..3).prop_map(|(field, generation, seq)| ItemPlacement { field, generation, seq })
}

fn turn_status() -> impl Strategy<Value = StoredTurnStatus> {
    select(vec![
        StoredTurnStatus::Accepted,
        StoredTurnStatus::Suspended,
        StoredTurnStatus::Completed,
        StoredTurnStatus::Errored,
    ])
}

fn wait_status() -> impl Strategy<Value = StoredWaitStatus> {
    select(vec![StoredWaitStatus::Pending, StoredWaitStatus::Consumed, StoredWaitStatus::Expired])
}

fn counters() -> impl Strategy<Value = Counters> {
    (0_u64..2, 0_u64..2).prop_map(|(turns, items)| Counters { turns, items, ..Counters::default() })
}

fn turn_row() -> impl Strategy<Value = TurnRow> {
    (no(), turn_status(), name(), proptest::option::of(name()), 0_u64..3).prop_map(
        |(no, status, inv, key, fence)| TurnRow {
            invocation: invocation(&inv),
            digest: key.clone(),
            key,
            fence: FencingToken(fence),
            ..turn(no, status)
        },
    )
}

fn wait_row() -> impl Strategy<Value = WaitRow> {
    (no(), wait_status(), name(), name(), proptest::option::of(0_i64..4)).prop_map(
        |(no, status, signal, inv, deadline)| WaitRow {
            signal,
            invocation: invocation(&inv),
            deadline: deadline.map(at),
            ..wait(no, status)
        },
    )
}

fn field_row() -> impl Strategy<Value = FieldRow> {
    let value = prop_oneof![
        no().prop_map(|it| FieldValue::Value(JsonDocument::from_text(it.to_string()))),
        no().prop_map(|generation| FieldValue::List { generation, len: 0, bytes: 7 * generation }),
    ];
    (name(), value).prop_map(|(name, value)| FieldRow { name, value })
}

fn put() -> impl Strategy<Value = RowMutation> {
    let json = |it: u64| JsonDocument::from_text(it.to_string());
    let item_row = (no(), no(), proptest::option::of(placement()))
        .prop_map(|(no, turn, placement)| ListItemRow { turn, placement, ..item(no) });
    let audit = |it: u64| AuditRow { at: at(0), action: it.to_string(), key: keys()[0].clone(), by: None };
    prop_oneof![
        4 => no().prop_map(|it| RowMutation::Head(head(it))),
        1 => counters().prop_map(RowMutation::Counters),
        1 => field_row().prop_map(RowMutation::Field),
        1 => name().prop_map(RowMutation::DropField),
        3 => item_row.prop_map(RowMutation::Item),
        2 => (no(), placement()).prop_map(|(item, placement)| RowMutation::Place { item, placement }),
        1 => (no(), no()).prop_map(move |(item, it)| RowMutation::Side { item, side: json(it) }),
        3 => turn_row().prop_map(RowMutation::Turn),
        1 => no().prop_map(|turn| RowMutation::FreeKey { turn }),
        2 => wait_row().prop_map(RowMutation::Wait),
        2 => (name(), no()).prop_map(move |(signal, it)| {
            RowMutation::Mail(EarlySignalRow { signal, payload: json(it), from: None, at: at(0) })
        }),
        1 => name().prop_map(RowMutation::DropMail),
        1 => (name(), no()).prop_map(move |(of, it)| {
            RowMutation::Position(PositionRow { invocation: invocation(&of), turn: it, body: json(it) })
        }),
        1 => name().prop_map(|of| RowMutation::DropPosition(invocation(&of))),
        1 => (no(), name()).prop_map(move |(turn, name)| {
            RowMutation::Record(RecordRow { turn, name, body: json(turn) })
        }),
        1 => no().prop_map(|turn| RowMutation::DropRecords { turn }),
        2 => no().prop_map(|seq| {
            RowMutation::Event(EventRow { seq, turn: 0, kind: "k".to_owned(), item: None, at: at(0), body: None })
        }),
        2 => (select(vec!["x", "y"]), name(), 0_u64..2, 0_u64..3).prop_map(|(from, field, generation, len)| {
            RowMutation::Inherit { from: key_of("a", from).session, field, generation, len }
        }),
        2 => no().prop_map(|turn| RowMutation::DropTurn { turn }),
        1 => no().prop_map(|before| RowMutation::DropEvents { before }),
        1 => (name(), no()).prop_map(|(model, calls)| {
            RowMutation::Usage(UsageRow { model, calls, ..UsageRow::default() })
        }),
        1 => Just(RowMutation::Delete),
        1 => no().prop_map(move |it| RowMutation::Audit(audit(it))),
    ]
}

fn require() -> impl Strategy<Value = BatchPrecondition> {
    prop_oneof![
        Just(BatchPrecondition::SessionAbsent),
        no().prop_map(BatchPrecondition::SessionVersion),
        counters().prop_map(BatchPrecondition::Counters),
        (no(), turn_status()).prop_map(|(no, status)| BatchPrecondition::Turn { no, status }),
        no().prop_map(BatchPrecondition::NewestTurn),
        name().prop_map(BatchPrecondition::KeyFree),
        (no(), wait_status()).prop_map(|(no, status)| BatchPrecondition::Wait { no, status }),
        name().prop_map(BatchPrecondition::MailAbsent),
        Just(BatchPrecondition::Idle),
        (select(vec!["x", "y"]), no()).prop_map(|(of, version)| {
            BatchPrecondition::Source {
                session: key_of("a", of).session,
                created_at: head(0).created_at,
                version,
            }
        }),
    ]
}

pub(super) fn batch() -> impl Strategy<Value = Batch> {
    let fence = prop_oneof![9 => Just(FencingToken(1)), 1 => Just(FencingToken(2))];
    let requires = prop_oneof![2 => Just(vec![]), 1 => proptest::collection::vec(require(), 1..3)];
    (select(keys()), fence, requires, proptest::collection::vec(put(), 0..6))
        .prop_map(|(key, fence, requires, puts)| Batch { key, fence, requires, puts })
}
