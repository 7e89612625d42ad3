//! Tools that a client brings and runs itself.

use serde_json::json;
use singletree_agent::ClientTools;
use singletree_llm as llm;
use singletree_protocol::openai::{Tool, ToolChoice, ToolChoiceMode};

use crate::problem::RequestProblem;

/// The maximum number of tools in a request.
const TOOLS_MAX: usize = 128;
/// The maximum size of all their schemas, in bytes.
const SCHEMA_BYTES_MAX: usize = 512 << 10;
/// The maximum number of regular expressions in all their schemas.
const PATTERNS_MAX: usize = 256;

/// Reads the tools of the client; `None` if the request has none or turns them off.
///
/// # Errors
/// `server_request_invalid`, with the position of the tool.
pub(super) fn read_client_tools(
    tools: Vec<Tool>,
    choice: Option<ToolChoice>,
) -> Result<Option<ClientTools>, RequestProblem> {
    let choice = match choice {
        Some(ToolChoice::Mode(ToolChoiceMode::None)) => return Ok(None),
        None | Some(ToolChoice::Mode(ToolChoiceMode::Auto)) => None,
        Some(ToolChoice::Mode(ToolChoiceMode::Required)) => Some(llm::ToolChoicePolicy::Required),
        Some(ToolChoice::Named { function }) => Some(llm::ToolChoicePolicy::Tool(function.name)),
    };
    check_tool_bounds(&tools)?;
    let mut definitions = Vec::with_capacity(tools.len());
    for (at, tool) in tools.into_iter().enumerate() {
        definitions
            .push(read_tool_definition(tool).map_err(|error| error.with_field(format!("tools[{at}]")))?);
    }
    let known = |name: &str| definitions.iter().any(|it: &llm::ToolDefinition| it.name() == name);
    let is_known = match &choice {
        None => true,
        Some(llm::ToolChoicePolicy::Tool(name)) => known(name),
        Some(llm::ToolChoicePolicy::Auto | llm::ToolChoicePolicy::Required | llm::ToolChoicePolicy::None) => {
            !definitions.is_empty()
        }
    };
    if !is_known {
        return Err(
            RequestProblem::invalid_request("there is no such tool among `tools`").with_field("tool_choice")
        );
    }
    if definitions.is_empty() {
        return Ok(None);
    }
    let tools = ClientTools::new(definitions);
    let tools = tools
        .map_err(|error| RequestProblem::invalid_request(error_source_text(&error)).with_field("tools"))?;
    Ok(Some(match choice {
        Some(choice) => tools.with_tool_choice(choice),
        None => tools,
    }))
}

/// Checks the bounds of all tools together, before any schema is compiled.
fn check_tool_bounds(tools: &[Tool]) -> Result<(), RequestProblem> {
    let parameters = || tools.iter().filter_map(|tool| tool.function.as_ref()?.parameters.as_ref());
    let patterns = parameters().map(llm::count_patterns).fold(0, usize::saturating_add);
    let bytes = parameters().map(|it| it.to_string().len()).fold(0, usize::saturating_add);
    for (count, max, what) in [
        (tools.len(), TOOLS_MAX, "tools"),
        (bytes, SCHEMA_BYTES_MAX, "bytes of schemas"),
        (patterns, PATTERNS_MAX, "patterns in schemas"),
    ] {
        if count > max {
            return Err(RequestProblem::invalid_request(format!("a request has at most {max} {what}"))
                .with_field("tools"));
        }
    }
    Ok(())
}

fn read_tool_definition(tool: Tool) -> Result<llm::ToolDefinition, RequestProblem> {
    let function = tool.function.filter(|_| tool.kind == "function");
    let function = function.ok_or_else(|| RequestProblem::invalid_request("a tool is a function"))?;
    let nothing = || json!({ "type": "object", "properties": {} });
    let parameters = function.parameters.filter(|parameter| !parameter.is_null()).unwrap_or_else(nothing);
    let description = function.description.unwrap_or_default();
    let definition = llm::ToolDefinition::new(&function.name, &description, parameters);
    definition.map_err(|error| RequestProblem::invalid_request(error.to_string()))
}

/// Returns the text of the source of an error.
fn error_source_text(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}
