//! Blobs.

use singletree_durable::{Error, ListItemRow, Result, RowMutation, SessionKey, StoredBlob};

use super::ContractStores;
use super::bench::{StoreFactory, Verdict, same};
use super::rows::{apply, field, item, json, key, make, place, tenant};

/// Returns a blob whose content depends on the name.
pub(super) fn blob(name: &str) -> StoredBlob {
    let bytes = vec![0, 255, b'\''].into_iter().chain(name.bytes()).collect();
    StoredBlob { digest: format!("digest-{name}-end"), media_type: "image/png".to_owned(), bytes }
}

async fn keep(stores: &ContractStores, session: &SessionKey, blob: StoredBlob) -> Result<()> {
    stores.documents.keep_blob(session, blob).await
}

/// Checks whether a session uses a blob.
async fn uses(stores: &ContractStores, session: &SessionKey, blob: &StoredBlob, expected: bool) -> Verdict {
    let found = stores.documents.blob(session, &blob.digest).await?;
    // The info that is read without the bytes must match the blob itself.
    let what = format!("{} of {}", blob.digest, session.session);
    let info = stores.documents.blob_info(session, &blob.digest).await?;
    same(&what, &info, &found.as_ref().map(StoredBlob::info))?;
    same(&what, &found.as_ref(), &expected.then_some(blob))
}

pub(super) async fn kept(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s, t) = (bench.open().await?, key("s"), key("t"));
    let empty = StoredBlob { bytes: Vec::new(), ..blob("empty") };
    keep(&stores, &s, blob("1")).await?;
    keep(&stores, &s, empty.clone()).await?;
    uses(&stores, &s, &blob("1"), true).await?;
    uses(&stores, &s, &empty, true).await?;
    uses(&stores, &t, &blob("1"), false).await?;
    uses(&stores, &s, &blob("2"), false).await
}

pub(super) async fn once(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s, t) = (bench.open().await?, key("s"), key("t"));
    let told_otherwise = StoredBlob { media_type: "text/html".to_owned(), ..blob("1") };
    for session in [&s, &t] {
        for it in [blob("1"), told_otherwise.clone()] {
            keep(&stores, session, it).await?;
        }
        uses(&stores, session, &blob("1"), true).await?;
    }
    Ok(())
}

pub(super) async fn bytes(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s, t) = (bench.open().await?, key("s"), key("t"));
    for name in ["1", "1", "22"] {
        keep(&stores, &s, blob(name)).await?;
    }
    keep(&stores, &t, blob("1")).await?;
    same("the bytes", &stores.documents.blob_bytes(&s).await?, &9)?;
    same("another's bytes", &stores.documents.blob_bytes(&t).await?, &4)?;
    same("nobody's bytes", &stores.documents.blob_bytes(&key("u")).await?, &0)
}

pub(super) async fn accounts(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s, t) = (bench.open().await?, key("s"), key("t"));
    let of = async |holder: &str| {
        let account = stores.documents.blob_account(&s.tenant, holder).await?;
        Ok::<_, Error>((account.tenant_bytes, account.holder_bytes))
    };
    same("nothing", &of("one").await?, &(0, 0))?;
    for session in [&s, &t] {
        make(&stores, session, []).await?;
    }
    for (session, name, holder) in [(&s, "1", "one"), (&t, "1", "two"), (&t, "22", "two"), (&t, "333", "")] {
        let holder = Some(holder).filter(|value| !value.is_empty());
        stores.documents.keep_blob_for(session, blob(name), holder).await?;
    }
    same("the first that kept it", &of("one").await?, &(15, 4))?;
    same("the second", &of("two").await?, &(15, 5))?;
    let other = stores.documents.blob_account(&tenant("tenant-b"), "one").await?;
    same("another tenant", &(other.tenant_bytes, other.holder_bytes), &(0, 0))?;
    apply(&stores, &s, [RowMutation::Delete]).await?;
    same("one that is still used", &of("one").await?, &(15, 4))?;
    apply(&stores, &t, [RowMutation::Delete]).await?;
    same("when all are gone", &of("one").await?, &(0, 0))?;
    same("when all are gone, the other", &of("two").await?, &(0, 0))
}

pub(super) async fn of_session(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s, t, u) = (bench.open().await?, key("s"), key("t"), key("u"));
    for session in [&s, &t] {
        make(&stores, session, []).await?;
        keep(&stores, session, blob("1")).await?;
    }
    apply(&stores, &s, [RowMutation::Delete]).await?;
    uses(&stores, &s, &blob("1"), false).await?;
    uses(&stores, &t, &blob("1"), true).await?;
    // The last use is gone, so a blob with the same digest counts as new.
    apply(&stores, &t, [RowMutation::Delete]).await?;
    let other = StoredBlob { media_type: "text/html".to_owned(), bytes: vec![7], ..blob("1") };
    keep(&stores, &u, other.clone()).await?;
    uses(&stores, &u, &other, true).await?;
    uses(&stores, &t, &blob("1"), false).await
}

fn inherit(from: &SessionKey, len: u64) -> RowMutation {
    RowMutation::Inherit { from: from.session.clone(), field: "messages".to_owned(), generation: 0, len }
}

pub(super) async fn inherited(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    let names = |no: u64, of: &str| {
        let body = json(&format!(r#"{{"at":"blob:{}"}}"#, blob(of).digest));
        RowMutation::Item(ListItemRow { placement: Some(place("messages", 0, no)), body, ..item(no) })
    };
    make(&stores, &s, [names(0, "1"), names(1, "2")]).await?;
    for name in ["1", "2", "value", "said"] {
        keep(&stores, &s, blob(name)).await?;
    }
    let (fork, said, none) = (key("fork"), key("said"), key("none"));
    let value = RowMutation::Field(field("summary", &format!(r#""of {}""#, blob("value").digest)));
    make(&stores, &fork, [inherit(&s, 1), value]).await?;
    let all = async |session: &SessionKey, expected: [bool; 4]| {
        for (name, expected) in ["1", "2", "value", "said"].into_iter().zip(expected) {
            uses(&stores, session, &blob(name), expected).await?;
        }
        Ok::<(), super::bench::ObservedBreach>(())
    };
    all(&fork, [true, false, true, false]).await?;
    // An item in the batch that creates the session counts too, even if nothing was inherited.
    make(&stores, &said, [inherit(&s, 0), names(7, "said")]).await?;
    all(&said, [false, false, false, true]).await?;
    // The parent's name alone, without inherited items, gives no use of its blobs.
    make(&stores, &none, [names(0, "1")]).await?;
    all(&none, [false; 4]).await?;
    apply(&stores, &s, [RowMutation::Delete]).await?;
    all(&fork, [true, false, true, false]).await?;
    // A fork of the fork inherits the use as well.
    make(&stores, &key("again"), [inherit(&fork, 1)]).await?;
    all(&key("again"), [true, false, false, false]).await
}
