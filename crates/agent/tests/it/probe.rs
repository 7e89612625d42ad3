//! A tool that counts its effects by idempotency key, and others that look.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::json;
use singletree_env::TraceHeaders;
use singletree_llm::{BoxFuture, ToolDefinition};
use singletree_tools::{CallOrigin, Effect, Invocation, Output, Recovery, Tool};

/// The effects of tools, from all processes.
#[derive(Debug, Clone, Default)]
pub(crate) struct World {
    happened: Arc<Mutex<Vec<Happening>>>,
    called_in: Arc<Mutex<Vec<CallTrace>>>,
    origins: Arc<Mutex<BTreeMap<String, Vec<CallOrigin>>>>,
}

/// A call of a tool or a model, and the trace in which it was made.
pub(crate) type CallTrace = (String, Option<Arc<TraceHeaders>>);

/// One effect: its idempotency key and its description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Happening {
    pub(crate) key: String,
    pub(crate) what: String,
}

impl World {
    /// Notes, and logs, the trace in which a call is made.
    pub(crate) fn note_trace(&self, call: &str) {
        tracing::info!("{call}");
        self.called_in.lock().unwrap().push((call.to_owned(), TraceHeaders::current()));
    }

    /// Returns the traces in which calls were made, in order.
    pub(crate) fn call_traces(&self) -> Vec<CallTrace> {
        self.called_in.lock().unwrap().clone()
    }

    fn add(&self, key: &str, what: &str) {
        self.happened.lock().unwrap().push(Happening { key: key.to_owned(), what: what.to_owned() });
    }

    /// Returns where the calls of each key came from, in order.
    pub(crate) fn origins_by_key(&self) -> BTreeMap<String, Vec<CallOrigin>> {
        self.origins.lock().unwrap().clone()
    }

    fn note_origin(&self, call: &Invocation<'_>) {
        let mut origins = self.origins.lock().unwrap();
        origins.entry(call.key.to_string()).or_default().extend(call.origin.cloned());
    }

    /// Returns the effects, in order.
    pub(crate) fn whats(&self) -> Vec<String> {
        self.happened.lock().unwrap().iter().map(|it| it.what.clone()).collect()
    }

    /// Returns the effects of each key.
    pub(crate) fn by_key(&self) -> BTreeMap<String, Vec<String>> {
        let mut keys = BTreeMap::<String, Vec<String>>::new();
        for it in self.happened.lock().unwrap().iter() {
            keys.entry(it.key.clone()).or_default().push(it.what.clone());
        }
        keys
    }
}

/// A tool that changes the world.
#[derive(Debug)]
pub(crate) struct Probe {
    definition: ToolDefinition,
    effect: Effect,
    recovery: Recovery,
    world: World,
}

impl Probe {
    pub(crate) fn shared(name: &str, effect: Effect, recovery: Recovery, world: &World) -> Arc<dyn Tool> {
        let schema = json!({
            "type": "object",
            "properties": { "what": { "type": "string" } },
            "required": ["what"],
            "additionalProperties": false,
        });
        let definition = ToolDefinition::new(name, "Does something.", schema).unwrap();
        Arc::new(Self { definition, effect, recovery, world: world.clone() })
    }
}

impl Tool for Probe {
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
        (self.definition.name() == "send").then_some("mail")
    }

    fn call<'a>(&'a self, invocation: Invocation<'a>) -> BoxFuture<'a, singletree_tools::Result<Output>> {
        Box::pin(async move {
            let what = invocation.arguments["what"].as_str().unwrap();
            tokio::task::yield_now().await;
            self.world.note_trace(self.definition.name());
            self.world.note_origin(&invocation);
            self.world.add(invocation.key.as_str(), &format!("{} {what}", self.definition.name()));
            tokio::task::yield_now().await;
            Ok(Output::text(format!("did {what}")))
        })
    }
}
