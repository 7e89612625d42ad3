//! The agents behind the test's server: scripts that do as they are told.
//!
//! | text | effect |
//! |---|---|
//! | `say TEXT` | the reply is `You said: TEXT` |
//! | `look` | the tool `look` (reads), then `All done.` |
//! | `act` | the tool `act` (changes), then `All done.` |
//! | `act and fail` | the tool `act`, then `provider_unavailable` |
//! | `both` | `look` and `act` in one message, then `All done.` |
//! | `send` | the tool `send`, which needs approval; then `All done.`, or `Not done.` when denied |
//! | `send TEXT` | as `send`, with this as its argument |
//! | `sends` | two calls of `send` in one message: two approvals |
//! | `slow TEXT` | as `say`, each word waits for the test's [`HandPace`](super::HandPace) |
//! | `wait and look` | some words, each of which waits for the pace, with a call of `look`; then `All done.` |
//! | `cut` | an answer that was cut for its length |
//! | `think` | thinks, which nobody may see, then answers |
//! | `fail retryable` | `provider_unavailable` |
//! | `fail correctable` | `provider_invalid_request` |
//! | `fail terminating` | `provider_model_not_loaded`, which these agents file as terminating |
//! | `fail by key` | `provider_authentication` |
//! | `fail by model` | `provider_invalid_model` |
//! | `fail by limit` | `provider_rate_limit` |
//! | `fail halfway` | some words, then `provider_unavailable` |
//! | `canary` | fails with a diagnostic that holds [`CANARY`] |
//! | anything else | `provider_invalid_request`: no rule fits |
//!
//! The agent `scripted` comes first; `brief` has no tools.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use singletree_agent::{Agent, AgentProfile};
use singletree_env::{Clock, Env, TraceHeaders};
use singletree_harness::{BucketTable, FailureBucket, GraphAgent};
use singletree_llm::{
    BoxFuture, BoxStream, PictureResolver, Provider, Request, ResolvedPicture, Response, ResponseDelta,
    Result, Script, ScriptedProvider, Timer,
};
use singletree_tools::{Effect, Output, Tool, ToolLimits, Toolbox, TypedTool};

/// The name of the first agent.
pub(crate) const SCRIPTED: &str = "scripted";
/// The name of the agent without tools.
pub(crate) const BRIEF: &str = "brief";
/// A configured secret: no output of the server may hold it.
pub(crate) const CANARY: &str = "canary-secret-4711";

/// The effects of the tools, in order, as `TOOL ARGUMENT`; and the requests to the model.
#[derive(Debug, Clone, Default)]
pub(crate) struct World(
    Arc<Mutex<Vec<String>>>,
    Arc<Mutex<Vec<Request>>>,
    Arc<Mutex<Vec<Option<Arc<TraceHeaders>>>>>,
);

impl World {
    pub(crate) fn done(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    fn note_request(&self, request: &Request) {
        // Pictures are those of the chat, which holds the agents, and they this list: nothing of it would be freed.
        self.1.lock().unwrap().push(request.clone().with_pictures(Arc::new(NoPictures)));
        self.2.lock().unwrap().push(TraceHeaders::current());
    }

    /// Returns the traces in which the model was asked since the last call.
    pub(crate) fn take_traces(&self) -> Vec<Option<Arc<TraceHeaders>>> {
        std::mem::take(&mut *self.2.lock().unwrap())
    }

    /// Returns the requests that were sent to the model.
    pub(crate) fn asked(&self) -> Vec<Request> {
        self.1.lock().unwrap().clone()
    }
}

/// The pictures of a request that is kept.
#[derive(Debug)]
struct NoPictures;

impl PictureResolver for NoPictures {
    fn load_picture<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Option<ResolvedPicture>>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    fn request_bytes_max(&self) -> usize {
        0
    }
}

/// The model, which records its requests.
#[derive(Debug)]
struct Model(ScriptedProvider, World);

impl Provider for Model {
    fn model_name(&self) -> &str {
        self.0.model_name()
    }
    fn ready(&self) -> BoxFuture<'_, Result<()>> {
        self.0.ready()
    }
    fn complete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Response>> {
        self.1.note_request(request);
        self.0.complete(request)
    }
    fn can_stream(&self) -> bool {
        self.0.can_stream()
    }
    fn stream_deltas<'a>(
        &'a self,
        request: &'a Request,
    ) -> BoxFuture<'a, Result<BoxStream<'a, Result<ResponseDelta>>>> {
        self.1.note_request(request);
        self.0.stream_deltas(request)
    }
}

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
struct Arguments {
    /// What to do it with.
    what: String,
}

