//! The agent of a story: a scripted model, recorded tools, a state that grows with the effects of the tools.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use singletree_agent::{Agent, Artifacts, SnapshotSource};
use singletree_durable::SessionKey;
use singletree_engine::{RuntimeTimer, SystemClock};
use singletree_harness::{BucketTable, FailureBucket, GraphAgent};
use singletree_llm::{
    BoxError, BoxFuture, BoxStream, ChatMessage, Error, ModelRetryPolicy, Provider, ProviderErrorDetail,
    Request, Response, ResponseDelta, Result, RetryBackoff, Script, ScriptedProvider, Timer,
};
use singletree_test_store::TestStore;
use singletree_tools::{Effect, Output, Tool, ToolLimits, Toolbox, TypedTool};

use super::points::Points;
use super::seen::{self, Record, Seen};
use super::teeth::Mutant;

/// The parts of a story's agent.
#[derive(Debug, Clone)]
pub(crate) struct Parts {
    pub(crate) points: Arc<Points>,
    pub(crate) record: Record,
    pub(crate) mutant: Mutant,
    pub(crate) done: Done,
    pub(crate) failures: Arc<AtomicU64>,
}

/// The effects of the tools.
#[derive(Debug, Clone, Default)]
pub(crate) struct Done(Arc<Mutex<Vec<String>>>);

impl SnapshotSource for Done {
    fn read_snapshot<'a>(&'a self, _: &'a SessionKey) -> BoxFuture<'a, std::result::Result<Value, BoxError>> {
        let did = self.0.lock().unwrap().clone();
        Box::pin(async move { Ok(json!({ "did": did })) })
    }
}

/// Makes the agent of a story.
pub(crate) fn agent(parts: &Parts, artifacts: Arc<Artifacts>) -> GraphAgent {
    let model = Model { script: ScriptedProvider::new(script()), parts: parts.clone() };
    let tools = [("look", Effect::Read), ("act", Effect::SafeWrite), ("send", Effect::Destructive)];
    let tools = tools.map(|(name, effect)| tool(name, effect, parts)).to_vec();
    let again = ModelRetryPolicy::new()
        .max_attempts(2)
        .backoff(RetryBackoff::from_function(|attempt| FIRST_PAUSE * (1 << attempt)));
    let buckets =
        BucketTable::default().with_override("provider_model_not_loaded", FailureBucket::SessionTerminating);
    Agent::new("a", model)
        .instructions("Do as you are told.")
        .toolbox(Toolbox::new(tools, ToolLimits::standard()).unwrap())
        .snapshots(Arc::new(parts.done.clone()))
        .artifacts(artifacts)
        .retry(again)
        .max_model_calls(4)
        .build()
        .unwrap()
        .buckets(buckets)
}

/// Makes the same agent for a server: its requests and effects are recorded.
pub(crate) fn alone(record: &Record) -> GraphAgent {
    let (done, failures) = Default::default();
    let (points, record, mutant) = (Points::new(None), record.clone(), Mutant::None);
    let artifacts = Artifacts::new(Arc::new(TestStore::new()), Arc::new(SystemClock));
    agent(&Parts { points, record, mutant, done, failures }, Arc::new(artifacts))
}

