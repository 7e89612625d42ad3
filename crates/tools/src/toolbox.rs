//! The tools of an agent, and how they are called.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::{FutureExt, StreamExt};
use singletree_env::{RuntimeTimer, Timer};
use singletree_llm::{ToolCall, ToolDefinition};

use crate::error::{Error, Result};
use crate::key::IdempotencyKey;
use crate::limits::ToolLimits;
use crate::origin::CallOrigin;
use crate::output::Output;
use crate::tool::{Invocation, Tool};
use crate::toolset::{Offer, UnavailableToolset};

/// How many calls run at once, unless a toolbox is told otherwise.
const CONCURRENCY: usize = 8;

/// An ordered set of tools that never changes. Cheap to clone.
///
/// Tools that come and go stand in a [`LiveToolbox`](crate::LiveToolbox), which gives out one of these at a time.
#[derive(Debug, Clone)]
pub struct Toolbox {
    tools: Arc<BTreeMap<String, Arc<dyn Tool>>>,
    definitions: Arc<[ToolDefinition]>,
    limits: ToolLimits,
    concurrency: usize,
    missing: Arc<[UnavailableToolset]>,
}

impl Toolbox {
    /// Makes a toolbox. The model is told of the tools in this order.
    ///
    /// # Errors
    ///
    /// `tool_duplicate` when two tools have the same name.
    pub fn new(tools: impl IntoIterator<Item = Arc<dyn Tool>>, limits: ToolLimits) -> Result<Self> {
        let empty = Self {
            tools: Arc::default(),
            definitions: Arc::default(),
            limits,
            concurrency: CONCURRENCY,
            missing: Arc::default(),
        };
        empty.with_tools(tools)
    }

