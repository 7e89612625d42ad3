//! Retention: removal of turns and events.

use singletree_durable::{
    InvocationId, ListItemRow, Result, RowMutation, SessionKey, StoredTurnStatus, TurnRow, TurnRowQuery,
    WaitRow, WaitRowQuery,
};

use super::ContractStores;
use super::bench::{StoreFactory, Verdict, refused, same};
use super::rows::{
    apply, consumed, ended, event, events, invocation, item, items, key, make, place, record, turn, turn_at,
    wait,
};

fn of(name: &str, row: TurnRow) -> TurnRow {
    TurnRow { invocation: invocation(name), ..row }
}

async fn waits(
    stores: &ContractStores,
    s: &SessionKey,
    invocation: InvocationId,
) -> Result<Vec<(SessionKey, WaitRow)>> {
    stores.journal.waits(&WaitRowQuery::Invocation(s.tenant.clone(), invocation)).await
}

pub(super) async fn turn_forgotten(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    let keyed = TurnRow { key: Some("key".to_owned()), digest: Some("d".to_owned()), ..ended(1) };
    let kept = of("other", ended(3));
    make(
        &stores,
        &s,
        [RowMutation::Turn(keyed), RowMutation::Turn(kept.clone()), RowMutation::Wait(consumed(1))],
    )
    .await?;
    let others = WaitRow { turn: 3, invocation: invocation("other"), ..consumed(2) };
    let placed = ListItemRow { placement: Some(place("messages", 0, 0)), ..item(2) };
    let of_other = ListItemRow { turn: 3, ..item(3) };
    let rows = [item(1), placed.clone(), of_other.clone()].map(RowMutation::Item);
    apply(&stores, &s, [&rows[..], &[RowMutation::Wait(others.clone())]].concat()).await?;
    apply(&stores, &s, [RowMutation::Record(record(1, "a", "1")), RowMutation::Record(record(3, "a", "2"))])
        .await?;
    apply(&stores, &s, [RowMutation::Event(event(1))]).await?;
    apply(&stores, &s, [RowMutation::DropTurn { turn: 1 }, RowMutation::DropTurn { turn: 9 }]).await?;
    let journal = &stores.journal;
    same("the turn", &turn_at(&stores, &s, 1).await?, &vec![])?;
    same("the key", &journal.turns(&s, &TurnRowQuery::Key("key".to_owned())).await?, &vec![])?;
    same("its invocation", &journal.session_of(&s.tenant, &invocation("inv")).await?, &None)?;
    same("its waits", &waits(&stores, &s, invocation("inv")).await?, &vec![])?;
    same("its records", &journal.records(&s, 1).await?, &vec![])?;
    same("the items", &items(&stores, &s).await?, &vec![placed, of_other])?;
    same("another turn", &turn_at(&stores, &s, 3).await?, &vec![kept])?;
    same("another's waits", &waits(&stores, &s, invocation("other")).await?, &vec![(s.clone(), others)])?;
    same("another's records", &journal.records(&s, 3).await?, &vec![record(3, "a", "2")])?;
    same("the events", &events(&stores, &s).await?, &vec![event(1)])?;
    // The numbers of removed rows can be used again.
    Ok(apply(&stores, &s, [RowMutation::Item(item(1)), RowMutation::DropTurn { turn: 1 }]).await?)
}

pub(super) async fn turn_in_use(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    let suspended = TurnRow { status: StoredTurnStatus::Suspended, ..ended(1) };
    make(&stores, &s, [RowMutation::Turn(suspended), RowMutation::Wait(wait(1))]).await?;
    let drop_it = |turn| apply(&stores, &s, [RowMutation::DropTurn { turn }]);
    refused("a turn whose wait is pending", &drop_it(1).await)?;
    let resumes = TurnRow { ordinal: 1, ..turn(2) };
    apply(&stores, &s, [RowMutation::Wait(consumed(1)), RowMutation::Turn(resumes.clone())]).await?;
    for turn in [1, 2] {
        refused("a turn of an invocation that runs", &drop_it(turn).await)?;
    }
    let over = TurnRow { status: StoredTurnStatus::Completed, ..resumes };
    let twice =
        apply(&stores, &s, [RowMutation::DropTurn { turn: 1 }, RowMutation::Turn(over.clone())]).await;
    refused("a turn of an invocation that ends after it in the batch", &twice)?;
    Ok(apply(&stores, &s, [RowMutation::Turn(over), RowMutation::DropTurn { turn: 1 }]).await?)
}

pub(super) async fn events_dropped(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    make(&stores, &s, [1, 2, 3, 4].map(|item| RowMutation::Event(event(item)))).await?;
    apply(&stores, &s, [RowMutation::DropEvents { before: 3 }]).await?;
    same("the events", &events(&stores, &s).await?, &vec![event(3), event(4)])?;
    apply(&stores, &s, [RowMutation::DropEvents { before: 2 }]).await?;
    same("the events", &events(&stores, &s).await?, &vec![event(3), event(4)])?;
    apply(&stores, &s, [RowMutation::DropEvents { before: 100 }]).await?;
    same("the events", &events(&stores, &s).await?, &vec![])
}
