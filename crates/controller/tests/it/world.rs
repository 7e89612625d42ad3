//! Tools that count their effects by idempotency key, and a model that records its requests.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::json;
use singletree_llm::{
    BoxFuture, BoxStream, Error, Provider, ProviderErrorDetail, Request, Response, ResponseDelta, Result,
    Script, ScriptedProvider, ToolDefinition, canonical_json,
};
use singletree_tools::{Effect, Invocation, Output, Recovery, Tool};
use tokio::sync::Notify;

/// The effects of tools, from all processes.
#[derive(Debug, Clone, Default)]
pub(crate) struct World(Arc<Mutex<Vec<(String, String)>>>);

impl World {
    /// Returns the effects of each idempotency key.
    pub(crate) fn by_key(&self) -> BTreeMap<String, Vec<String>> {
        let mut keys = BTreeMap::<String, Vec<String>>::new();
        for (key, what) in self.0.lock().unwrap().iter() {
            keys.entry(key.clone()).or_default().push(what.clone());
        }
        keys
    }

    /// Returns the effects, in order.
    pub(crate) fn effects(&self) -> Vec<String> {
        self.0.lock().unwrap().iter().map(|(_, what)| what.clone()).collect()
    }
}

/// A tool that changes the world, or reads.
#[derive(Debug)]
pub(crate) struct WorldTool {
    definition: ToolDefinition,
    effect: Effect,
    recovery: Recovery,
    server: Option<&'static str>,
    answer: &'static str,
    world: World,
}

impl WorldTool {
    pub(crate) fn shared(name: &str, effect: Effect, recovery: Recovery, world: &World) -> Arc<dyn Tool> {
        let schema = json!({ "type": "object", "properties": { "to": { "type": "string" } } });
        let definition = ToolDefinition::new(name, "Changes the world.", schema).unwrap();
        Arc::new(Self { definition, effect, recovery, server: None, answer: "done", world: world.clone() })
    }

    /// A tool of an MCP server, which answers with this JSON.
    pub(crate) fn of_server(name: &str, server: &'static str, answer: &'static str) -> Arc<dyn Tool> {
        let definition = ToolDefinition::new(name, "Reads.", json!({ "type": "object" })).unwrap();
        let (effect, recovery) = (Effect::Read, Recovery::Rerun);
        Arc::new(Self { definition, effect, recovery, server: Some(server), answer, world: World::default() })
    }
}

impl Tool for WorldTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn effect(&self) -> Effect {
        self.effect
    }

    fn on_unknown_outcome(&self) -> Recovery {
        self.recovery
    }

    fn server(&self) -> Option<&str> {
        self.server
    }

    fn call<'a>(&'a self, call: Invocation<'a>) -> BoxFuture<'a, singletree_tools::Result<Output>> {
        Box::pin(async move {
            let what = format!("{} {}", self.definition.name(), canonical_json(&json!(call.arguments)));
            self.world.0.lock().unwrap().push((call.key.as_str().to_owned(), what));
            Ok(Output::text(self.answer))
        })
    }
}

/// A model that records its requests.
#[derive(Debug)]
pub(crate) struct RecordingModel {
    model: Box<dyn Provider>,
    asked: Mutex<Vec<Request>>,
    /// How many further requests fail as if the model could not be reached.
    failures: Mutex<u32>,
    /// The request that is not answered until it is let go, by its number from 1.
    held: Mutex<Option<u64>>,
    pub(crate) is_held: Notify,
    pub(crate) let_go: Notify,
}

impl RecordingModel {
    pub(crate) fn over(model: impl Provider + 'static) -> Arc<Self> {
        Arc::new(Self {
            model: Box::new(model),
            asked: Mutex::default(),
            failures: Mutex::default(),
            held: Mutex::default(),
            is_held: Notify::new(),
            let_go: Notify::new(),
        })
    }

    /// A model that proposes these, one after the other, then nothing.
    pub(crate) fn proposing(proposals: &[serde_json::Value]) -> Arc<Self> {
        Self::over(ListModel { proposals: proposals.to_vec(), next: Mutex::default() })
    }

    pub(crate) fn fail_next(&self, failures: u32) {
        *self.failures.lock().unwrap() = failures;
    }

    /// Lets this request wait for `let_go` when it comes, which `is_held` tells.
    pub(crate) fn hold_request(&self, number: u64) {
        *self.held.lock().unwrap() = Some(number);
    }

    /// Returns the messages of each request as bytes.
    pub(crate) fn request_bytes(&self) -> Vec<String> {
        self.asked.lock().unwrap().iter().map(|asked| canonical_json(&json!(asked.messages))).collect()
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.asked.lock().unwrap().clone()
    }
}

impl Provider for RecordingModel {
    fn model_name(&self) -> &str {
        "recorded"
    }

    fn ready(&self) -> BoxFuture<'_, Result<()>> {
        self.model.ready()
    }

    fn complete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Response>> {
        self.asked.lock().unwrap().push(request.clone());
        let mut failures = self.failures.lock().unwrap();
        let fails = *failures > 0;
        *failures = failures.saturating_sub(1);
        let held = *self.held.lock().unwrap() == Some(self.asked.lock().unwrap().len() as u64);
        Box::pin(async move {
            if held {
                self.is_held.notify_one();
                self.let_go.notified().await;
            }
            if fails {
                return Err(Error::Unavailable(ProviderErrorDetail::new("out of reach")));
            }
            self.model.complete(request).await
        })
    }

    fn can_stream(&self) -> bool {
        false
    }

    fn stream_deltas<'a>(
        &'a self,
        request: &'a Request,
    ) -> BoxFuture<'a, Result<BoxStream<'a, Result<ResponseDelta>>>> {
        self.model.stream_deltas(request)
    }
}

/// A model that answers with one call after the other, whatever it is asked.
#[derive(Debug)]
struct ListModel {
    proposals: Vec<serde_json::Value>,
    next: Mutex<usize>,
}

impl Provider for ListModel {
    fn model_name(&self) -> &str {
        "list"
    }

    fn ready(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }

    fn complete<'a>(&'a self, _request: &'a Request) -> BoxFuture<'a, Result<Response>> {
        let mut next = self.next.lock().unwrap();
        let arguments = self.proposals.get(*next).cloned().unwrap_or_else(|| json!({ "action": "no_op" }));
        *next += 1;
        Box::pin(async move { Ok(answer_with(arguments)) })
    }

    fn can_stream(&self) -> bool {
        false
    }

    fn stream_deltas<'a>(
        &'a self,
        _request: &'a Request,
    ) -> BoxFuture<'a, Result<BoxStream<'a, Result<ResponseDelta>>>> {
        Box::pin(async { Err(Error::Unavailable(ProviderErrorDetail::new("it does not stream"))) })
    }
}

/// Returns the response that calls `propose` with these arguments.
pub(crate) fn answer_with(arguments: serde_json::Value) -> Response {
    let arguments = arguments.as_object().cloned().unwrap_or_default();
    let call = singletree_llm::ToolCall::new("c", "propose", arguments);
    let message = singletree_llm::ChatMessage::assistant("").with_tool_calls([call]);
    let usage = singletree_llm::TokenUsage { total_tokens: Some(10), ..Default::default() };
    Response::new(message, singletree_llm::ModelFinishReason::ToolCalls, usage, json!({}))
}

/// A model that must not be asked.
pub(crate) fn silent_model() -> Arc<dyn Provider> {
    Arc::new(ScriptedProvider::new(Script::replies(["Nobody asks this."])))
}
