//! Pictures that a tool returns: kept with the session, named by the tool message, shown to the model.

use std::any::Any;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use singletree_agent::Agent;
use singletree_durable::{
    DocumentStore, Journal, JournalMaintenance, MemoryStore, SessionId, SessionKey, TenantBlobTotals,
    TenantId,
};
use singletree_harness::{
    Admission, BlobLimits, Blobs, Chat, ForkOptions, GraphAgent, QuotaExceeded, SendOptions, TurnPermit,
};
use singletree_llm::{
    BoxFuture, ChatMessage, Role, Script, ScriptedProvider, ToolDefinition, tool_picture_line,
};
use singletree_store_testing::{FailedWriteEffect, FaultInjectingStore};
use singletree_tools::{Effect, Invocation, Output, Recovery, Tool};

use crate::pictures::Wire;
use crate::probe::{Probe, World};
use crate::rig::{SESSION, calls, decide, send, suspended, toolbox};

/// A tool that takes another picture with each call; asked for a digest, it returns a text that looks like one of its
/// pictures.
#[derive(Debug)]
struct Camera {
    definition: ToolDefinition,
    effect: Effect,
    taken: Arc<AtomicU8>,
}

fn picture(number: u8) -> Vec<u8> {
    [b"GIF89a\x01\0\x01\0", [number; 5].as_slice()].concat()
}

const FIRST: &str = "R0lGODlhAQABAAEBAQEB";

impl Tool for Camera {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn effect(&self) -> Effect {
        self.effect
    }

    fn on_unknown_outcome(&self) -> Recovery {
        Recovery::Report
    }

    fn call<'a>(&'a self, invocation: Invocation<'a>) -> BoxFuture<'a, singletree_tools::Result<Output>> {
        let what = invocation.arguments["what"].as_str().unwrap_or_default();
        let output = if what.len() == 64 {
            Output::text(tool_picture_line("image/png", 5, what))
        } else {
            let number = self.taken.fetch_add(1, Ordering::SeqCst) + 1;
            Output::text("A view.").with_picture("image/gif", picture(number))
        };
        Box::pin(async move { Ok(output) })
    }
}

/// The data that a test checks: the number of pictures taken, and the requests written to the wire.
#[derive(Debug, Default, Clone)]
struct Seen {
    taken: Arc<AtomicU8>,
    sent: Arc<Mutex<Vec<String>>>,
}

impl Seen {
    fn last_sent(&self) -> String {
        self.sent.lock().unwrap().last().cloned().unwrap_or_default()
    }
}

fn photographer(seen: &Seen, effect: Effect, what: &str) -> GraphAgent {
    let schema = json!({ "type": "object", "properties": { "what": { "type": "string" } } });
    let definition = ToolDefinition::new("photo", "Takes a picture.", schema).unwrap();
    let camera = Arc::new(Camera { definition, effect, taken: seen.taken.clone() });
    let act = Probe::shared("act", Effect::SafeWrite, Recovery::Report, &World::default());
    let script = json!({ "model": "test", "rules": [
        { "when": { "user": ["show"] }, "then": { "calls": calls(&[("photo", what), ("act", "b")]) } },
        { "when": { "results": "any" }, "then": { "reply": "All done." } },
        { "when": { "user": ["again"] }, "then": { "reply": "Still there." } },
    ] });
    let model = ScriptedProvider::new(Script::from_json(&script.to_string()).unwrap());
    let wire = Wire { model, sent: seen.sent.clone() };
    Agent::new("a", wire).toolbox(toolbox(vec![camera, act])).build().unwrap()
}

fn open<S: Journal + JournalMaintenance + DocumentStore + Clone + 'static>(
    agent: GraphAgent,
    store: S,
) -> Chat {
    Chat::builder().agent(agent).blobs(Blobs::new(store.clone())).open(store).unwrap()
}

/// Returns the text of the first tool message.
async fn result(chat: &Chat) -> String {
    let history = chat.session(SESSION).history(0..100).await.unwrap();
    let found = history.iter().find(|entry| entry.message.role == Role::Tool);
    found.map(|entry| entry.message.text().into_owned()).unwrap_or_default()
}

fn digest(result: &str) -> Option<&str> {
    result.split_once("blob:").map(|(_, rest)| rest.trim_end_matches(']'))
}

async fn category(chat: &Chat, session: &str, digest: &str) -> String {
    chat.session(session)
        .blob(digest)
        .await
        .map_or_else(|error| error.category().to_owned(), |_| "kept".to_owned())
}

// spec: llm-provider §3: a tool message is text. D12, D25
#[tokio::test]
async fn the_model_is_shown_the_picture_and_the_tool_message_names_it() {
    let seen = Seen::default();
    let chat = open(photographer(&seen, Effect::Read, "a"), MemoryStore::new());
    send(&chat, "show").await;
    let text = result(&chat).await;
    let digest = digest(&text).unwrap().to_owned();
    assert_eq!(text, format!("A view.\n[image: image/gif, 15 bytes, blob:{digest}]"));
    assert_eq!(chat.session(SESSION).blob(&digest).await.unwrap().bytes, picture(1));
    let sent = seen.last_sent();
    assert!(sent.starts_with("Image 1 of the result of the tool call ") && sent.ends_with(FIRST), "{sent}");
    send(&chat, "again").await;
    assert_eq!(seen.last_sent(), sent);
    for entry in chat.session(SESSION).history(0..100).await.unwrap() {
        assert!(!entry.message.text().contains(FIRST) && entry.message.content.blocks().is_empty());
    }
    // A fork names it, too; with the last session that does, it goes.
    chat.session(SESSION).fork(ForkOptions::new().session("fork")).await.unwrap();
    chat.session(SESSION).delete(None).await.unwrap();
    assert_eq!(category(&chat, SESSION, &digest).await, "chat_blob_unknown");
    assert_eq!(category(&chat, "fork", &digest).await, "kept");
    chat.session("fork").delete(None).await.unwrap();
    assert_eq!(category(&chat, "fork", &digest).await, "chat_blob_unknown");
}

