//! The directives of a node that do something besides its end: calls, metadata, logs (conformance-adapter §5.1).

use serde_json::{Map, Value};

use crate::adapt;
use crate::failure::{CaseFailure, Outcome};
use crate::fields::{LocatedNode, YamlMapReader};
use crate::llm::ModelCallSpec;
use crate::nodes::parse_name_pairs;
use crate::schema::parse_literals;

/// One directive of a node.
#[derive(Debug, Clone)]
pub(crate) enum NodeStepSpec {
    /// Calls the case's model.
    CallModel(std::sync::Arc<ModelCallSpec>),
    /// Calls a tool that is a script.
    CallTool(Box<ToolCallSpec>),
    /// Renders a prompt, for the calls that follow.
    RenderPrompt(String),
    /// Renders the prompts of a group, and makes the calls that follow with one of them.
    RenderGroup {
        /// The group.
        group: String,
        /// Its prompts.
        members: Vec<String>,
        /// The one for calls.
        active: String,
    },
    /// Adds to the caller's metadata.
    AugmentMetadata(Map<String, Value>),
    /// The same, of fields of the state: the key, the field.
    AugmentFromFields(Vec<(String, String)>),
    /// Reads the caller's metadata into a field.
    CaptureMetadata(String),
    /// Writes a line of a log.
    EmitLog(LogLineSpec),
    /// Makes a span by OpenTelemetry's global tracer, as another library would.
    EmitGlobalSpan(String),
    /// Reads an observer into a field.
    ReadObserver(ObserverReadSpec),
    /// Computes fields of the state: the field, and the operation.
    ComputeFields(Vec<(String, StateOperation)>),
    /// Does nothing.
    DoNothing,
}

/// A tool call.
#[derive(Debug, Clone)]
pub(crate) struct ToolCallSpec {
    /// The tool.
    pub(crate) tool_name: String,
    /// The id of the model's call, if it answers one.
    pub(crate) tool_call_id: Option<String>,
    /// The arguments.
    pub(crate) arguments: Option<Map<String, Value>>,
    /// The result, or the type and message of the error.
    pub(crate) returns: Result<Value, (String, String)>,
    /// The field that gets the result.
    pub(crate) stores: Option<String>,
}

/// A line of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogLineSpec {
    /// The text.
    pub(crate) message: String,
    /// The level.
    pub(crate) level: String,
}

/// A read of an observer of the case.
#[derive(Debug, Clone)]
pub(crate) struct ObserverReadSpec {
    /// The observer.
    pub(crate) observer: String,
    /// The method.
    pub(crate) method: ObserverReadMethod,
    /// The field.
    pub(crate) field: String,
}

/// What is read of an observer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ObserverReadMethod {
    /// How many events it has.
    Count,
    /// The same, and how many of each type.
    Snapshot,
}

/// An operation on the state (conformance-adapter §5.1, `update_pure_from_state`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StateOperation {
    /// Twice the field `input`.
    InputTimesTwo,
}

/// The directives.
const STEPS: &[&str] = &[
    "calls_llm",
    "calls_tool",
    "renders_prompt",
    "renders_prompt_group",
    "augment_metadata",
    "augment_metadata_from_field",
    "capture_invocation_metadata_into",
    "emits_log",
    "also_emits_via_global_tracer",
    "capture_queryable_observer_read_into",
    "update_pure_from_state",
    "noop",
];

/// Takes a node's directives out of its block, in the order of the document.
///
/// # Errors
/// When the fixture block has an unknown key or value.
pub(crate) fn take_node_steps(block: &mut YamlMapReader) -> Outcome<Vec<NodeStepSpec>> {
    let mut keys: Vec<String> =
        block.remaining_keys().filter(|key| STEPS.contains(key)).map(str::to_owned).collect();
    if let Some(call) = keys.iter().position(|key| key == "calls_llm") {
        // The sort is stable: only what goes before the call moves.
        keys[call..].sort_by_key(|key| !adapt::runs_before_model_call(key));
    }
    keys.iter().map(|key| parse_node_step(key, block.take_required(key)?)).collect()
}

fn parse_node_step(key: &str, spot: LocatedNode) -> Outcome<NodeStepSpec> {
    Ok(match key {
        "calls_llm" => NodeStepSpec::CallModel(ModelCallSpec::from_yaml_node(spot)?.into()),
        "calls_tool" => NodeStepSpec::CallTool(Box::new(parse_tool_call(spot)?)),
        "renders_prompt" => NodeStepSpec::RenderPrompt(spot.as_text()?.to_owned()),
        "renders_prompt_group" => parse_prompt_group(spot)?,
        "augment_metadata" => NodeStepSpec::AugmentMetadata(parse_literals(spot)?),
        "augment_metadata_from_field" => NodeStepSpec::AugmentFromFields(parse_name_pairs(spot)?),
        "capture_invocation_metadata_into" => NodeStepSpec::CaptureMetadata(spot.as_text()?.to_owned()),
        "emits_log" => NodeStepSpec::EmitLog(parse_log_line(spot)?),
        "also_emits_via_global_tracer" => {
            let mut block = spot.into_map_reader()?;
            let name = block.take_required("span_name")?.as_text()?.to_owned();
            block.reject_remaining_keys()?;
            NodeStepSpec::EmitGlobalSpan(name)
        }
        "capture_queryable_observer_read_into" => NodeStepSpec::ReadObserver(parse_observer_read(spot)?),
        "update_pure_from_state" => NodeStepSpec::ComputeFields(parse_operations(spot)?),
        _ => match spot.as_bool()? {
            true => NodeStepSpec::DoNothing,
            false => return Err(spot.unexpected_kind("true")),
        },
    })
}

