//! The dossier of a session agrees with the single reads.

use singletree_durable::{
    PausedInvocation, RowMutation, SessionRow, SessionSnapshot, StoredTurnStatus, TurnRow,
};

use super::bench::{StoreFactory, Verdict, ensure_equal};
use super::rows::{
    apply_mutations, create_session, make_counters, sample_early_signal, sample_ended_turn, sample_field,
    sample_head, sample_position, sample_record, sample_turn, sample_wait, session_key,
};

pub(super) async fn check_dossier_agrees(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    let suspended = TurnRow { status: StoredTurnStatus::Suspended, ..sample_ended_turn(1) };
    let (waiting, gone) = (session_key("waiting"), session_key("gone"));
    let rows = [
        RowMutation::Turn(suspended.clone()),
        RowMutation::Turn(sample_turn(2)),
        RowMutation::Wait(sample_wait(1)),
        RowMutation::Position(sample_position("inv", "1")),
        RowMutation::Record(sample_record(1, "call", "1")),
        RowMutation::Mail(sample_early_signal("early", "1")),
        RowMutation::Field(sample_field("a", "1")),
    ];
    create_session(&stores, &waiting, [RowMutation::Counters(make_counters(3, 0, 0, 2))]).await?;
    for row in rows {
        apply_mutations(&stores, &waiting, [row]).await?;
    }
    create_session(&stores, &gone, [RowMutation::Counters(make_counters(3, 4, 5, 6))]).await?;
    apply_mutations(&stores, &gone, [RowMutation::Delete]).await?;
    let numbers = make_counters(3, 0, 0, 2);
    let fields = vec![sample_field("a", "1")];
    let session = SessionRow { key: waiting.clone(), head: sample_head(1), counters: numbers, fields };
    let paused = PausedInvocation {
        turn: suspended,
        position: sample_position("inv", "1"),
        records: vec![sample_record(1, "call", "1")],
    };
    let expected = SessionSnapshot {
        session: Some(session),
        numbers,
        pending: vec![sample_wait(1)],
        mail: vec![sample_early_signal("early", "1")],
        open: vec![sample_turn(2)],
        paused: Some(paused),
    };
    ensure_equal(
        "of a session that waits",
        &stores.journal.read_session_snapshot(&waiting).await?,
        &expected,
    )?;
    let left = SessionSnapshot { numbers: make_counters(3, 4, 5, 6), ..SessionSnapshot::default() };
    ensure_equal("of a deleted session", &stores.journal.read_session_snapshot(&gone).await?, &left)?;
    ensure_equal(
        "of none",
        &stores.journal.read_session_snapshot(&session_key("none")).await?,
        &SessionSnapshot::default(),
    )
}
