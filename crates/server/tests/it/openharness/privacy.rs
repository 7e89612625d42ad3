//! The state of a device: where each privacy tier may go, and where it may not (spec: OpenHarness §8).

use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use singletree_agent::Agent;
use singletree_durable::DocumentStore;
use singletree_harness::Chat;
use singletree_llm::{
    BoxFuture, BoxStream, Provider, Request, Response, ResponseDelta, Result, Script, ScriptedProvider,
};
use singletree_server::{Environments, Server};
use singletree_store_sqlite::SqliteStore;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::asking::{PATH, checked, message, with_id};
use crate::support::Client;

/// A model that records the texts that it is shown.
#[derive(Debug)]
struct Watched(ScriptedProvider, Mutex<String>);

impl Watched {
    fn note(&self, request: &Request) {
        let shown = request.messages.iter().map(|it| it.text().into_owned() + "\n");
        self.1.lock().unwrap().extend(shown);
    }

    fn has_seen(&self, canary: &str) -> bool {
        self.1.lock().unwrap().contains(canary)
    }
}

impl Provider for Watched {
    fn model_name(&self) -> &str {
        self.0.model_name()
    }

    fn ready(&self) -> BoxFuture<'_, Result<()>> {
        self.0.ready()
    }

    fn complete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Response>> {
        self.note(request);
        self.0.complete(request)
    }

    fn can_stream(&self) -> bool {
        true
    }

    fn stream_deltas<'a>(
        &'a self,
        request: &'a Request,
    ) -> BoxFuture<'a, Result<BoxStream<'a, Result<ResponseDelta>>>> {
        self.note(request);
        self.0.stream_deltas(request)
    }
}

/// An engine over a file, whose one agent is shown devices' states.
struct Engine {
    client: Client,
    model: Arc<Watched>,
    folder: tempfile::TempDir,
    environments: Arc<Environments>,
    stop: oneshot::Sender<()>,
    served: tokio::task::JoinHandle<()>,
}

impl Engine {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(SqliteStore::open(folder.path().join("s.db")).await.unwrap());
        let rules = json!([{ "when": { "user": ["*"] }, "then": { "reply": "Done." } }]);
        let script = Script::from_json(&json!({ "model": "m", "rules": rules }).to_string()).unwrap();
        let model = Arc::new(Watched(ScriptedProvider::new(script), Mutex::default()));
        let environments = Arc::new(Environments::default());
        let agent = Agent::new("sop", model.clone()).snapshots(environments.clone()).build().unwrap();
        let chat = Chat::builder().agent(agent).open_shared(store.clone(), store.clone()).unwrap();
        let documents: Arc<dyn DocumentStore> = store;
        let server = Server::builder(chat, documents).environments(environments.clone()).build().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = Client::new(listener.local_addr().unwrap());
        let (stop, stopped) = oneshot::channel();
        let served =
            tokio::spawn(async move { server.serve(listener, async { drop(stopped.await) }).await.unwrap() });
        Self { client, model, folder, environments, stop, served }
    }

    async fn ask(&self, message: &Value) -> Value {
        checked(self.client.post(PATH, message).await).json()
    }

    /// Stops, and returns the folder with all that was kept.
    async fn stop(self) -> tempfile::TempDir {
        self.stop.send(()).unwrap();
        self.served.await.unwrap();
        self.folder
    }
}

fn keeps(folder: &Path, canary: &str) -> bool {
    std::fs::read_dir(folder).unwrap().any(|file| {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        bytes.windows(canary.len()).any(|it| it == canary.as_bytes())
    })
}

fn asked(tier: Option<&str>, sop: bool) -> Value {
    let mut state = json!({"screen": "canary-of-the-screen", "deep": {"list": ["canary-of-the-screen"]}});
    if let Some(tier) = tier {
        state["privacy_tier"] = tier.into();
    }
    let mut context =
        json!({"session_id": "s", "user_intent": "canary-of-the-text", "environment_state": state});
    if sop {
        context["task_hint"] = json!({"sop_id": "sop"});
    }
    with_id(message(context), "r")
}

/// One row of the matrix: whether a model is shown a state of a tier. Nothing else ever is.
async fn check(tier: Option<&str>, sop: bool, shown: bool) {
    let engine = Engine::start().await;
    let answer = engine.ask(&asked(tier, sop)).await;
    assert_eq!(answer["response"]["status"], "success", "{answer}");
    let mut wrong = asked(tier, sop);
    wrong["request"]["context"]["shell"] = json!({"shell_kind": 7});
    let mut repeated = asked(tier, sop);
    repeated["request"]["context"]["user_intent"] = "another canary-of-the-text".into();
    let mut told = vec![answer, engine.ask(&wrong).await, engine.ask(&repeated).await];
    assert_eq!(told[2]["response"]["error"]["code"], "idempotency_conflict");
    for path in ["/v1/sessions/s/messages", "/v1/audit"] {
        let answer = engine.client.get(path).await;
        assert_eq!(answer.status, 200, "{path} {}", answer.text());
        told.push(answer.json());
    }
    assert_eq!(engine.model.has_seen("canary-of-the-screen"), shown, "{tier:?}");
    assert!(engine.model.has_seen("canary-of-the-text"));
    // It is gone with the answer.
    let key = singletree_durable::SessionKey::new(
        singletree_durable::TenantId::single(),
        singletree_durable::SessionId::parse("s").unwrap(),
    );
    let source: &dyn singletree_agent::SnapshotSource = engine.environments.as_ref();
    assert_eq!(source.read_snapshot(&key).await.unwrap(), Value::Null);
    let folder = engine.stop().await;
    assert!(!keeps(folder.path(), "canary-of-the-screen"), "{tier:?}");
    assert!(keeps(folder.path(), "canary-of-the-text"), "what is kept can be found");
    let told = serde_json::to_string(&told).unwrap();
    assert!(!told.contains("canary-of-the-screen"), "{told}");
    assert!(told.contains("canary-of-the-text"), "what is told can be found");
}

#[tokio::test]
async fn a_model_is_shown_what_is_public_or_restricted_with_a_command_and_nobody_keeps_it() {
    check(Some("public"), true, true).await;
    check(Some("restricted"), true, true).await;
    check(None, true, true).await;
}

#[tokio::test]
async fn what_is_secret_is_shown_to_nobody_and_kept_nowhere() {
    check(Some("secret"), true, false).await;
}

// docs/narration.md: in a conversation the model sees the agent's prompt and the transcript.
#[tokio::test]
async fn in_a_conversation_no_model_is_shown_any_state() {
    for tier in [Some("public"), Some("restricted"), None, Some("secret")] {
        check(tier, false, false).await;
    }
}
