//! A tool that tells the time.

use std::sync::Arc;

use futures_util::FutureExt;
use serde_json::json;
use singletree_env::{Clock, Timestamp};
use singletree_llm::{BoxFuture, ToolDefinition};

use crate::effect::{Effect, Recovery};
use crate::error::{Error, Result};
use crate::output::Output;
use crate::tool::{Invocation, Tool};

/// Tells the time, in UTC, as RFC 3339, to the second.
#[derive(Debug)]
pub struct ClockTool {
    definition: ToolDefinition,
    clock: Arc<dyn Clock>,
}

impl ClockTool {
    /// Makes the tool `clock` of a clock.
    ///
    /// # Errors
    ///
    /// `tool_definition_invalid` when the library refuses the schema.
    pub fn new(clock: Arc<dyn Clock>) -> Result<Self> {
        let parameters = json!({ "type": "object", "properties": {}, "additionalProperties": false });
        let definition = ToolDefinition::with_generated_schema(
            "clock",
            "Tells the current date and time in UTC.",
            parameters,
        )
        .map_err(|source| Error::Definition { name: "clock".to_owned(), source })?;
        Ok(Self { definition, clock })
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
            let now = self.clock.now();
            if !is_printable_time(now) {
                return Err(Error::failed("the clock stands outside the years 1970 to 9999"));
            }
            Ok(Output::text(humantime::format_rfc3339_seconds(now.to_system_time()).to_string()))
        }
        .boxed()
    }
}

/// The years that RFC 3339 can write and the formatter does not refuse.
fn is_printable_time(time: Timestamp) -> bool {
    const YEAR_10000_MS: i64 = 253_402_300_800_000;
    (0..YEAR_10000_MS).contains(&time.as_millis())
}
