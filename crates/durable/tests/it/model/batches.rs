//! Batches at random: few names and numbers, so that they meet.

use proptest::prelude::*;
use proptest::sample::select;
use singletree_durable::{
    AuditRow, Batch, Counters, EventRow, Fence, FieldRow, FieldValue, ItemRow, Json, MailRow, Placement,
    PositionRow, Put, RecordRow, Require, SessionKey, TurnRow, TurnStatus, UsageRow, WaitRow, WaitStatus,
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

fn placement() -> impl Strategy<Value = Placement> {
    (name(), 0_u64..2, 0_u64..3).prop_map(|(field, generation, seq)| Placement { field, generation, seq })
}

fn turn_status() -> impl Strategy<Value = TurnStatus> {
    select(vec![TurnStatus::Accepted, TurnStatus::Suspended, TurnStatus::Completed, TurnStatus::Errored])
}

fn wait_status() -> impl Strategy<Value = WaitStatus> {
    select(vec![WaitStatus::Pending, WaitStatus::Consumed, WaitStatus::Expired])
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
            fence: Fence(fence),
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
        no().prop_map(|it| FieldValue::Value(Json::from_text(it.to_string()))),
        no().prop_map(|generation| FieldValue::List { generation, len: 0, bytes: 7 * generation }),
    ];
    (name(), value).prop_map(|(name, value)| FieldRow { name, value })
}

fn put() -> impl Strategy<Value = Put> {
    let json = |it: u64| Json::from_text(it.to_string());
    let item_row = (no(), no(), proptest::option::of(placement()))
        .prop_map(|(no, turn, placement)| ItemRow { turn, placement, ..item(no) });
    let audit = |it: u64| AuditRow { at: at(0), action: it.to_string(), key: keys()[0].clone(), by: None };
    prop_oneof![
        4 => no().prop_map(|it| Put::Head(head(it))),
        1 => counters().prop_map(Put::Counters),
        1 => field_row().prop_map(Put::Field),
        1 => name().prop_map(Put::DropField),
        3 => item_row.prop_map(Put::Item),
        2 => (no(), placement()).prop_map(|(item, placement)| Put::Place { item, placement }),
        1 => (no(), no()).prop_map(move |(item, it)| Put::Side { item, side: json(it) }),
        3 => turn_row().prop_map(Put::Turn),
        1 => no().prop_map(|turn| Put::FreeKey { turn }),
        2 => wait_row().prop_map(Put::Wait),
        2 => (name(), no()).prop_map(move |(signal, it)| {
            Put::Mail(MailRow { signal, payload: json(it), from: None, at: at(0) })
        }),
        1 => name().prop_map(Put::DropMail),
        1 => (name(), no()).prop_map(move |(of, it)| {
            Put::Position(PositionRow { invocation: invocation(&of), turn: it, body: json(it) })
        }),
        1 => name().prop_map(|of| Put::DropPosition(invocation(&of))),
        1 => (no(), name()).prop_map(move |(turn, name)| {
            Put::Record(RecordRow { turn, name, body: json(turn) })
        }),
        1 => no().prop_map(|turn| Put::DropRecords { turn }),
        2 => no().prop_map(|seq| {
            Put::Event(EventRow { seq, turn: 0, kind: "k".to_owned(), item: None, at: at(0), body: None })
        }),
        2 => (select(vec!["x", "y"]), name(), 0_u64..2, 0_u64..3).prop_map(|(from, field, generation, len)| {
            Put::Inherit { from: key_of("a", from).session, field, generation, len }
        }),
        2 => no().prop_map(|turn| Put::DropTurn { turn }),
        1 => no().prop_map(|before| Put::DropEvents { before }),
        1 => (name(), no()).prop_map(|(model, calls)| {
            Put::Usage(UsageRow { model, calls, ..UsageRow::default() })
        }),
        1 => Just(Put::Delete),
        1 => no().prop_map(move |it| Put::Audit(audit(it))),
    ]
}

fn require() -> impl Strategy<Value = Require> {
    prop_oneof![
        Just(Require::SessionAbsent),
        no().prop_map(Require::SessionVersion),
        counters().prop_map(Require::Counters),
        (no(), turn_status()).prop_map(|(no, status)| Require::Turn { no, status }),
        no().prop_map(Require::NewestTurn),
        name().prop_map(Require::KeyFree),
        (no(), wait_status()).prop_map(|(no, status)| Require::Wait { no, status }),
        name().prop_map(Require::MailAbsent),
        Just(Require::Idle),
        (select(vec!["x", "y"]), no()).prop_map(|(of, version)| {
            Require::Source { session: key_of("a", of).session, created_at: head(0).created_at, version }
        }),
    ]
}

pub(super) fn batch() -> impl Strategy<Value = Batch> {
    let fence = prop_oneof![9 => Just(Fence(1)), 1 => Just(Fence(2))];
    let requires = prop_oneof![2 => Just(vec![]), 1 => proptest::collection::vec(require(), 1..3)];
    (select(keys()), fence, requires, proptest::collection::vec(put(), 0..6))
        .prop_map(|(key, fence, requires, puts)| Batch { key, fence, requires, puts })
}
