//! Inheriting from another session (D12).

use singletree_durable::{
    BatchPrecondition, JsonDocument, ListItemRow, Result, RowMutation, SessionHead, SessionKey,
};

use super::ContractStores;
use super::bench::{StoreFactory, Verdict, ensure_equal, ensure_refused};
use super::rows::{
    apply_mutations, apply_mutations_if, create_session, item_placement, read_all_items, sample_head,
    sample_item, session_key, session_key_in_tenant, time_at_millis,
};

/// Returns items 1 to 3 as places 0 to 2 of a list, and one that has no place, out of order.
fn sample_list_items() -> Vec<ListItemRow> {
    let placed = |no: u64| ListItemRow {
        turn: no,
        placement: Some(item_placement("messages", 2, no - 1)),
        ..sample_item(no)
    };
    let bare = ListItemRow { side: None, body: JsonDocument::from_text(r#""é\n""#), ..placed(2) };
    vec![placed(3), placed(1), bare, sample_item(7)]
}

fn inherit_messages(from: &SessionKey, len: u64) -> RowMutation {
    RowMutation::Inherit { from: from.session.clone(), field: "messages".to_owned(), generation: 2, len }
}

async fn create_parent(stores: &ContractStores) -> Result<SessionKey> {
    let parent = session_key("parent");
    let puts: Vec<RowMutation> = sample_list_items().into_iter().map(RowMutation::Item).collect();
    create_session(stores, &parent, puts).await?;
    Ok(parent)
}

pub(super) async fn check_inherit_copies(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    let parent = create_parent(&stores).await?;
    let mut expected = sample_list_items();
    expected.retain(|it| it.no < 3);
    expected.sort_by_key(|it| it.no);
    let (fork, again) = (session_key("fork"), session_key("again"));
    create_session(&stores, &fork, [inherit_messages(&parent, 2)]).await?;
    ensure_equal("the inherited items", &read_all_items(&stores, &fork).await?, &expected)?;
    // Inherited items belong to the fork, and another session can inherit them from it.
    apply_mutations(&stores, &parent, [RowMutation::Delete]).await?;
    create_session(&stores, &again, [inherit_messages(&fork, 2)]).await?;
    for of in [&fork, &again] {
        ensure_equal("the inherited items, later", &read_all_items(&stores, of).await?, &expected)?;
    }
    Ok(())
}

pub(super) async fn check_inherit_whole(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    let parent = create_parent(&stores).await?;
    let fork = session_key("fork");
    ensure_refused(
        "more than is there",
        &create_session(&stores, &fork, [inherit_messages(&parent, 4)]).await,
    )?;
    ensure_refused(
        "an absent session",
        &create_session(&stores, &fork, [inherit_messages(&session_key("none"), 1)]).await,
    )?;
    let of_other =
        create_session(&stores, &session_key_in_tenant("tenant-b", "fork"), [inherit_messages(&parent, 1)])
            .await;
    ensure_refused("another tenant's session", &of_other)?;
    ensure_refused(
        "the session itself",
        &apply_mutations(&stores, &parent, [inherit_messages(&parent, 1)]).await,
    )
}

pub(super) async fn check_require_source(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    let (parent, fork) = (session_key("parent"), session_key("fork"));
    let wants = |version, millis| BatchPrecondition::Source {
        session: parent.session.clone(),
        created_at: time_at_millis(millis),
        version,
    };
    let probe = |require| apply_mutations_if(&stores, &fork, require, [RowMutation::Head(sample_head(1))]);
    ensure_refused("an absent source", &probe(wants(0, 1_000)).await)?;
    create_session(&stores, &parent, [RowMutation::Head(SessionHead { version: 3, ..sample_head(3) })])
        .await?;
    for version in [2, 4] {
        ensure_refused("a source at another version", &probe(wants(version, 1_000)).await)?;
    }
    ensure_refused("a source made at another time", &probe(wants(3, 1_001)).await)?;
    let other = session_key_in_tenant("tenant-b", "fork");
    let of_other =
        apply_mutations_if(&stores, &other, wants(3, 1_000), [RowMutation::Head(sample_head(1))]).await;
    ensure_refused("a source of another tenant", &of_other)?;
    Ok(probe(wants(3, 1_000)).await?)
}