/// The rules of the model: the same in conversations, where it sees the results of its calls, and for commands, where
/// it sees the record of effects.
fn script() -> Script {
    let first = |user: &str, then: Value| {
        let command = format!("*\"done\":[],*# Command\n{user}");
        json!({ "when": { "user": [user, command] }, "then": then })
    };
    let calls = |tools: &[(&str, &str)]| -> Value {
        tools.iter().map(|(tool, what)| json!({ "tool": tool, "arguments": { "what": what } })).collect()
    };
    let fails = |category: &str| json!({ "error": { "category": category, "message": "the script fails" } });
    let mut rules = vec![
        first("look", json!({ "calls": calls(&[("look", "a")]), "reply": "To see." })),
        first("act", json!({ "calls": calls(&[("act", "a")]), "reply": "As you asked me before to." })),
        first("both", json!({ "calls": calls(&[("look", "a"), ("act", "b")]) })),
        first("send", json!({ "calls": calls(&[("send", "a")]), "reply": "It has to go out." })),
        first(
            "write the letter",
            json!({ "calls": calls(&[("act", "letter")]), "reply": "First the text." }),
        ),
        first("find whom to write", json!({ "calls": calls(&[("look", "people")]) })),
        first("send the letter", json!({ "calls": calls(&[("send", "letter")]), "reply": "It is written." })),
        first("note the answers", json!({ "calls": calls(&[("act", "answers")]) })),
        first("fail retryable", fails("provider_unavailable")),
        first("fail correctable", fails("provider_invalid_request")),
        first("fail terminating", fails("provider_model_not_loaded")),
        first("think", json!({ "thinking": "Nobody may see this.", "reply": "I have thought." })),
    ];
    for user in ["loop", "*# Command\nloop"] {
        rules.push(json!({ "when": { "user": [user], "results": "any" },
            "then": { "calls": calls(&[("look", "more")]) } }));
    }
    rules.push(
        json!({ "when": { "user": ["*# Command\n{text}"] }, "then": { "reply": "Carried out: {text}" } }),
    );
    rules.push(
        json!({ "when": { "user": ["{text}"], "results": "any" }, "then": { "reply": "Answered: {text}" } }),
    );
    Script::from_json(&json!({ "model": "scripted", "rules": rules }).to_string()).unwrap()
}

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
struct Arguments {
    what: String,
}

fn tool(name: &'static str, effect: Effect, parts: &Parts) -> Arc<dyn Tool> {
    let parts = parts.clone();
    let function = move |arguments: Arguments, _| {
        let parts = parts.clone();
        async move {
            parts.points.pass();
            parts.points.live().await;
            let deed = format!("{name} {}", arguments.what);
            parts.record.note(Seen::Deed(deed.clone()));
            parts.done.0.lock().unwrap().push(deed);
            Ok(Output::text(format!("did {}", arguments.what)))
        }
    };
    Arc::new(TypedTool::new(name, "Does something.", effect, function).unwrap())
}

/// The first pause between two calls of the model; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// A timer that notes the pauses between two calls of the model, and lets no time pass for them. Everything else waits.
#[derive(Debug)]
pub(crate) struct NotedPauses(pub(crate) Record);

impl Timer for NotedPauses {
    fn sleep_for(&self, length: Duration) -> BoxFuture<'_, ()> {
        if ![FIRST_PAUSE, FIRST_PAUSE * 2].contains(&length) {
            return RuntimeTimer.sleep_for(length);
        }
        self.0.note(Seen::Deed(format!("pause {length:?}")));
        Box::pin(async {})
    }
}

/// The scripted model, whose requests are noted. A call with `flaky` in it fails the first time.
#[derive(Debug)]
struct Model {
    script: ScriptedProvider,
    parts: Parts,
}

impl Model {
    async fn asked(&self, request: &Request) -> Result<Request> {
        self.parts.points.pass();
        self.parts.points.live().await;
        let mut request = request.clone();
        if let Some(said) = self.parts.mutant.last_said() {
            let system = request.messages[0].text().into_owned();
            request.messages[0] = Arc::new(ChatMessage::system(format!("{system}\n{said}")));
        }
        self.parts.record.note(seen::request(&request));
        let flaky = request.messages.last().is_some_and(|it| it.text().ends_with("flaky"));
        if flaky && self.parts.failures.fetch_add(1, Ordering::SeqCst) == 0 {
            return Err(Error::RateLimit(ProviderErrorDetail::new("too many")));
        }
        Ok(request)
    }
}

impl Provider for Model {
    fn model_name(&self) -> &str {
        self.script.model_name()
    }

    fn ready(&self) -> BoxFuture<'_, Result<()>> {
        self.script.ready()
    }

    fn complete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Response>> {
        Box::pin(async move {
            let request = self.asked(request).await?;
            self.script.complete(&request).await
        })
    }

    fn can_stream(&self) -> bool {
        true
    }

    fn stream_deltas<'a>(
        &'a self,
        request: &'a Request,
    ) -> BoxFuture<'a, Result<BoxStream<'a, Result<ResponseDelta>>>> {
        Box::pin(async move {
            // The additions of a mutant are recorded; the script answers the original request.
            drop(self.asked(request).await?);
            self.script.stream_deltas(request).await
        })
    }
}
