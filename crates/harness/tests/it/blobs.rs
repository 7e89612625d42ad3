//! Pictures that messages name: kept once, seen by nodes, gone with the last session that uses them.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use singletree_durable::{StoredBlob, TenantId};
use singletree_engine::{Ctx, Graph, NodeError};
use singletree_harness::{
    BlobLimits, BlobReference, Blobs, Chat, ChatBuilder, ForkOptions, MessageAddress, MessageId, SendOptions,
    TurnContext,
};
use singletree_llm::{ChatMessage, ContentBlock, ImageContentSource, MessageContent, Request};
use singletree_store_sqlite::SqliteStore;
use singletree_test_store::TestStore;

use crate::bench::{Log, Talk, TokioClock, category, chain, chat_of, history, plain, says};

pub(crate) const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR one";
const GIF: &[u8] = b"GIF89a\x01\0\x01\0 another";

/// A graph that describes the last message as a model would be shown it.
pub(crate) fn looking() -> Graph<Talk> {
    let builder = Graph::builder().node("look", |cx: Ctx<Talk>| async move {
        let turn = TurnContext::of(&cx);
        let pictures =
            turn.as_deref().and_then(TurnContext::pictures).ok_or_else(|| NodeError::new("no pictures"))?;
        let request = Request::new(cx.state().messages.iter().collect()).with_pictures(pictures.clone());
        let shown = request.inline_pictures().await?;
        let blocks = shown.messages.last().map(|it| it.content.blocks().to_vec()).unwrap_or_default();
        Ok(says(&blocks.iter().map(seen).collect::<Vec<_>>().join(", ")))
    });
    chain(builder, &["look"])
}

fn seen(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Image { source: ImageContentSource::Inline { base64_data }, media_type, .. } => {
            let bytes = STANDARD.decode(base64_data).unwrap();
            format!("{} of {} bytes", media_type.as_deref().unwrap_or("?"), bytes.len())
        }
        other => other.text().unwrap_or("something else").to_owned(),
    }
}

pub(crate) fn keeping(store: &TestStore) -> ChatBuilder {
    chat_of(&looking()).blobs(Blobs::new(store.clone()))
}

pub(crate) fn showing(pictures: &[&BlobReference]) -> ChatMessage {
    let blocks = pictures.iter().map(|it| it.image_block());
    ChatMessage::user(MessageContent::Blocks(blocks.chain([ContentBlock::from_text("look")]).collect()))
}

fn naming(url: &str) -> ChatMessage {
    let source = ImageContentSource::Url { url: url.to_owned() };
    ChatMessage::user(vec![ContentBlock::Image { source, media_type: None, detail: None }])
}

async fn known(chat: &Chat, session: &str, blob: &BlobReference) -> bool {
    match chat.session(session).blob(&blob.digest).await {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.category(), "chat_blob_unknown");
            false
        }
    }
}

#[tokio::test]
async fn a_node_sees_the_bytes_and_the_history_holds_the_name() {
    let store = TestStore::new();
    let chat = keeping(&store).open(store).unwrap();
    let png = chat.session("s").keep_blob(PNG.to_vec(), Some("image/jpeg")).await.unwrap();
    assert_eq!((png.media_type.as_str(), png.bytes, png.digest.len()), ("image/png", PNG.len() as u64, 64));
    let gif = chat.session("s").keep_blob(GIF.to_vec(), None).await.unwrap();
    chat.session("s").send(showing(&[&png, &gif])).await;
    let said = format!("a:image/png of {} bytes, image/gif of {} bytes, look", PNG.len(), GIF.len());
    assert_eq!(history(&chat, "s").await[1], said);
    let kept = chat.session("s").history(0..1).await.unwrap();
    assert_eq!(*kept[0].message, showing(&[&png, &gif]));
    let blob = StoredBlob { digest: png.digest.clone(), media_type: "image/png".into(), bytes: PNG.to_vec() };
    assert_eq!(chat.session("s").blob(&png.digest).await.unwrap(), blob);
    assert_eq!(chat.session("s").blob_info(&png.digest).await.unwrap(), png);
}