    /// Makes a toolbox of this one's tools and further ones, in this order.
    ///
    /// # Errors
    ///
    /// `tool_duplicate` when two tools have the same name.
    pub fn with_tools(&self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Result<Self> {
        let mut by_name = BTreeMap::clone(&self.tools);
        let mut definitions = self.definitions.to_vec();
        for tool in tools {
            let definition = tool.definition().clone();
            if by_name.insert(definition.name().to_owned(), tool).is_some() {
                return Err(Error::Duplicate { name: definition.name().to_owned() });
            }
            definitions.push(definition);
        }
        Ok(Self { tools: Arc::new(by_name), definitions: definitions.into(), ..self.clone() })
    }

    /// Sets how many calls of one message run at once; 8 otherwise. Nothing is 1.
    #[must_use]
    pub fn with_concurrency(mut self, calls: usize) -> Self {
        self.concurrency = calls.max(1);
        self
    }

    /// Makes a toolbox of this one's tools and those of sets. Tools that a set cannot offer are recorded as missing.
    pub(crate) fn with_toolsets(&self, sets: impl IntoIterator<Item = (String, Offer)>) -> Self {
        let mut tools = BTreeMap::clone(&self.tools);
        let mut definitions = self.definitions.to_vec();
        let mut missing = Vec::new();
        for (set, offer) in sets {
            let offered = offer.unwrap_or_else(|error| {
                missing.push(UnavailableToolset { set: set.clone(), error: Arc::new(error) });
                Arc::default()
            });
            for tool in offered.iter() {
                let definition = tool.definition();
                let name = definition.name().to_owned();
                if tools.contains_key(&name) {
                    let error = Arc::new(Error::Duplicate { name });
                    missing.push(UnavailableToolset { set: set.clone(), error });
                    continue;
                }
                definitions.push(definition.clone());
                tools.insert(name, Arc::clone(tool));
            }
        }
        let (tools, definitions) = (Arc::new(tools), definitions.into());
        Self { tools, definitions, missing: missing.into(), ..self.clone() }
    }

    /// Returns the sets and tools that could not be offered, and why: sets out of reach, tools whose names were
    /// taken.
    #[must_use]
    pub fn unavailable_toolsets(&self) -> &[UnavailableToolset] {
        &self.missing
    }

    /// Runs work for several calls, a bounded number at once, and returns the results in the order of the calls.
    ///
    /// # Cancellation
    ///
    /// Dropping the future gives all of it up.
    pub async fn run_in_order<R>(&self, calls: impl IntoIterator<Item = impl Future<Output = R>>) -> Vec<R> {
        futures_util::stream::iter(calls).buffered(self.concurrency).collect().await
    }

    /// Returns the definitions of the tools for the model, ready for a request.
    #[must_use]
    pub fn definitions(&self) -> Arc<[ToolDefinition]> {
        Arc::clone(&self.definitions)
    }

    /// Returns the tool of this name.
    #[must_use]
    pub fn find_tool(&self, name: &str) -> Option<&dyn Tool> {
        self.tools.get(name).map(AsRef::as_ref)
    }

    /// Checks a call without running it.
    ///
    /// # Errors
    ///
    /// `tool_unknown`; `tool_arguments_invalid`, naming the path.
    pub fn check_call(&self, call: &ToolCall) -> Result<()> {
        let tool = self.require_tool(&call.name)?;
        let arguments = call.arguments.as_ref().ok_or(Error::Unreadable)?;
        let schema = tool.definition().schema();
        schema.check_arguments(arguments).map_err(|mismatch| Error::Mismatched { mismatch })
    }

    /// Runs a call. Whatever goes wrong is an output that the model can read: an unknown tool,
    /// arguments that do not fit, a tool that fails, takes too long or panics.
    ///
    /// # Cancellation
    ///
    /// Dropping the future gives the call up; see [`Tool`].
    pub async fn call(&self, call: &ToolCall, key: &IdempotencyKey) -> Output {
        self.call_with_origin(call, key, None, &RuntimeTimer).await
    }

    /// Runs a call as [`call`](Self::call) does, in a conversation if there is one. The timer ends a call that takes
    /// longer than its limit; [`call`](Self::call) takes that of the tokio runtime.
    ///
    /// # Cancellation
    ///
    /// Dropping the future gives the call up; see [`Tool`].
    pub async fn call_with_origin(
        &self,
        call: &ToolCall,
        key: &IdempotencyKey,
        origin: Option<&CallOrigin>,
        timer: &dyn Timer,
    ) -> Output {
        match self.run_call(call, key, origin, timer).await {
            Ok(output) => output,
            Err(error) => self.failure_output(call, &error),
        }
        .with_shown_pictures()
        .truncate_text(self.limits_of_tool(&call.name).output_bytes)
    }

    fn limits_of_tool(&self, name: &str) -> ToolLimits {
        self.find_tool(name).and_then(Tool::limits).unwrap_or(self.limits)
    }

    async fn run_call(
        &self,
        call: &ToolCall,
        key: &IdempotencyKey,
        origin: Option<&CallOrigin>,
        timer: &dyn Timer,
    ) -> Result<Output> {
        self.check_call(call)?;
        let tool = self.require_tool(&call.name)?;
        let arguments = call.arguments.as_ref().ok_or(Error::Unreadable)?;
        let invocation = Invocation { key, call_id: &call.id, arguments, origin };
        // The call itself is made inside, so that a panic before the first await is caught too.
        let guarded = AssertUnwindSafe(async { tool.call(invocation).await }).catch_unwind();
        let limit = self.limits_of_tool(&call.name).time;
        match timer.run_with_timeout(limit, guarded).await {
            Ok(Ok(result)) => result,
            Ok(Err(_panic)) => Err(Error::Panicked),
            Err(_elapsed) => Err(Error::Timeout { limit }),
        }
    }

    fn failure_output(&self, call: &ToolCall, error: &Error) -> Output {
        let mut output = Output::from_error(error);
        let changes = self.find_tool(&call.name).is_some_and(|it| it.effect().has_side_effects());
        if changes && error.is_outcome_unknown() {
            output.text.push_str("; whether it took effect is unknown");
        }
        output
    }

    fn require_tool(&self, name: &str) -> Result<&dyn Tool> {
        self.find_tool(name).ok_or_else(|| {
            let known: Vec<&str> = self.definitions.iter().map(ToolDefinition::name).collect();
            let mut known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let gone: BTreeSet<&str> = self.missing.iter().map(|it| it.set.as_str()).collect();
            if !gone.is_empty() {
                let gone: Vec<&str> = gone.into_iter().collect();
                known.push_str(&format!("; not all tools can be reached now of: {}", gone.join(", ")));
            }
            Error::Unknown { name: name.to_owned(), known }
        })
    }
}