/// Reads a line of a log.
///
/// # Errors
/// When the fixture block has an unknown key or value.
pub(crate) fn parse_log_line(spot: LocatedNode) -> Outcome<LogLineSpec> {
    let mut block = spot.into_map_reader()?;
    let line = LogLineSpec {
        message: block.take_required("message")?.as_text()?.to_owned(),
        level: block.take_required("level")?.as_text()?.to_owned(),
    };
    block.reject_remaining_keys()?;
    Ok(line)
}

fn parse_tool_call(spot: LocatedNode) -> Outcome<ToolCallSpec> {
    let mut block = spot.into_map_reader()?;
    let mut mock = block.take_required("mock_tool")?.into_map_reader()?;
    let returns = match (mock.take_value("returns"), mock.take_value("raises")) {
        (Some(result), None) => Ok(result.node.to_json()),
        (None, Some(raised)) => {
            let mut raised = raised.into_map_reader()?;
            let error_type = raised.take_required("error_type")?.as_text()?.to_owned();
            let message = raised.take_required("message")?.as_text()?.to_owned();
            raised.reject_remaining_keys()?;
            Err((error_type, message))
        }
        _ => return Err(CaseFailure::reader_error(mock.path(), "a tool either returns or raises")),
    };
    mock.reject_remaining_keys()?;
    let call = ToolCallSpec {
        tool_name: block.take_required("tool_name")?.as_text()?.to_owned(),
        tool_call_id: block.take_text("tool_call_id")?,
        arguments: block.take_value("arguments").map(parse_literals).transpose()?,
        returns,
        stores: block.take_text("stores_result_in")?,
    };
    block.reject_remaining_keys()?;
    Ok(call)
}

fn parse_prompt_group(spot: LocatedNode) -> Outcome<NodeStepSpec> {
    let mut block = spot.into_map_reader()?;
    let step = NodeStepSpec::RenderGroup {
        group: block.take_required("group_name")?.as_text()?.to_owned(),
        members: block.take_required("members")?.into_texts()?,
        active: block.take_required("active_prompt")?.as_text()?.to_owned(),
    };
    block.reject_remaining_keys()?;
    Ok(step)
}

fn parse_observer_read(spot: LocatedNode) -> Outcome<ObserverReadSpec> {
    let mut block = spot.into_map_reader()?;
    let method = block.take_required("method")?;
    let read = ObserverReadSpec {
        observer: block.take_required("observer_name")?.as_text()?.to_owned(),
        method: match method.as_text()? {
            "get_count" => ObserverReadMethod::Count,
            "get_snapshot" => ObserverReadMethod::Snapshot,
            other => {
                return Err(CaseFailure::reader_error(&method.path, format!("unknown method '{other}'")));
            }
        },
        field: block.take_required("state_field")?.as_text()?.to_owned(),
    };
    block.reject_remaining_keys()?;
    Ok(read)
}

fn parse_operations(spot: LocatedNode) -> Outcome<Vec<(String, StateOperation)>> {
    let path = spot.path.clone();
    let operation = |(field, name): (String, String)| match name.as_str() {
        "input_times_two" => Ok((field, StateOperation::InputTimesTwo)),
        other => Err(CaseFailure::reader_error(&path, format!("unknown operation '{other}'"))),
    };
    parse_name_pairs(spot)?.into_iter().map(operation).collect()
}

impl NodeStepSpec {
    /// Returns the field that the directive writes, if it writes one.
    #[must_use]
    pub(crate) fn written_field(&self) -> Option<&str> {
        match self {
            Self::CallModel(call) => call.stores.as_deref(),
            Self::CallTool(call) => call.stores.as_deref(),
            Self::CaptureMetadata(field) => Some(field),
            Self::ReadObserver(read) => Some(&read.field),
            Self::RenderPrompt(_)
            | Self::RenderGroup { .. }
            | Self::AugmentMetadata(_)
            | Self::AugmentFromFields(_)
            | Self::EmitLog(_)
            | Self::EmitGlobalSpan(_)
            | Self::ComputeFields(_)
            | Self::DoNothing => None,
        }
    }
}
