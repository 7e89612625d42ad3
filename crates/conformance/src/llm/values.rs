//! Builds the parts of a call from the fixture's values. A value that the types cannot hold is an error of the
//! request.

use std::sync::Arc;

use serde_json::Value;
use singletree::llm::{
    ChatMessage, Error, Map, ProviderErrorDetail, Request, RuntimeConfig, Schema, ToolChoicePolicy,
    ToolDefinition,
};

use crate::failure::{CaseFailure, Outcome};
use crate::fields::{LocatedNode, YamlMapReader, unknown_key};
use crate::yaml::{YamlNode, YamlValue};

/// A value, or why no call can hold it.
pub(super) type ValueResult<T> = Result<T, Error>;

/// Takes a request out of a call's block.
///
/// # Errors
/// For a key that is unknown anywhere in it.
pub(super) fn take_request(block: &mut YamlMapReader) -> Outcome<ValueResult<Request>> {
    let messages = match block.take_value("messages") {
        Some(list) => parse_messages(list)?,
        None => Ok(Vec::new()),
    };
    let tools = match block.take_value("tools").filter(|value| !value.is_null()) {
        Some(list) => parse_tools(list)?,
        None => Ok(Vec::new()),
    };
    let choice = block
        .take_value("tool_choice")
        .filter(|value| !value.is_null())
        .map(parse_tool_choice)
        .transpose()?;
    let config = block.take_value("config").filter(|value| !value.is_null()).map(parse_config).transpose()?;
    let schema = block.take_value("response_schema").filter(|value| !value.is_null());
    let schema = schema.map(|schema| Schema::compile(schema.node.to_json()).map(Arc::new)).transpose();
    let made = || -> ValueResult<Request> {
        let mut request = Request::new(messages?.into_iter().map(Arc::new).collect()).with_tools(tools?);
        request.tool_choice = choice.transpose()?;
        request.config = config.unwrap_or_default();
        request.response_schema = schema?;
        Ok(request)
    };
    Ok(made())
}

fn parse_messages(list: LocatedNode) -> Outcome<ValueResult<Vec<ChatMessage>>> {
    let mut all = Ok(Vec::new());
    for spot in list.into_items()? {
        reject_unknown_message_keys(&spot)?;
        let message = parse_message(spot.node.to_json());
        all = all.and_then(|mut all: Vec<_>| {
            all.push(message?);
            Ok(all)
        });
    }
    Ok(all)
}

/// Reads the shape only: whether the message may be sent is the provider's to say.
fn parse_message(value: Value) -> ValueResult<ChatMessage> {
    serde_json::from_value(value)
        .map_err(|error| Error::InvalidRequest(ProviderErrorDetail::new(error.to_string())))
}

/// Keys of messages, and of the parts of messages.
const MESSAGE: &[&str] = &["role", "content", "tool_calls", "tool_call_id"];
const CALL: &[&str] = &["id", "name", "arguments", "signature"];
const BLOCK: &[&str] = &["type", "text", "signature", "data", "source", "media_type", "detail"];
const SOURCE: &[&str] = &["type", "url", "base64_data"];

fn reject_unknown_message_keys(message: &LocatedNode) -> Outcome<()> {
    reject_unknown_keys(&message.node, &message.path, MESSAGE)?;
    for (part, known) in [("content", BLOCK), ("tool_calls", CALL)] {
        let Some(YamlValue::List(items)) = message.node.get_entry(part).map(|it| &it.value) else { continue };
        for (at, item) in items.iter().enumerate() {
            let path = format!("{}.{part}[{at}]", message.path);
            reject_unknown_keys(item, &path, known)?;
            if let Some(source) = item.get_entry("source") {
                reject_unknown_keys(source, &format!("{path}.source"), SOURCE)?;
            }
        }
    }
    Ok(())
}

fn reject_unknown_keys(node: &YamlNode, path: &str, known: &[&str]) -> Outcome<()> {
    let YamlValue::Map(entries) = &node.value else { return Ok(()) };
    match entries.iter().find(|(key, _)| !known.contains(&key.as_str())) {
        Some((key, value)) => Err(unknown_key(path, key, value.line)),
        None => Ok(()),
    }
}

fn parse_tools(list: LocatedNode) -> Outcome<ValueResult<Vec<ToolDefinition>>> {
    let mut all = Ok(Vec::new());
    for spot in list.into_items()? {
        let mut block = spot.into_map_reader()?;
        let name = block.take_required("name")?.as_text()?.to_owned();
        let description = block.take_text("description")?.unwrap_or_default();
        let parameters = block.take_required("parameters")?.node.to_json();
        block.reject_remaining_keys()?;
        let tool = ToolDefinition::new(&name, &description, parameters);
        all = all.and_then(|mut all: Vec<_>| {
            all.push(tool?);
            Ok(all)
        });
    }
    Ok(all)
}

fn parse_tool_choice(spot: LocatedNode) -> Outcome<ValueResult<ToolChoicePolicy>> {
    let invalid =
        |what: &str| Ok(Err(Error::InvalidRequest(ProviderErrorDetail::new(format!("tool_choice: {what}")))));
    if let Ok(word) = spot.as_text() {
        return match word {
            "auto" => Ok(Ok(ToolChoicePolicy::Auto)),
            "required" => Ok(Ok(ToolChoicePolicy::Required)),
            "none" => Ok(Ok(ToolChoicePolicy::None)),
            other => invalid(other),
        };
    }
    let mut block = spot.into_map_reader()?;
    let (kind, name) = (block.take_text("type")?, block.take_text("name")?);
    block.reject_remaining_keys()?;
    match (kind.as_deref(), name) {
        (Some("tool"), Some(name)) => Ok(Ok(ToolChoicePolicy::Tool(name))),
        (kind, _) => invalid(kind.unwrap_or("has no type")),
    }
}

/// Reads a configuration, or the overrides of a configuration.
///
/// # Errors
/// When the fixture block has an unknown key, or a value of another kind.
pub(super) fn parse_config(spot: LocatedNode) -> Outcome<RuntimeConfig> {
    let mut block = spot.into_map_reader()?;
    // A null value is not set.
    let mut take = |key: &str| block.take_value(key).filter(|value| !value.is_null());
    let number = |spot: Option<LocatedNode>| spot.map(|spot| spot.as_number()).transpose();
    let counted = |spot: Option<LocatedNode>| {
        let count = |it: LocatedNode| {
            let count = u64::try_from(it.as_integer()?);
            count.map_err(|_| CaseFailure::reader_error(&it.path, "a count below zero"))
        };
        spot.map(count).transpose()
    };
    let config = RuntimeConfig {
        temperature: number(take("temperature"))?,
        max_tokens: counted(take("max_tokens"))?,
        top_p: number(take("top_p"))?,
        seed: take("seed").map(|it| it.as_integer()).transpose()?,
        frequency_penalty: number(take("frequency_penalty"))?,
        presence_penalty: number(take("presence_penalty"))?,
        stop_sequences: take("stop_sequences").map(LocatedNode::into_texts).transpose()?,
        extras: take("extras").map(|it| parse_json_map(&it)).transpose()?.unwrap_or_default(),
    };
    block.reject_remaining_keys()?;
    Ok(config)
}

fn parse_json_map(spot: &LocatedNode) -> Outcome<Map> {
    match spot.node.to_json() {
        Value::Object(map) => Ok(map),
        _ => Err(spot.unexpected_kind("a map")),
    }
}