// spec: harness-chat §3.1: refused before anything of it is stored
#[tokio::test]
async fn a_message_that_names_what_the_session_has_not_is_refused() {
    let store = TestStore::new();
    let chat = keeping(&store).open(store.clone()).unwrap();
    let png = chat.session("s").keep_blob(PNG.to_vec(), None).await.unwrap();
    let other = format!("blob:{}", "0".repeat(64));
    for (session, message) in [
        ("other", showing(&[&png])),
        ("s", naming(&other)),
        ("s", naming("blob:")),
        ("s", naming("blob:https://example.com/1")),
        ("s", naming(&png.reference_name().to_uppercase().replace("BLOB", "blob"))),
    ] {
        let refused =
            chat.session(session).submit(message, SendOptions::new()).await.unwrap_err().into_errored_turn();
        assert_eq!((refused.error_category.as_str(), refused.retry_safe), ("chat_blob_unknown", false));
        assert_eq!((refused.turn.clone(), refused.recorded), (None, true));
        let steered = chat
            .session(session)
            .steer(naming(&other), SendOptions::new())
            .await
            .unwrap_err()
            .into_errored_turn();
        assert_eq!(steered.error_category, "chat_blob_unknown");
        assert_eq!(chat.session(session).info().await.unwrap_err().category(), "chat_session_unknown");
    }
    // Where nothing is kept, nothing is there.
    let bare = chat_of(&plain(&Log::default())).open(TestStore::new()).unwrap();
    assert_eq!(category(&bare.session("s").send(showing(&[&png])).await), "chat_blob_unknown");
    let refused = bare.session("s").keep_blob(PNG.to_vec(), None).await.unwrap_err();
    assert_eq!(refused.category(), "chat_blob_refused");
    // An address of the web is passed on unchanged (spec: llm-provider §3.1.3).
    assert_eq!(category(&bare.session("s").send(naming("https://example.com/x.png")).await), "completed");
}

// INV-12
#[tokio::test]
async fn what_is_kept_has_bounds() {
    let store = TestStore::new();
    let types = ["image/png", "image/gif", "text/plain"].map(str::to_owned).to_vec();
    let limits = BlobLimits { bytes: 30, session_bytes: 40, types, ..BlobLimits::default() };
    let blobs = Blobs::new(store.clone()).limits(limits);
    let chat = chat_of(&looking()).blobs(blobs).open(store).unwrap();
    let keep = async |session: &'static str, bytes: &[u8], declared: Option<&'static str>| {
        chat.session(session).keep_blob(bytes.to_vec(), declared).await.map_err(|it| it.category().to_owned())
    };
    assert_eq!(keep("s", &[PNG, PNG].concat(), None).await, Err("chat_blob_too_large".into()));
    assert_eq!(keep("s", b"\xff\xd8\xff\xe0", None).await, Err("chat_blob_refused".into()));
    let first = keep("s", PNG, None).await.unwrap();
    assert_eq!(keep("s", PNG, None).await.unwrap(), first, "the same again takes no room");
    let text = keep("s", b"plain", Some("text/plain")).await.unwrap();
    assert_eq!(keep("s", GIF, None).await, Err("chat_blobs_full".into()));
    keep("t", GIF, None).await.unwrap();
    // Text is kept, and no picture.
    assert_eq!(category(&chat.session("s").send(naming(&text.reference_name())).await), "chat_blob_refused");
}

// D12, D25
#[tokio::test]
async fn a_blob_goes_with_the_last_session_that_uses_it() {
    let store = TestStore::new();
    let chat = keeping(&store).open(store).unwrap();
    let png = chat.session("s").keep_blob(PNG.to_vec(), None).await.unwrap();
    let late = chat.session("s").keep_blob(GIF.to_vec(), None).await.unwrap();
    let turn = chat.session("s").submit(showing(&[&png]), SendOptions::new()).await.unwrap();
    turn.outcome().await;
    chat.session("s").fork(ForkOptions::new().session("fork")).await.unwrap();
    // A message that was not said in the source, and the first of all.
    let first = MessageAddress::from(MessageId { turn: turn.id().clone(), k: 0 });
    let edited =
        chat.session("s").edit_into("edit", MessageAddress::from(0), showing(&[&late])).await.unwrap();
    edited.outcome().await;
    assert_eq!(history(&chat, "edit").await[1], format!("a:image/gif of {} bytes, look", GIF.len()));
    chat.session("s").regenerate_into("again", Some(first)).await.unwrap().outcome().await;
    let unknown = chat
        .session("s")
        .edit_into("no", MessageAddress::from(0), naming("blob:x"))
        .await
        .unwrap_err()
        .into_errored_turn();
    assert_eq!(unknown.error_category, "chat_blob_unknown");

    chat.session("s").delete(None).await.unwrap();
    assert!(!known(&chat, "s", &png).await);
    for (fork, named) in [("fork", &png), ("edit", &late), ("again", &png)] {
        assert!(known(&chat, fork, named).await, "{fork}");
        let sent = chat.session(fork).send(showing(&[named])).await;
        assert_eq!(category(&sent), "completed", "{fork}");
        chat.session(fork).delete(None).await.unwrap();
        assert!(!known(&chat, fork, named).await, "{fork}");
    }
    // The new session of the same name does not have the blobs of the old one.
    assert_eq!(category(&chat.session("s").send(showing(&[&png])).await), "chat_blob_unknown");
}

