//! Blobs.

use singletree_durable::{Error, ListItemRow, Result, RowMutation, SessionKey, StoredBlob};

use super::ContractStores;
use super::bench::{StoreFactory, Verdict, ensure_equal};
use super::rows::{
    apply_mutations, create_session, item_placement, json_document, sample_field, sample_item, session_key,
    tenant_named,
};

/// Returns a blob whose content depends on the name.
pub(super) fn sample_blob(name: &str) -> StoredBlob {
    let bytes = vec![0, 255, b'\''].into_iter().chain(name.bytes()).collect();
    StoredBlob { digest: format!("digest-{name}-end"), media_type: "image/png".to_owned(), bytes }
}

async fn keep_blob(stores: &ContractStores, session: &SessionKey, blob: StoredBlob) -> Result<()> {
    stores.documents.keep_blob(session, blob).await
}

/// Checks whether a session uses a blob.
async fn ensure_blob_use(
    stores: &ContractStores,
    session: &SessionKey,
    blob: &StoredBlob,
    expected: bool,
) -> Verdict {
    let found = stores.documents.read_blob(session, &blob.digest).await?;
    // The info that is read without the bytes must match the blob itself.
    let what = format!("{} of {}", blob.digest, session.session);
    let info = stores.documents.read_blob_metadata(session, &blob.digest).await?;
    ensure_equal(&what, &info, &found.as_ref().map(StoredBlob::metadata))?;
    ensure_equal(&what, &found.as_ref(), &expected.then_some(blob))
}

pub(super) async fn check_blob_kept(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s, t) = (bench.open().await?, session_key("s"), session_key("t"));
    let empty = StoredBlob { bytes: Vec::new(), ..sample_blob("empty") };
    keep_blob(&stores, &s, sample_blob("1")).await?;
    keep_blob(&stores, &s, empty.clone()).await?;
    ensure_blob_use(&stores, &s, &sample_blob("1"), true).await?;
    ensure_blob_use(&stores, &s, &empty, true).await?;
    ensure_blob_use(&stores, &t, &sample_blob("1"), false).await?;
    ensure_blob_use(&stores, &s, &sample_blob("2"), false).await
}

pub(super) async fn check_blob_once(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s, t) = (bench.open().await?, session_key("s"), session_key("t"));
    let told_otherwise = StoredBlob { media_type: "text/html".to_owned(), ..sample_blob("1") };
    for session in [&s, &t] {
        for it in [sample_blob("1"), told_otherwise.clone()] {
            keep_blob(&stores, session, it).await?;
        }
        ensure_blob_use(&stores, session, &sample_blob("1"), true).await?;
    }
    Ok(())
}

pub(super) async fn check_blob_bytes(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s, t) = (bench.open().await?, session_key("s"), session_key("t"));
    for name in ["1", "1", "22"] {
        keep_blob(&stores, &s, sample_blob(name)).await?;
    }
    keep_blob(&stores, &t, sample_blob("1")).await?;
    ensure_equal("the bytes", &stores.documents.count_blob_bytes(&s).await?, &9)?;
    ensure_equal("another's bytes", &stores.documents.count_blob_bytes(&t).await?, &4)?;
    ensure_equal("nobody's bytes", &stores.documents.count_blob_bytes(&session_key("u")).await?, &0)
}

