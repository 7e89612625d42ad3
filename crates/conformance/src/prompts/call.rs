//! One call of a case.

use std::sync::Arc;
use std::time::Duration;

use singletree::llm::ChatMessage;
use singletree::prompts::{PromptInputs, PromptQuery};

use super::setting::{is_resolver_key, parse_cache_ttl};
use super::source::parse_count;
use super::{MANAGER, is_manager_key};
use crate::failure::{CaseFailure, Outcome};
use crate::fields::{LocatedNode, YamlMapReader};
use crate::schema::parse_literals;
use crate::yaml::YamlValue;

/// A call.
#[derive(Debug)]
pub(super) struct PromptCallSpec {
    pub(super) path: String,
    pub(super) action: PromptAction,
    pub(super) capture: Option<String>,
    pub(super) expected: Option<LocatedNode>,
}

/// The action of a call.
#[derive(Debug)]
pub(super) enum PromptAction {
    /// A backend is asked.
    Ask { backend: String, query: PromptFetchQuery },
    /// A manager fetches.
    Fetch { manager: String, query: PromptFetchQuery },
    /// A manager renders.
    Render { manager: String, prompt: RenderPromptSource, inputs: PromptInputs },
    /// A manager does both.
    Get { manager: String, query: PromptFetchQuery, inputs: PromptInputs },
    /// The clock of a backend goes on.
    Advance { backend: String, by: Duration },
    /// A label resolver is asked.
    Resolve { resolver: String, name: String },
    /// A group is made of captured results.
    Group { name: String, members: Vec<String> },
}

/// The query of a call.
#[derive(Debug)]
pub(super) struct PromptFetchQuery {
    pub(super) name: String,
    pub(super) label: Option<String>,
    pub(super) cache_ttl: Option<Duration>,
}

/// Where the prompt comes from that is rendered.
#[derive(Debug)]
pub(super) enum RenderPromptSource {
    /// It is fetched through the same manager.
    Fetched(PromptFetchQuery),
    /// It was captured.
    Captured(String),
}

enum PromptCallTarget {
    Backend(String),
    Manager(String),
    Resolver(String),
    Group,
}

impl PromptFetchQuery {
    fn take_from_block(block: &mut YamlMapReader) -> Outcome<Self> {
        Ok(Self {
            name: block.take_required("name")?.as_text()?.to_owned(),
            label: block
                .take_value("label")
                .filter(|value| !value.is_null())
                .map(|value| value.as_text().map(str::to_owned))
                .transpose()?,
            cache_ttl: block
                .take_value("cache_ttl_seconds")
                .and_then(|value| parse_cache_ttl(&value).transpose())
                .transpose()?,
        })
    }
}

impl From<&PromptFetchQuery> for PromptQuery {
    fn from(it: &PromptFetchQuery) -> Self {
        let mut query = Self::new(&it.name);
        if let Some(label) = &it.label {
            query = query.label(label);
        }
        match it.cache_ttl {
            Some(ttl) => query.cache_ttl(ttl),
            None => query,
        }
    }
}

impl PromptCallSpec {
    pub(super) fn from_yaml_node(spot: LocatedNode, usual: Option<&str>) -> Outcome<Self> {
        let path = spot.path.clone();
        let mut block = spot.into_map_reader()?;
        let target = match (block.take_value("target"), usual) {
            (Some(spot), _) => parse_call_target(spot)?,
            (None, Some(manager)) => PromptCallTarget::Manager(manager.to_owned()),
            (None, None) => return Err(CaseFailure::reader_error(path, "key 'target' is missing")),
        };
        let capture = block.take_text("capture_as")?;
        let expected = block.take_value("expected");
        let operation = block.take_value("operation");
        let operation = match &operation {
            Some(spot) => spot.as_text()?,
            None => "",
        };
        let action = match (target, operation) {
            (PromptCallTarget::Backend(backend), "fetch") => {
                PromptAction::Ask { backend, query: PromptFetchQuery::take_from_block(&mut block)? }
            }
            (PromptCallTarget::Backend(backend), "advance_clock") => PromptAction::Advance {
                backend,
                by: Duration::from_secs(parse_count(&block.take_required("seconds")?)?),
            },
            (PromptCallTarget::Manager(manager), "fetch") => {
                PromptAction::Fetch { manager, query: PromptFetchQuery::take_from_block(&mut block)? }
            }
            (PromptCallTarget::Manager(manager), "render") => PromptAction::Render {
                manager,
                prompt: take_render_source(&mut block)?,
                inputs: take_prompt_inputs(&mut block)?,
            },
            (PromptCallTarget::Manager(manager), "get") => PromptAction::Get {
                manager,
                query: PromptFetchQuery::take_from_block(&mut block)?,
                inputs: take_prompt_inputs(&mut block)?,
            },
            (PromptCallTarget::Resolver(resolver), "resolve" | "") => {
                PromptAction::Resolve { resolver, name: block.take_required("name")?.as_text()?.to_owned() }
            }
            (PromptCallTarget::Group, "") => PromptAction::Group {
                name: block.take_required("group_name")?.as_text()?.to_owned(),
                members: block.take_required("members_refs")?.into_texts()?,
            },
            (
                PromptCallTarget::Backend(_)
                | PromptCallTarget::Manager(_)
                | PromptCallTarget::Resolver(_)
                | PromptCallTarget::Group,
                other,
            ) => {
                return Err(CaseFailure::reader_error(
                    path,
                    format!("unknown operation '{other}' of this target"),
                ));
            }
        };
        block.reject_remaining_keys()?;
        Ok(Self { path, action, capture, expected })
    }
}