pub(super) fn tool(name: &'static str, effect: Effect, world: &World) -> Arc<dyn Tool> {
    let world = world.clone();
    let function = move |arguments: Arguments, _| {
        let world = world.clone();
        async move {
            world.0.lock().unwrap().push(format!("{name} {}", arguments.what));
            Ok(Output::text(format!("did {}", arguments.what)))
        }
    };
    Arc::new(TypedTool::new(name, "Does something.", effect, function).unwrap())
}

fn rule(user: &str, then: Value) -> Value {
    json!({ "when": { "user": [user] }, "then": then })
}

fn calls(calls: &[(&str, &str)]) -> Value {
    let calls = calls.iter().map(|(tool, what)| json!({ "tool": tool, "arguments": { "what": what } }));
    json!({ "calls": calls.collect::<Value>() })
}

fn failing(category: &str) -> Value {
    json!({ "error": { "category": category, "message": "the script fails" } })
}

/// The rules of the agents' model.
pub(crate) fn script() -> Script {
    let denied = json!({ "tool": "send", "content": "*denied*" });
    let rules = json!([
        rule("say {what}", json!({ "reply": "You said: {what}" })),
        rule("slow {what}", json!({ "reply": "You said: {what}", "delay_ms": 1 })),
        rule("wait and look", json!({ "reply": "One moment please", "delay_ms": 1,
            "calls": [{ "tool": "look", "arguments": { "what": "a" } }] })),
        rule("cut", json!({ "reply": "As far as it", "finish": "length" })),
        rule("think", json!({ "thinking": "Nobody may see this.", "reply": "I have thought." })),
        rule("look", calls(&[("look", "a")])),
        rule("act", calls(&[("act", "a")])),
        rule("act and fail", calls(&[("act", "and fail")])),
        rule("both", calls(&[("look", "a"), ("act", "b")])),
        rule("send", calls(&[("send", "a")])),
        rule("send {what}", calls(&[("send", "{what}")])),
        rule("sends", calls(&[("send", "a"), ("send", "b")])),
        rule("fail retryable", failing("provider_unavailable")),
        rule("fail correctable", failing("provider_invalid_request")),
        rule("fail terminating", failing("provider_model_not_loaded")),
        rule("fail by key", failing("provider_authentication")),
        rule("fail by model", failing("provider_invalid_model")),
        rule("fail by limit", json!({ "error": { "category": "provider_rate_limit",
            "message": "slow down", "retry_after_ms": 7200 } })),
        rule("fail halfway", json!({ "reply": "Half a", "error": { "category": "provider_unavailable" } })),
        rule("canary", json!({ "error": {
            "category": "provider_invalid_request", "message": format!("the key {CANARY} is wrong") } })),
        { "when": { "results": [denied] }, "then": { "reply": "Not done." } },
        { "when": { "results": [{ "tool": "look" }] }, "then": { "reply": "All done." } },
        { "when": { "results": [{ "tool": "act", "content": "did and fail" }] },
          "then": { "error": { "category": "provider_unavailable" } } },
        { "when": { "results": [{ "tool": "act" }] }, "then": { "reply": "All done." } },
        { "when": { "results": [{ "tool": "send" }] }, "then": { "reply": "All done." } },
        { "when": { "results": [{ "tool": "look" }, { "tool": "act" }] }, "then": { "reply": "All done." } },
        { "when": { "results": [{ "tool": "send" }, { "tool": "send" }] }, "then": { "reply": "All done." } },
    ]);
    Script::from_json(&json!({ "model": "scripted-model", "rules": rules }).to_string()).unwrap()
}

