//! A tool that tells the time.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::FutureExt;
use serde_json::json;
use singletree_llm::{BoxFuture, ToolDefinition};

use crate::effect::{Effect, Recovery};
use crate::error::{Error, Result};
use crate::output::Output;
use crate::tool::{Invocation, Tool};

/// Tells the time, in UTC, as RFC 3339, to the second.
pub struct ClockTool {
    definition: ToolDefinition,
    now: Box<dyn Fn() -> SystemTime + Send + Sync>,
}

impl ClockTool {
    /// Makes the tool `clock` over a source of time.
    ///
    /// # Errors
    ///
    /// `tool_definition_invalid` when the library refuses the schema.
    pub fn new(now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Result<Self> {
        let parameters = json!({ "type": "object", "properties": {}, "additionalProperties": false });
        let definition = ToolDefinition::with_generated_schema(
            "clock",
            "Tells the current date and time in UTC.",
            parameters,
        )
        .map_err(|source| Error::Definition { name: "clock".to_owned(), source })?;
        Ok(Self { definition, now: Box::new(now) })
    }
}

impl Tool for ClockTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }

    fn on_unknown_outcome(&self) -> Recovery {
        Recovery::Rerun
    }

    fn call<'a>(&'a self, _invocation: Invocation<'a>) -> BoxFuture<'a, Result<Output>> {
        async {
            let now = (self.now)();
            if !is_printable_time(now) {
                return Err(Error::failed("the clock stands outside the years 1970 to 9999"));
            }
            Ok(Output::text(humantime::format_rfc3339_seconds(now).to_string()))
        }
        .boxed()
    }
}

impl fmt::Debug for ClockTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock").finish_non_exhaustive()
    }
}

/// The years that RFC 3339 can write and the formatter does not refuse.
fn is_printable_time(time: SystemTime) -> bool {
    const YEAR_10000: Duration = Duration::from_secs(253_402_300_800);
    time.duration_since(UNIX_EPOCH).is_ok_and(|duration_since| duration_since < YEAR_10000)
}