pub(super) async fn check_blob_accounts(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s, t) = (bench.open().await?, session_key("s"), session_key("t"));
    let of = async |holder: &str| {
        let account = stores.documents.read_blob_totals(&s.tenant, holder).await?;
        Ok::<_, Error>((account.tenant_bytes, account.holder_bytes))
    };
    ensure_equal("nothing", &of("one").await?, &(0, 0))?;
    for session in [&s, &t] {
        create_session(&stores, session, []).await?;
    }
    for (session, name, holder) in [(&s, "1", "one"), (&t, "1", "two"), (&t, "22", "two"), (&t, "333", "")] {
        let holder = Some(holder).filter(|value| !value.is_empty());
        stores.documents.keep_blob_for(session, sample_blob(name), holder).await?;
    }
    ensure_equal("the first that kept it", &of("one").await?, &(15, 4))?;
    ensure_equal("the second", &of("two").await?, &(15, 5))?;
    let other = stores.documents.read_blob_totals(&tenant_named("tenant-b"), "one").await?;
    ensure_equal("another tenant", &(other.tenant_bytes, other.holder_bytes), &(0, 0))?;
    apply_mutations(&stores, &s, [RowMutation::Delete]).await?;
    ensure_equal("one that is still used", &of("one").await?, &(15, 4))?;
    apply_mutations(&stores, &t, [RowMutation::Delete]).await?;
    ensure_equal("when all are gone", &of("one").await?, &(0, 0))?;
    ensure_equal("when all are gone, the other", &of("two").await?, &(0, 0))
}

pub(super) async fn check_blob_of_session(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s, t, u) = (bench.open().await?, session_key("s"), session_key("t"), session_key("u"));
    for session in [&s, &t] {
        create_session(&stores, session, []).await?;
        keep_blob(&stores, session, sample_blob("1")).await?;
    }
    apply_mutations(&stores, &s, [RowMutation::Delete]).await?;
    ensure_blob_use(&stores, &s, &sample_blob("1"), false).await?;
    ensure_blob_use(&stores, &t, &sample_blob("1"), true).await?;
    // The last use is gone, so a blob with the same digest counts as new.
    apply_mutations(&stores, &t, [RowMutation::Delete]).await?;
    let other = StoredBlob { media_type: "text/html".to_owned(), bytes: vec![7], ..sample_blob("1") };
    keep_blob(&stores, &u, other.clone()).await?;
    ensure_blob_use(&stores, &u, &other, true).await?;
    ensure_blob_use(&stores, &t, &sample_blob("1"), false).await
}

fn inherit_messages(from: &SessionKey, len: u64) -> RowMutation {
    RowMutation::Inherit { from: from.session.clone(), field: "messages".to_owned(), generation: 0, len }
}

pub(super) async fn check_blob_inherited(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    let names = |no: u64, of: &str| {
        let body = json_document(&format!(r#"{{"at":"blob:{}"}}"#, sample_blob(of).digest));
        RowMutation::Item(ListItemRow {
            placement: Some(item_placement("messages", 0, no)),
            body,
            ..sample_item(no)
        })
    };
    create_session(&stores, &s, [names(0, "1"), names(1, "2")]).await?;
    for name in ["1", "2", "value", "said"] {
        keep_blob(&stores, &s, sample_blob(name)).await?;
    }
    let (fork, said, none) = (session_key("fork"), session_key("said"), session_key("none"));
    let value =
        RowMutation::Field(sample_field("summary", &format!(r#""of {}""#, sample_blob("value").digest)));
    create_session(&stores, &fork, [inherit_messages(&s, 1), value]).await?;
    let all = async |session: &SessionKey, expected: [bool; 4]| {
        for (name, expected) in ["1", "2", "value", "said"].into_iter().zip(expected) {
            ensure_blob_use(&stores, session, &sample_blob(name), expected).await?;
        }
        Ok::<(), super::bench::ObservedBreach>(())
    };
    all(&fork, [true, false, true, false]).await?;
    // An item in the batch that creates the session counts too, even if nothing was inherited.
    create_session(&stores, &said, [inherit_messages(&s, 0), names(7, "said")]).await?;
    all(&said, [false, false, false, true]).await?;
    // The parent's name alone, without inherited items, gives no use of its blobs.
    create_session(&stores, &none, [names(0, "1")]).await?;
    all(&none, [false; 4]).await?;
    apply_mutations(&stores, &s, [RowMutation::Delete]).await?;
    all(&fork, [true, false, true, false]).await?;
    // A fork of the fork inherits the use as well.
    create_session(&stores, &session_key("again"), [inherit_messages(&fork, 1)]).await?;
    all(&session_key("again"), [true, false, false, false]).await
}
