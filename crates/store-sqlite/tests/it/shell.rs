//! The views that a person sees with the sqlite3 shell.

use rusqlite::Connection;
use singletree_durable::{
    FieldRow, FieldValue, Journal, ListItemRow, RowMutation, StoredTurnStatus, StoredWaitStatus, WaitRow,
};

use crate::made::{at, batch, event, head, item, json, place, store, turn, wait};

#[tokio::test]
async fn the_views_tell_the_story_in_words() {
    let (scratch, store) = store().await;
    let says = |no, seq, body: &str| ListItemRow { placement: Some(place(seq)), ..item(no, body) };
    let puts = [
        RowMutation::Head(head(1)),
        RowMutation::Field(FieldRow {
            name: "messages".into(),
            value: FieldValue::List { generation: 0, len: 2, bytes: 0 },
        }),
        RowMutation::Item(says(0, 0, r#"{"role":"user","content":"Send it."}"#)),
        RowMutation::Item(says(1, 1, r#"{"role":"assistant","content":[{"type":"text"}]}"#)),
        RowMutation::Item(item(2, r#"{"role":"user","content":"not yet"}"#)),
        RowMutation::Turn(turn(0, StoredTurnStatus::Suspended)),
        RowMutation::Wait(WaitRow {
            deadline: Some(at(1_700_000_100_500)),
            metadata: Some(json(r#"{"action":"send"}"#)),
            ..wait(0, "approval", StoredWaitStatus::Pending)
        }),
        RowMutation::Event(event(0, "accepted")),
        RowMutation::Wait(wait(1, "old", StoredWaitStatus::Cancelled)),
    ];
    store.apply(batch(&store, "conv-1", puts)).await.unwrap();
    let file = Connection::open(&scratch.path).unwrap();
    let lines = |sql: &str| -> Vec<String> {
        let mut query = file.prepare(sql).unwrap();
        query.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
    };
    assert_eq!(
        lines("SELECT concat_ws('|', tenant, session, list, seq, role, content, time) FROM transcript"),
        [
            "default|conv-1|messages|0|user|Send it.|2023-11-14T22:13:20.000Z",
            r#"default|conv-1|messages|1|assistant|[{"type":"text"}]|2023-11-14T22:13:20.000Z"#,
        ]
    );
    assert_eq!(
        lines("SELECT concat_ws('|', session, turn, kind, status, agent, accepted) FROM turns"),
        ["conv-1|0|message|suspended|demo|2023-11-14T22:13:20.000Z"]
    );
    assert_eq!(
        lines("SELECT concat_ws('|', session, wait, signal, metadata, deadline) FROM pending"),
        [r#"conv-1|0|approval|{"action":"send"}|2023-11-14T22:15:00.500Z"#]
    );
    assert_eq!(
        lines("SELECT concat_ws('|', session, seq, kind, time) FROM events"),
        ["conv-1|0|accepted|2023-11-14T22:13:20.000Z"]
    );
    assert_eq!(lines("PRAGMA integrity_check"), ["ok"]);
}
