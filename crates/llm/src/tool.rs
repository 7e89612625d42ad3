//! Tools as a model is told about them, and how freely it may choose among them.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use crate::error::Result;
use crate::fault::InvalidField;
use crate::schema::Schema;

/// A tool as a model sees it (spec: llm-provider §4). Cheap to clone.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolDefinition {
    name: Arc<str>,
    description: Arc<str>,
    schema: Arc<Schema>,
}

impl ToolDefinition {
    /// Makes a definition and compiles its parameters.
    ///
    /// # Errors
    ///
    /// `provider_invalid_request` when the name is empty or the parameters are no JSON Schema of
    /// an object.
    pub fn new(name: &str, description: &str, parameters: Value) -> Result<Self> {
        Self::with_schema(name, description, Schema::compile(parameters))
    }

    /// Makes a definition whose parameters are part of the program, generated from a type or written out and tested;
    /// they are compiled at the first call.
    ///
    /// # Errors
    ///
    /// `provider_invalid_request` when the name is empty or the root of the parameters is no object.
    pub fn with_generated_schema(name: &str, description: &str, parameters: Value) -> Result<Self> {
        Self::with_schema(name, description, Schema::from_generated(parameters))
    }

    fn with_schema(name: &str, description: &str, schema: Result<Schema>) -> Result<Self> {
        if name.is_empty() {
            return Err(InvalidField::at_path("name", "a tool must have a name").into_request_error());
        }
        let schema = schema.map_err(|error| {
            InvalidField::at_path(format!("tool {name:?}"), error.to_string()).into_request_error()
        })?;
        Ok(Self { name: name.into(), description: description.into(), schema: Arc::new(schema) })
    }

    /// Returns the name by which a model calls the tool.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the description of the tool, as it is sent to the model.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Returns the JSON Schema of the arguments.
    #[must_use]
    pub fn parameters(&self) -> &Value {
        self.schema.as_value()
    }

    /// Returns the compiled schema of the arguments.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        &self.schema
    }
}

/// How freely a model may choose a tool (spec: llm-provider §5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolChoicePolicy {
    /// The model decides.
    Auto,
    /// At least one call.
    Required,
    /// No call.
    None,
    /// This tool and no other.
    Tool(String),
}

/// Checks the tools of a request, and the choice among them.
pub(crate) fn check_tools(
    tools: &[ToolDefinition],
    choice: Option<&ToolChoicePolicy>,
) -> Result<(), InvalidField> {
    let mut names = BTreeSet::new();
    for (index, tool) in tools.iter().enumerate() {
        if !names.insert(tool.name()) {
            let problem = format!("the tool {:?} is there twice", tool.name());
            return Err(InvalidField::at_path(format!("tools[{index}].name"), problem));
        }
    }
    match choice {
        None | Some(ToolChoicePolicy::Auto | ToolChoicePolicy::None) => Ok(()),
        Some(ToolChoicePolicy::Required | ToolChoicePolicy::Tool(_)) if tools.is_empty() => {
            Err(InvalidField::at_path("tool_choice", "a forced call needs tools"))
        }
        Some(ToolChoicePolicy::Required) => Ok(()),
        Some(ToolChoicePolicy::Tool(name)) if names.contains(name.as_str()) => Ok(()),
        Some(ToolChoicePolicy::Tool(name)) => Err(InvalidField::at_path(
            "tool_choice",
            format!("{name:?} is none of the tools of this request"),
        )),
    }
}