/// Makes the agents, whose records have the times of a clock.
pub(crate) fn agents(world: &World, pace: &Arc<dyn Timer>, clock: Arc<dyn Clock>) -> Vec<GraphAgent> {
    let env = Env { clock, ..Env::from_system() };
    let provider = Arc::new(Model(ScriptedProvider::new(script()).with_pace(pace.clone()), world.clone()));
    let tools = vec![
        tool("look", Effect::Read, world),
        tool("act", Effect::SafeWrite, world),
        tool("send", Effect::Destructive, world),
    ];
    let toolbox = Toolbox::new(tools, ToolLimits::standard()).unwrap();
    let buckets =
        BucketTable::default().with_override("provider_model_not_loaded", FailureBucket::SessionTerminating);
    let scripted = Agent::new(SCRIPTED, provider.clone())
        .instructions("Do as you are told.")
        .toolbox(toolbox)
        .env(env.clone());
    let brief = Agent::new(BRIEF, provider).instructions("Be brief.").env(env);
    vec![scripted.build().unwrap().buckets(buckets.clone()), brief.build().unwrap().buckets(buckets)]
}

/// Returns how the agents are listed.
pub(crate) fn listed() -> Vec<AgentProfile> {
    let made = "2026-01-01T00:00:00Z";
    let scripted = AgentProfile {
        description: Some("Does as it is told.".into()),
        role_prompt: Some("Do as you are told.".into()),
        ..AgentProfile::new(SCRIPTED, "Scripted", made)
    };
    vec![scripted, AgentProfile::new(BRIEF, "Brief", made)]
}

/// The name of the agent whose model's thinking people see.
pub(crate) const THINKER: &str = "thinker";

/// Makes the agent whose model's thinking people see; it has to be listed by [`listed_thinking`], too.
pub(crate) fn thinker() -> GraphAgent {
    Agent::new(THINKER, ScriptedProvider::new(script())).show_thinking(true).build().unwrap()
}

/// Returns how the agents are listed with that one.
pub(crate) fn listed_thinking() -> Vec<AgentProfile> {
    let mut thinker = AgentProfile::new(THINKER, "Thinker", "2026-01-01T00:00:00Z");
    thinker.other.insert("showThinking".into(), json!(true));
    let mut listed = listed();
    listed.push(thinker);
    listed
}

/// Makes an agent whose approvals expire.
pub(crate) fn hasty(name: &str, expires_in: Duration) -> GraphAgent {
    let toolbox =
        Toolbox::new(vec![tool("send", Effect::Destructive, &World::default())], ToolLimits::standard());
    let hasty = Agent::new(name, ScriptedProvider::new(script())).toolbox(toolbox.unwrap());
    hasty.approval_expires_in(expires_in).build().unwrap()
}

/// The name of the agent whose model fails once.
pub(crate) const RECOVERING: &str = "recovering";

/// A model whose first call fails.
#[derive(Debug)]
struct FailsOnce {
    failing: ScriptedProvider,
    sound: ScriptedProvider,
    has_failed: AtomicBool,
}

impl FailsOnce {
    fn next(&self) -> &ScriptedProvider {
        if self.has_failed.swap(true, Ordering::SeqCst) { &self.sound } else { &self.failing }
    }
}

impl Provider for FailsOnce {
    fn model_name(&self) -> &str {
        self.sound.model_name()
    }
    fn ready(&self) -> BoxFuture<'_, Result<()>> {
        self.sound.ready()
    }
    fn complete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Response>> {
        self.next().complete(request)
    }
    fn can_stream(&self) -> bool {
        true
    }
    fn stream_deltas<'a>(
        &'a self,
        request: &'a Request,
    ) -> BoxFuture<'a, Result<BoxStream<'a, Result<ResponseDelta>>>> {
        self.next().stream_deltas(request)
    }
}

/// Makes an agent that answers `fail once` with a failure, and then with `Recovered.`.
pub(crate) fn recovering() -> GraphAgent {
    recovering_from("provider_unavailable", json!({ "reply": "Recovered." }), None)
}

/// Makes an agent that answers `fail once` with a failure of this category, and then with this.
pub(crate) fn recovering_from(category: &str, then: Value, pace: Option<&Arc<dyn Timer>>) -> GraphAgent {
    let script = |then: Value| {
        let rules = json!([rule("fail once", then)]);
        let script = json!({ "model": "scripted-model", "rules": rules }).to_string();
        ScriptedProvider::new(Script::from_json(&script).unwrap())
    };
    let failing = script(failing(category));
    let sound = pace.into_iter().fold(script(then), |sound, pace| sound.with_pace(pace.clone()));
    let model = FailsOnce { failing, sound, has_failed: AtomicBool::new(false) };
    Agent::new(RECOVERING, model).build().unwrap()
}