// INV-14
#[tokio::test]
async fn what_one_tenant_keeps_is_not_there_for_another() {
    let store = TestStore::new();
    let house = keeping(&store).open(store).unwrap();
    let [a, b] = ["a", "b"].map(|it| house.of(TenantId::parse(it).unwrap()));
    let png = a.session("s").keep_blob(PNG.to_vec(), None).await.unwrap();
    assert!(known(&a, "s", &png).await && !known(&b, "s", &png).await);
    assert_eq!(category(&b.session("s").send(showing(&[&png])).await), "chat_blob_unknown");
    let same = b.session("s").keep_blob(PNG.to_vec(), None).await.unwrap();
    a.session("s").delete(None).await.unwrap();
    assert!(!known(&a, "s", &png).await && known(&b, "s", &same).await);
}

// INV-12
#[tokio::test(start_paused = true)]
async fn what_nobody_claims_is_removed_after_a_day() {
    let store = TestStore::new();
    let chat = keeping(&store).clock(TokioClock::new()).open(store).unwrap();
    let keep = async |session: &str| chat.session(session).keep_blob(PNG.to_vec(), None).await.unwrap();
    let (png, claimed) = (keep("never").await, keep("claimed").await);
    keep("deleted").await;
    chat.session("deleted").delete(None).await.unwrap();
    assert!(!known(&chat, "deleted", &png).await, "a session need not have begun to be deleted");
    chat.session("claimed").send(showing(&[&claimed])).await;
    chat.sweep().await.unwrap();
    tokio::time::sleep(Duration::from_secs(23 * 3600)).await;
    keep("late").await;
    assert!(known(&chat, "never", &png).await);
    tokio::time::sleep(Duration::from_secs(2 * 3600)).await;
    assert!(!known(&chat, "never", &png).await);
    assert!(known(&chat, "claimed", &png).await && known(&chat, "late", &png).await);
    tokio::time::sleep(Duration::from_secs(24 * 3600)).await;
    assert!(!known(&chat, "late", &png).await);
    assert_eq!(chat.remove_unclaimed().await.unwrap(), 0);
    assert!(chat.shutdown(Duration::from_secs(1)).await, "its task does not hold a shutdown up");
}

/// Tells whether a picture's bytes are anywhere in the files of a database.
fn is_in_file(folder: &std::path::Path, bytes: &[u8]) -> bool {
    let files = std::fs::read_dir(folder).unwrap().map(|it| std::fs::read(it.unwrap().path()).unwrap());
    files.into_iter().any(|it| it.windows(bytes.len()).any(|it| it == bytes))
}

// D12, D25
#[tokio::test]
async fn the_bytes_are_not_in_the_file_any_more_when_the_last_session_is_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("chat.db")).await.unwrap();
    let chat = chat_of(&looking()).blobs(Blobs::new(store.clone())).open(store).unwrap();
    // Longer than a page, so that it has pages of its own.
    let picture = [PNG, &b"a needle in a haystack ".repeat(400)].concat();
    let needle = &picture[1000..1500];
    let png = chat.session("s").keep_blob(picture.clone(), None).await.unwrap();
    chat.session("other").keep_blob(picture.clone(), None).await.unwrap();
    chat.session("s").send(showing(&[&png])).await;
    chat.session("s").fork(ForkOptions::new().session("fork")).await.unwrap();
    assert!(is_in_file(folder.path(), needle), "the test finds what is there");

    chat.session("s").delete(None).await.unwrap();
    assert!(!known(&chat, "s", &png).await && known(&chat, "fork", &png).await);
    assert_eq!(category(&chat.session("fork").send(showing(&[&png])).await), "completed");
    let said = format!("a:image/png of {} bytes, look", picture.len());
    assert_eq!(history(&chat, "fork").await[3], said);
    chat.session("fork").delete(None).await.unwrap();
    assert!(known(&chat, "other", &png).await && is_in_file(folder.path(), needle));
    // Nothing was ever said in it.
    chat.session("other").delete(None).await.unwrap();
    assert!(!known(&chat, "other", &png).await);
    assert!(!is_in_file(folder.path(), needle));
}