/// `manager` or another manager's name, `{manager: true}`, `{backend: NAME}`, a label resolver in the same ways, or
/// `construct_prompt_group`.
fn parse_call_target(spot: LocatedNode) -> Outcome<PromptCallTarget> {
    if let YamlValue::Str(text) = &spot.node.value {
        return match text.as_str() {
            "construct_prompt_group" => Ok(PromptCallTarget::Group),
            name if is_manager_key(name) => Ok(PromptCallTarget::Manager(name.to_owned())),
            name if is_resolver_key(name) => Ok(PromptCallTarget::Resolver(name.to_owned())),
            other => Err(CaseFailure::reader_error(&spot.path, format!("unknown target '{other}'"))),
        };
    }
    let mut block = spot.into_map_reader()?;
    let target = match block.take_next_entry() {
        Some((key, name)) if key == "backend" => PromptCallTarget::Backend(name.as_text()?.to_owned()),
        Some((key, is)) if is_manager_key(&key) => match &is.node.value {
            YamlValue::Bool(true) => PromptCallTarget::Manager(key),
            YamlValue::Str(name) if key == MANAGER => PromptCallTarget::Manager(name.clone()),
            _ => return Err(is.unexpected_kind("true, or the name of a manager")),
        },
        Some((key, is)) if is_resolver_key(&key) => match &is.node.value {
            YamlValue::Bool(true) => PromptCallTarget::Resolver(key),
            YamlValue::Str(name) => PromptCallTarget::Resolver(name.clone()),
            _ => return Err(is.unexpected_kind("true, or the name of a label resolver")),
        },
        Some((key, it)) => return Err(CaseFailure::reader_error(it.path, format!("unknown target '{key}'"))),
        None => return Err(CaseFailure::reader_error(block.path(), "no target")),
    };
    block.reject_remaining_keys()?;
    Ok(target)
}

fn take_render_source(block: &mut YamlMapReader) -> Outcome<RenderPromptSource> {
    let path = block.path().to_owned();
    match (block.take_value("fetched_prompt"), block.take_text("fetched_prompt_ref")?) {
        (Some(spot), None) => {
            let mut inner = spot.into_map_reader()?;
            let query = PromptFetchQuery::take_from_block(&mut inner)?;
            inner.reject_remaining_keys()?;
            Ok(RenderPromptSource::Fetched(query))
        }
        (None, Some(name)) => Ok(RenderPromptSource::Captured(name)),
        (Some(_), Some(_)) | (None, None) => Err(CaseFailure::reader_error(
            path,
            "a render has either 'fetched_prompt' or 'fetched_prompt_ref'",
        )),
    }
}

fn take_prompt_inputs(block: &mut YamlMapReader) -> Outcome<PromptInputs> {
    let mut inputs = PromptInputs::new();
    if let Some(spot) = block.take_value("variables").filter(|value| !value.is_null()) {
        inputs = inputs.variables(parse_literals(spot)?);
    }
    let Some(spot) = block.take_value("placeholders").filter(|value| !value.is_null()) else {
        return Ok(inputs);
    };
    let mut placeholders = spot.into_map_reader()?;
    while let Some((name, list)) = placeholders.take_next_entry() {
        let messages: Vec<_> =
            list.into_items()?.into_iter().map(parse_placeholder_message).collect::<Outcome<_>>()?;
        inputs = inputs.placeholder(name, messages);
    }
    Ok(inputs)
}

fn parse_placeholder_message(spot: LocatedNode) -> Outcome<Arc<ChatMessage>> {
    let read = ChatMessage::from_json(spot.node.to_json());
    read.map(Arc::new).map_err(|error| CaseFailure::reader_error(&spot.path, error.to_string()))
}
