//! The dossier of a session agrees with the single reads.

use singletree_durable::{
    PausedInvocation, RowMutation, SessionRow, SessionSnapshot, StoredTurnStatus, TurnRow,
};

use super::bench::{StoreFactory, Verdict, same};
use super::rows::{apply, counters, ended, field, head, key, mail, make, position, record, turn, wait};

pub(super) async fn agrees(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    let suspended = TurnRow { status: StoredTurnStatus::Suspended, ..ended(1) };
    let (waiting, gone) = (key("waiting"), key("gone"));
    let rows = [
        RowMutation::Turn(suspended.clone()),
        RowMutation::Turn(turn(2)),
        RowMutation::Wait(wait(1)),
        RowMutation::Position(position("inv", "1")),
        RowMutation::Record(record(1, "call", "1")),
        RowMutation::Mail(mail("early", "1")),
        RowMutation::Field(field("a", "1")),
    ];
    make(&stores, &waiting, [RowMutation::Counters(counters(3, 0, 0, 2))]).await?;
    for row in rows {
        apply(&stores, &waiting, [row]).await?;
    }
    make(&stores, &gone, [RowMutation::Counters(counters(3, 4, 5, 6))]).await?;
    apply(&stores, &gone, [RowMutation::Delete]).await?;
    let numbers = counters(3, 0, 0, 2);
    let fields = vec![field("a", "1")];
    let session = SessionRow { key: waiting.clone(), head: head(1), counters: numbers, fields };
    let paused = PausedInvocation {
        turn: suspended,
        position: position("inv", "1"),
        records: vec![record(1, "call", "1")],
    };
    let expected = SessionSnapshot {
        session: Some(session),
        numbers,
        pending: vec![wait(1)],
        mail: vec![mail("early", "1")],
        open: vec![turn(2)],
        paused: Some(paused),
    };
    same("of a session that waits", &stores.journal.dossier(&waiting).await?, &expected)?;
    let left = SessionSnapshot { numbers: counters(3, 4, 5, 6), ..SessionSnapshot::default() };
    same("of a deleted session", &stores.journal.dossier(&gone).await?, &left)?;
    same("of none", &stores.journal.dossier(&key("none")).await?, &SessionSnapshot::default())
}
