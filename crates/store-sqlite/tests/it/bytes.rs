//! What a turn costs on disk, and that it costs the same however long the history is (INV-4).

use std::io::Write;

use singletree_durable::{
    Counters, EventRow, FieldRow, FieldValue, Head, ItemRow, Journal, Put, TurnRow, TurnStatus,
};
use singletree_store_sqlite::SqliteStore;

use crate::made::{at, batch, event, head, invocation, item, json, place, store, turn};

const TURNS: u64 = 1_000;

/// Accepts and ends a turn of two messages of 200 bytes, as a chat does.
async fn run(store: &SqliteStore, no: u64) {
    let now = at(1_700_000_000_000 + i64::try_from(no).unwrap() * 1_000);
    let text = format!("{no:0200}");
    let says = |no, turn, role: &str| ItemRow {
        turn,
        side: Some(json(&format!("{{\"at\":{}}}", now.as_millis()))),
        ..item(no, &format!("{{\"role\":\"{role}\",\"content\":\"{text}\"}}"))
    };
    let tell = |seq, kind: &str, item| Put::Event(EventRow { turn: no, item, at: now, ..event(seq, kind) });
    let counted = |items, events| Put::Counters(Counters { turns: no + 1, items, events, waits: 0 });
    // Ids are random, as they will be: their index is not filled in order.
    let id = no.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let id = format!("{:08x}-{:04x}-4{:03x}-8000-{no:012x}", id >> 32, (id >> 16) & 0xffff, id & 0xfff);
    let accepted = TurnRow {
        invocation: invocation(&id),
        accepted_at: now,
        fence: store.fence(),
        ..turn(no, TurnStatus::Accepted)
    };
    let mut accept = vec![
        Put::Item(says(2 * no, no, "user")),
        Put::Turn(accepted.clone()),
        tell(4 * no, "accepted", Some(2 * no)),
        counted(2 * no + 1, 4 * no + 1),
    ];
    if no == 0 {
        accept.insert(0, Put::Head(head(0)));
    }
    store.apply(batch(store, "conv-1", accept)).await.unwrap();
    let ended = TurnRow {
        status: TurnStatus::Completed,
        ended_at: Some(now),
        outcome: Some(json(&format!("{{\"kind\":\"completed\",\"replies\":[{}]}}", 2 * no + 1))),
        ..accepted
    };
    let reply = ItemRow { placement: Some(place(2 * no + 1)), ..says(2 * no + 1, no, "assistant") };
    let list = FieldValue::List { generation: 0, len: 2 * no + 2, bytes: 0 };
    let end = [
        Put::Place { item: 2 * no, placement: place(2 * no) },
        Put::Item(reply),
        Put::Field(FieldRow { name: "messages".into(), value: list }),
        Put::Head(Head { updated_at: now, ..head(no + 1) }),
        Put::Turn(ended),
        tell(4 * no + 1, "started", None),
        tell(4 * no + 2, "message", Some(2 * no + 1)),
        tell(4 * no + 3, "completed", None),
        counted(2 * no + 2, 4 * no + 4),
    ];
    store.apply(batch(store, "conv-1", end)).await.unwrap();
}

#[tokio::test]
async fn a_thousand_small_turns_fit_their_budget_and_cost_the_same_at_any_length() {
    let scratch = crate::made::scratch();
    let store = SqliteStore::options(&scratch.path)
        .durability(singletree_store_sqlite::Durability::Normal)
        .open()
        .await
        .unwrap();
    let log = scratch.dir.path().join("store.db-wal");
    let mut logged = Vec::new();
    let mut written = Vec::new();
    for no in 0..TURNS {
        if no == 20 || no == 40 {
            logged.push(log.metadata().unwrap().len());
        }
        let before = store.bytes_written();
        run(&store, no).await;
        written.push(store.bytes_written() - before);
    }
    assert_eq!(store.commits(), 2 * TURNS);
    store.close().await;
    let size = scratch.path.metadata().unwrap().len();
    let (early, late) = (written[10], written[999]);
    let mut out = std::io::stdout();
    writeln!(
        out,
        "bytes per turn: {} in the file, {early} bound at turn 10, {late} at turn 1000, {} in the log",
        size / TURNS,
        (logged[1] - logged[0]) / 20
    )
    .unwrap();
    assert!(size <= 1_153_433, "{size} bytes for {TURNS} turns are more than 1.1 MiB");
    assert!(late * 100 <= early * 102, "{early} bytes at turn 10, {late} at turn 1000");
    // INV-4: two messages, and at most 4 KiB beside them.
    assert!(late <= 2 * 2 * 200 + 4_096, "{late} bytes for a turn");
}

#[tokio::test]
async fn a_long_message_is_bound_once() {
    // INV-4
    let (_scratch, store) = store().await;
    store.apply(batch(&store, "s", [Put::Head(head(0))])).await.unwrap();
    let before = store.bytes_written();
    let body = format!("\"{}\"", "x".repeat(10_000_000));
    store.apply(batch(&store, "s", [Put::Item(item(0, &body))])).await.unwrap();
    store.apply(batch(&store, "s", [Put::Place { item: 0, placement: place(0) }])).await.unwrap();
    assert_eq!(store.bytes_written() - before, 10_000_002 + 3 * 8 + 8 + 5 * 8);
}
