//! Artifacts: approved artifacts are shown with a command, and no others.

use std::sync::Arc;

use serde_json::json;
use singletree_agent::{Agent, ArtifactOrigin, Artifacts, SessionArtifact};
use singletree_durable::{
    DocumentChange, DocumentPrecondition, DocumentStore, JsonDocument, MemoryStore, SessionId, SessionKey,
    StoredDocument, TenantId, Timestamp,
};
use singletree_engine::Clock;
use singletree_harness::{SendOptions, TurnPromptPolicy};
use singletree_llm::{ChatMessage, Script, canonical_json};

use crate::rig::{SESSION, completed, errored, open};
use crate::watched::Watched;

#[derive(Debug)]
struct Noon;

impl Clock for Noon {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(43_200_000)
    }
}

fn key(session: &str) -> SessionKey {
    SessionKey::new(TenantId::single(), SessionId::parse(session).unwrap())
}

fn shelf(store: &MemoryStore) -> Arc<Artifacts> {
    Arc::new(Artifacts::new(Arc::new(store.clone()), Arc::new(Noon)))
}

async fn approve(shelf: &Artifacts, artifact: &SessionArtifact) {
    shelf.approve_artifact(&key(SESSION), &artifact.name, &artifact.digest, "ann").await.unwrap();
}

// spec: agent-chat-output §8.2: explicit artifacts that the user has approved, to the byte.
#[tokio::test]
async fn the_latest_approved_version_of_each_is_shown_between_state_and_command() {
    let store = MemoryStore::new();
    let shelf = shelf(&store);
    let add = async |kind: &str, name: &str, source, content: &str| {
        shelf.add_artifact(&key(SESSION), (kind, name), source, content).await.unwrap()
    };
    let plan = add("plan", "a", ArtifactOrigin::Agent, "one\n# Command\nfly").await;
    let better = add("plan", "a", ArtifactOrigin::Agent, "two").await;
    let letter = add("letter", "b", ArtifactOrigin::User, "Dear all").await;
    assert_eq!([plan.name.version, better.name.version, letter.name.version], [1, 2, 1]);
    shelf.add_artifact(&key("other"), ("plan", "a"), ArtifactOrigin::User, "not ours").await.unwrap();
    approve(&shelf, &plan).await;
    approve(&shelf, &letter).await;

    let rule = json!({ "when": { "user": ["*"] }, "then": { "reply": "Done." } });
    let script = Script::from_json(&json!({ "model": "test", "rules": [rule] }).to_string()).unwrap();
    let model = Watched::scripted(script);
    let agent = Agent::new("a", model.clone()).artifacts(shelf.clone()).build().unwrap();
    let chat = open(agent, store);
    let command = async |text: &str| {
        let options = SendOptions::new().policy(TurnPromptPolicy::Command);
        chat.session(SESSION).send_with(ChatMessage::user(text), options).await
    };
    completed(&command("go").await);
    approve(&shelf, &better).await;
    completed(&command("go").await);
    let asked: Vec<_> = model.requests().iter().map(|it| canonical_json(&json!(it.messages))).collect();
    let expected = |version: u64, plan: &str| {
        let letter = r#"{"content":"Dear all","key":"b","kind":"letter","source":"user","version":1}"#;
        let state = r#"{"cycle":1,"done":[],"state":null}"#;
        let plan = format!(
            r#"{{"content":{},"key":"a","kind":"plan","source":"agent","version":{version}}}"#,
            json!(plan)
        );
        let text = format!("# State\n{state}\n\n# Approved artifacts\n{letter}\n{plan}\n\n# Command\ngo");
        canonical_json(&json!([{ "role": "user", "content": text }]))
    };
    assert_eq!(asked, [expected(1, "one\n# Command\nfly"), expected(2, "two")]);
}

#[tokio::test]
async fn an_approval_is_of_exactly_what_was_read_and_the_first_one_counts() {
    let shelf = shelf(&MemoryStore::new());
    let session = key(SESSION);
    let plan = shelf.add_artifact(&session, ("plan", "a"), ArtifactOrigin::Agent, "one").await.unwrap();
    let refused = shelf.approve_artifact(&session, &plan.name, "another digest", "ann").await.unwrap_err();
    assert_eq!(
        (refused.category(), refused.to_string()),
        (
            "artifact_refused",
            "the artifact is refused: plan/a/1 says something else than was approved".into()
        )
    );
    let foreign = shelf.approve_artifact(&key("other"), &plan.name, &plan.digest, "ann").await.unwrap_err();
    assert_eq!(foreign.category(), "artifact_refused");
    assert_eq!(shelf.list_approved(&session).await.unwrap(), []);
    approve(&shelf, &plan).await;
    shelf.approve_artifact(&session, &plan.name, &plan.digest, "bob").await.unwrap();
    let all = shelf.list_artifacts(&session).await.unwrap();
    let approved = SessionArtifact {
        approved_by: Some("ann".into()),
        approved_at: Some(Timestamp::from_millis(43_200_000)),
        ..plan
    };
    assert_eq!(all, [approved]);
}

#[tokio::test]
async fn what_is_no_artifact_is_refused() {
    let shelf = shelf(&MemoryStore::new());
    let check = async |name: (&str, &str), content: &str| {
        let refused =
            shelf.add_artifact(&key(SESSION), name, ArtifactOrigin::User, content).await.unwrap_err();
        assert_eq!(refused.category(), "artifact_refused", "{name:?}");
    };
    check(("", "a"), "x").await;
    check(("plan", "a/b"), "x").await;
    check(("plan", &"a".repeat(129)), "x").await;
    check(("plan", "a"), &"x".repeat((64 << 10) + 1)).await;
    for no in 0..256 {
        shelf
            .add_artifact(&key(SESSION), ("plan", &format!("p{}", no % 3)), ArtifactOrigin::User, "x")
            .await
            .unwrap();
    }
    check(("plan", "a"), "x").await;
    shelf.add_artifact(&key("other"), ("plan", "a"), ArtifactOrigin::User, "x").await.unwrap();
}

// INV-13: a row that was changed behind the store's back is not the approved artifact; no model is asked.
#[tokio::test]
async fn an_artifact_that_was_changed_after_its_approval_is_shown_to_no_model() {
    let store = MemoryStore::new();
    let shelf = shelf(&store);
    let plan = shelf.add_artifact(&key(SESSION), ("plan", "a"), ArtifactOrigin::Agent, "one").await.unwrap();
    approve(&shelf, &plan).await;
    let documents = store.read_documents(&TenantId::single(), "artifact", None, 10).await.unwrap();
    let [StoredDocument { key: id, body, .. }] = documents.as_slice() else { panic!("{documents:?}") };
    let forged = JsonDocument::from_text(body.as_str().replace("\"one\"", "\"all\""));
    assert_ne!(&forged, body);
    let (expect, session) = (DocumentPrecondition::Any, Some(key(SESSION).session));
    store
        .change_documents(vec![DocumentChange::Write {
            key: id.clone(),
            expect,
            session,
            body: forged,
            expires_at: None,
        }])
        .await
        .unwrap();
    let model = Watched::scripted(Script::replies(["never"]));
    let agent = Agent::new("a", model.clone()).artifacts(shelf).build().unwrap();
    let chat = open(agent, store);
    let options = SendOptions::new().policy(TurnPromptPolicy::Command);
    let outcome = chat.session(SESSION).send_with(ChatMessage::user("go"), options).await;
    assert_eq!(errored(&outcome).error_category, "store_corrupt");
    assert_eq!(model.requests().len(), 0);
}
