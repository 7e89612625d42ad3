//! Arithmetic, as a tool.

mod expression;

use schemars::JsonSchema;
use serde::Deserialize;
use singletree_llm::{BoxFuture, ToolDefinition};

use crate::effect::{Effect, Recovery};
use crate::error::{Error, Result};
use crate::output::Output;
use crate::tool::{Invocation, Tool};
use crate::typed::TypedTool;

/// Computes an arithmetic expression: `+ - * / % ^`, parentheses, unary minus, decimals.
///
/// Computes in double precision and answers with 15 significant digits. Expressions have a limit of length and of
/// depth; a result that is no number, as of a division by zero, is an error.
#[derive(Debug)]
pub struct Calculator(TypedTool);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The expression, as in `(1 + 2) * 3 ^ 2`.
    expression: String,
}

impl Calculator {
    /// Makes the tool `calculator`.
    ///
    /// # Errors
    ///
    /// `tool_definition_invalid` when the library refuses the schema.
    pub fn new() -> Result<Self> {
        let description = "Computes an arithmetic expression with + - * / % ^ and parentheses.";
        TypedTool::new("calculator", description, Effect::Read, async |arguments: Arguments, _| {
            match expression::evaluate_expression(&arguments.expression) {
                Ok(value) => Ok(Output::text(expression::format_number(value))),
                Err(problem) => Err(Error::failed(problem)),
            }
        })
        .map(Self)
    }
}

impl Tool for Calculator {
    fn definition(&self) -> &ToolDefinition {
        self.0.definition()
    }

    fn effect(&self) -> Effect {
        self.0.effect()
    }

    fn on_unknown_outcome(&self) -> Recovery {
        self.0.on_unknown_outcome()
    }

    fn call<'a>(&'a self, invocation: Invocation<'a>) -> BoxFuture<'a, Result<Output>> {
        self.0.call(invocation)
    }
}