async fn go_on(chat: &Chat) {
    if let Ok(turns) = chat.sweep().await {
        for turn in turns {
            drop(turn.outcome().await);
        }
    }
    let options = SendOptions::new().key("k");
    if let Ok(turn) = chat.session(SESSION).submit(ChatMessage::user("show"), options).await {
        drop(turn.outcome().await);
    }
}

// INV-2, INV-8, D7
#[tokio::test]
async fn a_recorded_result_keeps_its_picture_wherever_the_process_dies() {
    let mut names = 0;
    for land in [FailedWriteEffect::Before, FailedWriteEffect::After] {
        for n in 1.. {
            let (store, seen) = (MemoryStore::new(), Seen::default());
            let dying = FaultInjectingStore::new(Arc::new(store.clone()), n, land);
            let first = open(photographer(&seen, Effect::SafeWrite, "a"), dying.clone());
            tokio::time::timeout(Duration::from_secs(20), go_on(&first)).await.unwrap();
            first.shutdown(Duration::ZERO).await;
            if !dying.fired() {
                break;
            }
            let store = store.reopen();
            let second = open(photographer(&seen, Effect::SafeWrite, "a"), store.clone());
            go_on(&second).await;
            let (text, at) = (result(&second).await, format!("dies at {n}, {land:?}"));
            assert!(seen.taken.load(Ordering::SeqCst) <= 1, "{at}");
            let key = SessionKey::new(TenantId::single(), SessionId::parse(SESSION).unwrap());
            assert!(store.count_blob_bytes(&key).await.unwrap() <= 15, "{at}");
            match digest(&text) {
                Some(digest) => {
                    names += 1;
                    assert_eq!(second.session(SESSION).blob(digest).await.unwrap().bytes, picture(1), "{at}");
                    assert!(seen.last_sent().ends_with(FIRST), "{at}: {}", seen.last_sent());
                }
                None => assert!(
                    text.contains("\"status\":\"unknown\"") || text.contains("not shown"),
                    "{at}: {text}"
                ),
            }
        }
    }
    assert!(names > 4, "{names}");
}

// INV-14
#[tokio::test]
async fn a_text_names_no_picture_of_another_session() {
    let (store, seen) = (MemoryStore::new(), Seen::default());
    let chat = open(photographer(&seen, Effect::Read, "a"), store.clone());
    let foreign = chat.session("other").keep_blob(picture(1), None).await.unwrap();
    let chat = open(photographer(&seen, Effect::Read, &foreign.digest), store);
    send(&chat, "show").await;
    assert!(result(&chat).await.contains(&foreign.digest));
    let sent = seen.last_sent();
    assert!(sent.ends_with("[There was a picture here; it is not kept any more.]"), "{sent}");
}

/// Admits everything but blobs.
#[derive(Debug)]
struct NoBlobs;

impl Admission for NoBlobs {
    fn admit_turn(&self) -> Result<TurnPermit, QuotaExceeded> {
        Ok(Box::new(()) as Box<dyn Any + Send + Sync>)
    }

    fn admit_session(&self) -> Result<(), QuotaExceeded> {
        Ok(())
    }

    fn account_holder(&self) -> &'static str {
        "key"
    }

    fn admit_blob(&self, _bytes: u64, _kept: TenantBlobTotals) -> Result<(), QuotaExceeded> {
        let (quota, scope, unit, retry_after) = ("blob_bytes", "key", "bytes", Duration::from_secs(1));
        Err(QuotaExceeded { quota, scope, limit: 0, unit, retry_after })
    }
}

// INV-12
#[tokio::test]
async fn a_picture_that_cannot_be_kept_stays_a_line() {
    let line = |why: &str| format!("A view.\n[image: image/gif, 15 bytes, not shown{why}]");
    let seen = Seen::default();
    let agent = || photographer(&seen, Effect::Read, "a");
    let bare = Chat::builder().agent(agent()).open(MemoryStore::new()).unwrap();
    send(&bare, "show").await;
    assert_eq!(result(&bare).await, line(""));
    for (limits, why) in [
        (BlobLimits { bytes: 14, ..BlobLimits::default() }, ": chat_blob_too_large"),
        (BlobLimits { session_bytes: 14, ..BlobLimits::default() }, ": chat_blobs_full"),
        (BlobLimits { types: vec!["image/png".into()], ..BlobLimits::default() }, ": chat_blob_refused"),
    ] {
        let store = MemoryStore::new();
        let blobs = Blobs::new(store.clone()).limits(limits);
        let chat = Chat::builder().agent(agent()).blobs(blobs).open(store).unwrap();
        send(&chat, "show").await;
        assert_eq!(result(&chat).await, line(why));
    }
    let quota = line(": server_quota_exceeded");
    let chat = open(agent(), MemoryStore::new()).admitting(Arc::new(NoBlobs));
    send(&chat, "show").await;
    assert_eq!(result(&chat).await, quota);
    // A turn that an approval resumes is the approver's.
    let approved = photographer(&seen, Effect::Destructive, "a");
    let chat = open(approved, MemoryStore::new()).admitting(Arc::new(NoBlobs));
    suspended(&send(&chat, "show").await);
    decide(&chat, json!({ "approved": true })).await;
    assert_eq!(result(&chat).await, quota);
}
