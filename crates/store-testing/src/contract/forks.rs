//! Inheriting from another session (D12).

use singletree_durable::{
    BatchPrecondition, JsonDocument, ListItemRow, Result, RowMutation, SessionHead, SessionKey,
};

use super::ContractStores;
use super::bench::{StoreFactory, Verdict, refused, same};
use super::rows::{apply, apply_if, at, head, item, items, key, key_of, make, place};

/// Returns items 1 to 3 as places 0 to 2 of a list, and one that has no place, out of order.
fn listed() -> Vec<ListItemRow> {
    let placed =
        |no: u64| ListItemRow { turn: no, placement: Some(place("messages", 2, no - 1)), ..item(no) };
    let bare = ListItemRow { side: None, body: JsonDocument::from_text(r#""é\n""#), ..placed(2) };
    vec![placed(3), placed(1), bare, item(7)]
}

fn inherit(from: &SessionKey, len: u64) -> RowMutation {
    RowMutation::Inherit { from: from.session.clone(), field: "messages".to_owned(), generation: 2, len }
}

async fn source(stores: &ContractStores) -> Result<SessionKey> {
    let parent = key("parent");
    let puts: Vec<RowMutation> = listed().into_iter().map(RowMutation::Item).collect();
    make(stores, &parent, puts).await?;
    Ok(parent)
}

pub(super) async fn inherit_copies(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    let parent = source(&stores).await?;
    let mut expected = listed();
    expected.retain(|it| it.no < 3);
    expected.sort_by_key(|it| it.no);
    let (fork, again) = (key("fork"), key("again"));
    make(&stores, &fork, [inherit(&parent, 2)]).await?;
    same("the inherited items", &items(&stores, &fork).await?, &expected)?;
    // Inherited items belong to the fork, and another session can inherit them from it.
    apply(&stores, &parent, [RowMutation::Delete]).await?;
    make(&stores, &again, [inherit(&fork, 2)]).await?;
    for of in [&fork, &again] {
        same("the inherited items, later", &items(&stores, of).await?, &expected)?;
    }
    Ok(())
}

pub(super) async fn inherit_whole(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    let parent = source(&stores).await?;
    let fork = key("fork");
    refused("more than is there", &make(&stores, &fork, [inherit(&parent, 4)]).await)?;
    refused("an absent session", &make(&stores, &fork, [inherit(&key("none"), 1)]).await)?;
    let of_other = make(&stores, &key_of("tenant-b", "fork"), [inherit(&parent, 1)]).await;
    refused("another tenant's session", &of_other)?;
    refused("the session itself", &apply(&stores, &parent, [inherit(&parent, 1)]).await)
}

pub(super) async fn require_source(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    let (parent, fork) = (key("parent"), key("fork"));
    let wants = |version, millis| BatchPrecondition::Source {
        session: parent.session.clone(),
        created_at: at(millis),
        version,
    };
    let probe = |require| apply_if(&stores, &fork, require, [RowMutation::Head(head(1))]);
    refused("an absent source", &probe(wants(0, 1_000)).await)?;
    make(&stores, &parent, [RowMutation::Head(SessionHead { version: 3, ..head(3) })]).await?;
    for version in [2, 4] {
        refused("a source at another version", &probe(wants(version, 1_000)).await)?;
    }
    refused("a source made at another time", &probe(wants(3, 1_001)).await)?;
    let other = key_of("tenant-b", "fork");
    let of_other = apply_if(&stores, &other, wants(3, 1_000), [RowMutation::Head(head(1))]).await;
    refused("a source of another tenant", &of_other)?;
    Ok(probe(wants(3, 1_000)).await?)
}
