//! The dossier of a session agrees with the single reads.

use super::bench::{Bench, Verdict, same};
use super::rows::{apply, counters, ended, field, head, key, mail, make, position, record, turn, wait};
use crate::{Dossier, Paused, Put, SessionRow, TurnRow, TurnStatus};

pub(super) async fn agrees(bench: &dyn Bench) -> Verdict {
    let stores = bench.open().await?;
    let suspended = TurnRow { status: TurnStatus::Suspended, ..ended(1) };
    let (waiting, gone) = (key("waiting"), key("gone"));
    let rows = [
        Put::Turn(suspended.clone()),
        Put::Turn(turn(2)),
        Put::Wait(wait(1)),
        Put::Position(position("inv", "1")),
        Put::Record(record(1, "call", "1")),
        Put::Mail(mail("early", "1")),
        Put::Field(field("a", "1")),
    ];
    make(&stores, &waiting, [Put::Counters(counters(3, 0, 0, 2))]).await?;
    for row in rows {
        apply(&stores, &waiting, [row]).await?;
    }
    make(&stores, &gone, [Put::Counters(counters(3, 4, 5, 6))]).await?;
    apply(&stores, &gone, [Put::Delete]).await?;
    let numbers = counters(3, 0, 0, 2);
    let fields = vec![field("a", "1")];
    let session = SessionRow { key: waiting.clone(), head: head(1), counters: numbers, fields };
    let paused =
        Paused { turn: suspended, position: position("inv", "1"), records: vec![record(1, "call", "1")] };
    let expected = Dossier {
        session: Some(session),
        numbers,
        pending: vec![wait(1)],
        mail: vec![mail("early", "1")],
        open: vec![turn(2)],
        paused: Some(paused),
    };
    same("of a session that waits", &stores.journal.dossier(&waiting).await?, &expected)?;
    let left = Dossier { numbers: counters(3, 4, 5, 6), ..Dossier::default() };
    same("of a deleted session", &stores.journal.dossier(&gone).await?, &left)?;
    same("of none", &stores.journal.dossier(&key("none")).await?, &Dossier::default())
}
