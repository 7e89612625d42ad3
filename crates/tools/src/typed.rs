//! A tool from an async function with typed arguments.

use std::fmt;
use std::future::Future;

use futures_util::FutureExt;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::Value;
use singletree_llm::{BoxFuture, Map, ToolDefinition};

use crate::effect::{Effect, Recovery};
use crate::error::{Error, Result};
use crate::key::IdempotencyKey;
use crate::origin::CallOrigin;
use crate::output::Output;
use crate::tool::{Invocation, Tool};

type Function = Box<dyn Fn(Map, ToolContext) -> BoxFuture<'static, Result<Output>> + Send + Sync>;

/// The context that a typed function gets beside its arguments.
#[derive(Debug, Clone)]
pub struct ToolContext {
    /// Under which the effect happens once.
    pub key: IdempotencyKey,
    /// The provider's id of the call; unique within one message only.
    pub call_id: String,
    /// The conversation that the call is made in; none outside of a session.
    pub origin: Option<CallOrigin>,
}

impl ToolContext {
    /// Returns the conversation that the call is made in, for tools that keep data of conversations.
    ///
    /// # Errors
    ///
    /// `tool_failed` when the call is made outside of a session.
    pub fn session_origin(&self) -> Result<&CallOrigin> {
        let missing = || Error::failed("this tool works in a conversation only; nothing was done");
        self.origin.as_ref().ok_or_else(missing)
    }
}

/// A tool made of an async function.
///
/// The schema comes from the argument type: its field docs are the descriptions for the model.
pub struct TypedTool {
    definition: ToolDefinition,
    effect: Effect,
    recovery: Recovery,
    function: Function,
}

impl TypedTool {
    /// Makes a tool. A call of a tool that only reads may be run again after a crash; a call of any other tool is
    /// reported, unless [`with_recovery`](Self::with_recovery) says that it is idempotent.
    ///
    /// # Errors
    ///
    /// `tool_definition_invalid` when the name is empty or the argument type is no object.
    pub fn new<A, O, F, R>(name: &str, description: &str, effect: Effect, function: F) -> Result<Self>
    where
        A: JsonSchema + DeserializeOwned,
        O: Into<Output>,
        F: Fn(A, ToolContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<O>> + Send + 'static,
    {
        let definition = ToolDefinition::with_generated_schema(name, description, parameter_schema::<A>())
            .map_err(|source| Error::Definition { name: name.to_owned(), source })?;
        let function: Function =
            Box::new(move |arguments, context| match serde_json::from_value(Value::Object(arguments)) {
                Ok(arguments) => {
                    function(arguments, context).map(|function| function.map(Into::into)).boxed()
                }
                Err(error) => {
                    let problem = error.to_string();
                    async { Err(Error::Arguments { problem }) }.boxed()
                }
            });
        let recovery = if effect.has_side_effects() { Recovery::Report } else { Recovery::Rerun };
        Ok(Self { definition, effect, recovery, function })
    }

    /// Declares how to recover a call whose outcome is unknown.
    #[must_use]
    pub fn with_recovery(mut self, recovery: Recovery) -> Self {
        self.recovery = recovery;
        self
    }
}

impl Tool for TypedTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn effect(&self) -> Effect {
        self.effect
    }

    fn on_unknown_outcome(&self) -> Recovery {
        self.recovery
    }

    fn call<'a>(&'a self, invocation: Invocation<'a>) -> BoxFuture<'a, Result<Output>> {
        let context = ToolContext {
            key: invocation.key.clone(),
            call_id: invocation.call_id.to_owned(),
            origin: invocation.origin.cloned(),
        };
        (self.function)(invocation.arguments.clone(), context)
    }
}

impl fmt::Debug for TypedTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypedTool")
            .field("name", &self.definition.name())
            .field("effect", &self.effect)
            .field("recovery", &self.recovery)
            .finish_non_exhaustive()
    }
}

/// Makes the schema of a type, without the parts that providers refuse or misread: no meta schema, no title, and no
/// references where the type can be written out.
fn parameter_schema<A: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().for_deserialize().with(|for_deserialize| {
        for_deserialize.meta_schema = None;
        for_deserialize.inline_subschemas = true;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<A>().to_value();
    if let Some(root) = schema.as_object_mut() {
        root.remove("title");
        // The model is told the description of the tool, not that of the type.
        root.remove("description");
    }
    schema
}
