//! Retention: removal of turns and events.

use singletree_durable::{
    InvocationId, ListItemRow, Result, RowMutation, SessionKey, StoredTurnStatus, TurnRow, TurnRowQuery,
    WaitRow, WaitRowQuery,
};

use super::ContractStores;
use super::bench::{StoreFactory, Verdict, ensure_equal, ensure_refused};
use super::rows::{
    apply_mutations, create_session, invocation_named, item_placement, read_all_events, read_all_items,
    read_turn_by_number, sample_consumed_wait, sample_ended_turn, sample_event, sample_item, sample_record,
    sample_turn, sample_wait, session_key,
};

fn turn_of_invocation(name: &str, row: TurnRow) -> TurnRow {
    TurnRow { invocation: invocation_named(name), ..row }
}

async fn read_invocation_waits(
    stores: &ContractStores,
    s: &SessionKey,
    invocation: InvocationId,
) -> Result<Vec<(SessionKey, WaitRow)>> {
    stores.journal.read_waits(&WaitRowQuery::Invocation(s.tenant.clone(), invocation)).await
}

pub(super) async fn check_turn_forgotten(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    let keyed = TurnRow { key: Some("key".to_owned()), digest: Some("d".to_owned()), ..sample_ended_turn(1) };
    let kept = turn_of_invocation("other", sample_ended_turn(3));
    create_session(
        &stores,
        &s,
        [
            RowMutation::Turn(keyed),
            RowMutation::Turn(kept.clone()),
            RowMutation::Wait(sample_consumed_wait(1)),
        ],
    )
    .await?;
    let others = WaitRow { turn: 3, invocation: invocation_named("other"), ..sample_consumed_wait(2) };
    let placed = ListItemRow { placement: Some(item_placement("messages", 0, 0)), ..sample_item(2) };
    let of_other = ListItemRow { turn: 3, ..sample_item(3) };
    let rows = [sample_item(1), placed.clone(), of_other.clone()].map(RowMutation::Item);
    apply_mutations(&stores, &s, [&rows[..], &[RowMutation::Wait(others.clone())]].concat()).await?;
    apply_mutations(
        &stores,
        &s,
        [RowMutation::Record(sample_record(1, "a", "1")), RowMutation::Record(sample_record(3, "a", "2"))],
    )
    .await?;
    apply_mutations(&stores, &s, [RowMutation::Event(sample_event(1))]).await?;
    apply_mutations(&stores, &s, [RowMutation::DropTurn { turn: 1 }, RowMutation::DropTurn { turn: 9 }])
        .await?;
    let journal = &stores.journal;
    ensure_equal("the turn", &read_turn_by_number(&stores, &s, 1).await?, &vec![])?;
    ensure_equal("the key", &journal.read_turns(&s, &TurnRowQuery::Key("key".to_owned())).await?, &vec![])?;
    ensure_equal(
        "its invocation",
        &journal.find_session_of_invocation(&s.tenant, &invocation_named("inv")).await?,
        &None,
    )?;
    ensure_equal("its waits", &read_invocation_waits(&stores, &s, invocation_named("inv")).await?, &vec![])?;
    ensure_equal("its records", &journal.read_turn_records(&s, 1).await?, &vec![])?;
    ensure_equal("the items", &read_all_items(&stores, &s).await?, &vec![placed, of_other])?;
    ensure_equal("another turn", &read_turn_by_number(&stores, &s, 3).await?, &vec![kept])?;
    ensure_equal(
        "another's waits",
        &read_invocation_waits(&stores, &s, invocation_named("other")).await?,
        &vec![(s.clone(), others)],
    )?;
    ensure_equal(
        "another's records",
        &journal.read_turn_records(&s, 3).await?,
        &vec![sample_record(3, "a", "2")],
    )?;
    ensure_equal("the events", &read_all_events(&stores, &s).await?, &vec![sample_event(1)])?;
    // The numbers of removed rows can be used again.
    Ok(apply_mutations(&stores, &s, [RowMutation::Item(sample_item(1)), RowMutation::DropTurn { turn: 1 }])
        .await?)
}

pub(super) async fn check_turn_in_use(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    let suspended = TurnRow { status: StoredTurnStatus::Suspended, ..sample_ended_turn(1) };
    create_session(&stores, &s, [RowMutation::Turn(suspended), RowMutation::Wait(sample_wait(1))]).await?;
    let drop_it = |turn| apply_mutations(&stores, &s, [RowMutation::DropTurn { turn }]);
    ensure_refused("a turn whose wait is pending", &drop_it(1).await)?;
    let resumes = TurnRow { ordinal: 1, ..sample_turn(2) };
    apply_mutations(
        &stores,
        &s,
        [RowMutation::Wait(sample_consumed_wait(1)), RowMutation::Turn(resumes.clone())],
    )
    .await?;
    for turn in [1, 2] {
        ensure_refused("a turn of an invocation that runs", &drop_it(turn).await)?;
    }
    let over = TurnRow { status: StoredTurnStatus::Completed, ..resumes };
    let twice =
        apply_mutations(&stores, &s, [RowMutation::DropTurn { turn: 1 }, RowMutation::Turn(over.clone())])
            .await;
    ensure_refused("a turn of an invocation that ends after it in the batch", &twice)?;
    Ok(apply_mutations(&stores, &s, [RowMutation::Turn(over), RowMutation::DropTurn { turn: 1 }]).await?)
}

pub(super) async fn check_events_dropped(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    create_session(&stores, &s, [1, 2, 3, 4].map(|item| RowMutation::Event(sample_event(item)))).await?;
    apply_mutations(&stores, &s, [RowMutation::DropEvents { before: 3 }]).await?;
    ensure_equal(
        "the events",
        &read_all_events(&stores, &s).await?,
        &vec![sample_event(3), sample_event(4)],
    )?;
    apply_mutations(&stores, &s, [RowMutation::DropEvents { before: 2 }]).await?;
    ensure_equal(
        "the events",
        &read_all_events(&stores, &s).await?,
        &vec![sample_event(3), sample_event(4)],
    )?;
    apply_mutations(&stores, &s, [RowMutation::DropEvents { before: 100 }]).await?;
    ensure_equal("the events", &read_all_events(&stores, &s).await?, &vec![])
}
