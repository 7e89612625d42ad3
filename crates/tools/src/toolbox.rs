//! The tools of an agent, and how they are called.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use singletree_llm::{ToolCall, ToolDefinition};

use crate::error::{Error, Result};
use crate::key::IdempotencyKey;
use crate::output::Output;
use crate::tool::{Invocation, Tool};

/// How long a call may take, and how much it may say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolLimits {
    /// From the call to its result.
    pub time: Duration,
    /// Bytes of the output's text; the rest is cut, with a note.
    pub output_bytes: usize,
}

impl ToolLimits {
    /// Returns limits for tools on the same machine: 30 seconds, 64 KiB.
    #[must_use]
    pub fn standard() -> Self {
        Self { time: Duration::from_secs(30), output_bytes: 64 * 1024 }
    }
}

/// An ordered set of tools. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Toolbox {
    tools: Arc<BTreeMap<String, Arc<dyn Tool>>>,
    definitions: Arc<[ToolDefinition]>,
    limits: ToolLimits,
}

impl Toolbox {
    /// Makes a toolbox. The model is told of the tools in this order.
    ///
    /// # Errors
    ///
    /// `tool_duplicate` when two tools have the same name.
    pub fn new(tools: impl IntoIterator<Item = Arc<dyn Tool>>, limits: ToolLimits) -> Result<Self> {
        let mut by_name = BTreeMap::new();
        let mut definitions = Vec::new();
        for tool in tools {
            let definition = tool.definition().clone();
            if by_name.insert(definition.name().to_owned(), tool).is_some() {
                return Err(Error::Duplicate { name: definition.name().to_owned() });
            }
            definitions.push(definition);
        }
        Ok(Self { tools: Arc::new(by_name), definitions: definitions.into(), limits })
    }

    /// Returns what the model is told of the tools, ready for a request.
    #[must_use]
    pub fn definitions(&self) -> Arc<[ToolDefinition]> {
        Arc::clone(&self.definitions)
    }

    /// Returns the tool of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&dyn Tool> {
        self.tools.get(name).map(AsRef::as_ref)
    }

    /// Checks a call without running it.
    ///
    /// # Errors
    ///
    /// `tool_unknown`; `tool_arguments_invalid`, naming the path.
    pub fn check(&self, call: &ToolCall) -> Result<()> {
        let tool = self.find(&call.name)?;
        let arguments = call.arguments.as_ref().ok_or(Error::Unreadable)?;
        let schema = tool.definition().schema();
        schema.check_map(arguments).map_err(|mismatch| Error::Mismatched { mismatch })
    }

    /// Runs a call. Whatever goes wrong is an output that the model can read: an unknown tool,
    /// arguments that do not fit, a tool that fails, takes too long or panics.
    ///
    /// # Cancellation
    ///
    /// Dropping the future gives the call up; see [`Tool`].
    pub async fn call(&self, call: &ToolCall, key: &IdempotencyKey) -> Output {
        match self.run(call, key).await {
            Ok(output) => output,
            Err(error) => self.failed(call, &error),
        }
        .capped(self.limits.output_bytes)
    }

    async fn run(&self, call: &ToolCall, key: &IdempotencyKey) -> Result<Output> {
        self.check(call)?;
        let tool = self.find(&call.name)?;
        let arguments = call.arguments.as_ref().ok_or(Error::Unreadable)?;
        let invocation = Invocation { key, call_id: &call.id, arguments };
        // The call itself is made inside, so that a panic before the first await is caught too.
        let guarded = AssertUnwindSafe(async { tool.call(invocation).await }).catch_unwind();
        match tokio::time::timeout(self.limits.time, guarded).await {
            Ok(Ok(result)) => result,
            Ok(Err(_panic)) => Err(Error::Panicked),
            Err(_elapsed) => Err(Error::Timeout { limit: self.limits.time }),
        }
    }

    fn failed(&self, call: &ToolCall, error: &Error) -> Output {
        let mut output = Output::failed(error);
        let changes = self.get(&call.name).is_some_and(|it| it.effect().changes());
        if changes && error.leaves_doubt() {
            output.text.push_str("; whether it took effect is unknown");
        }
        output
    }

    fn find(&self, name: &str) -> Result<&dyn Tool> {
        self.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.definitions.iter().map(ToolDefinition::name).collect();
            Error::Unknown { name: name.to_owned(), known: known.join(", ") }
        })
    }
}
