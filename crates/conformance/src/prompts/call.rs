//! One call of a case.

use std::sync::Arc;
use std::time::Duration;

use singletree::llm::ChatMessage;
use singletree::prompts::{PromptInputs, PromptQuery};

use super::setting::{is_resolver, ttl};
use super::source::count;
use super::{MANAGER, is_manager};
use crate::failure::{Failure, Outcome};
use crate::fields::{Fields, Spot};
use crate::schema::literals;
use crate::yaml::Yaml;

/// A call.
#[derive(Debug)]
pub(super) struct CallSpec {
    pub(super) path: String,
    pub(super) action: Action,
    pub(super) capture: Option<String>,
    pub(super) expected: Option<Spot>,
}

/// The action of a call.
#[derive(Debug)]
pub(super) enum Action {
    /// A backend is asked.
    Ask { backend: String, query: Query },
    /// A manager fetches.
    Fetch { manager: String, query: Query },
    /// A manager renders.
    Render { manager: String, prompt: Source, inputs: PromptInputs },
    /// A manager does both.
    Get { manager: String, query: Query, inputs: PromptInputs },
    /// The clock of a backend goes on.
    Advance { backend: String, by: Duration },
    /// A label resolver is asked.
    Resolve { resolver: String, name: String },
    /// A group is made of captured results.
    Group { name: String, members: Vec<String> },
}

/// The query of a call.
#[derive(Debug)]
pub(super) struct Query {
    pub(super) name: String,
    pub(super) label: Option<String>,
    pub(super) cache_ttl: Option<Duration>,
}

/// Where the prompt comes from that is rendered.
#[derive(Debug)]
pub(super) enum Source {
    /// It is fetched through the same manager.
    Fetched(Query),
    /// It was captured.
    Captured(String),
}

enum Target {
    Backend(String),
    Manager(String),
    Resolver(String),
    Group,
}

impl Query {
    fn take(block: &mut Fields) -> Outcome<Self> {
        Ok(Self {
            name: block.need("name")?.text()?.to_owned(),
            label: block
                .take("label")
                .filter(|it| !it.is_null())
                .map(|it| it.text().map(str::to_owned))
                .transpose()?,
            cache_ttl: block.take("cache_ttl_seconds").and_then(|it| ttl(&it).transpose()).transpose()?,
        })
    }
}

impl From<&Query> for PromptQuery {
    fn from(it: &Query) -> Self {
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

impl CallSpec {
    pub(super) fn read(spot: Spot, usual: Option<&str>) -> Outcome<Self> {
        let path = spot.path.clone();
        let mut block = spot.fields()?;
        let target = match (block.take("target"), usual) {
            (Some(spot), _) => target(spot)?,
            (None, Some(manager)) => Target::Manager(manager.to_owned()),
            (None, None) => return Err(Failure::reader(path, "key 'target' is missing")),
        };
        let capture = block.text("capture_as")?;
        let expected = block.take("expected");
        let operation = block.take("operation");
        let operation = match &operation {
            Some(spot) => spot.text()?,
            None => "",
        };
        let action = match (target, operation) {
            (Target::Backend(backend), "fetch") => Action::Ask { backend, query: Query::take(&mut block)? },
            (Target::Backend(backend), "advance_clock") => {
                Action::Advance { backend, by: Duration::from_secs(count(&block.need("seconds")?)?) }
            }
            (Target::Manager(manager), "fetch") => Action::Fetch { manager, query: Query::take(&mut block)? },
            (Target::Manager(manager), "render") => {
                Action::Render { manager, prompt: source(&mut block)?, inputs: inputs(&mut block)? }
            }
            (Target::Manager(manager), "get") => {
                Action::Get { manager, query: Query::take(&mut block)?, inputs: inputs(&mut block)? }
            }
            (Target::Resolver(resolver), "resolve" | "") => {
                Action::Resolve { resolver, name: block.need("name")?.text()?.to_owned() }
            }
            (Target::Group, "") => Action::Group {
                name: block.need("group_name")?.text()?.to_owned(),
                members: block.need("members_refs")?.texts()?,
            },
            (Target::Backend(_) | Target::Manager(_) | Target::Resolver(_) | Target::Group, other) => {
                return Err(Failure::reader(path, format!("unknown operation '{other}' of this target")));
            }
        };
        block.finish()?;
        Ok(Self { path, action, capture, expected })
    }
}

/// `manager` or another manager's name, `{manager: true}`, `{backend: NAME}`, a label resolver in the same ways, or
/// `construct_prompt_group`.
fn target(spot: Spot) -> Outcome<Target> {
    if let Yaml::Str(text) = &spot.node.value {
        return match text.as_str() {
            "construct_prompt_group" => Ok(Target::Group),
            name if is_manager(name) => Ok(Target::Manager(name.to_owned())),
            name if is_resolver(name) => Ok(Target::Resolver(name.to_owned())),
            other => Err(Failure::reader(&spot.path, format!("unknown target '{other}'"))),
        };
    }
    let mut block = spot.fields()?;
    let target = match block.next() {
        Some((key, name)) if key == "backend" => Target::Backend(name.text()?.to_owned()),
        Some((key, is)) if is_manager(&key) => match &is.node.value {
            Yaml::Bool(true) => Target::Manager(key),
            Yaml::Str(name) if key == MANAGER => Target::Manager(name.clone()),
            _ => return Err(is.wrong("true, or the name of a manager")),
        },
        Some((key, is)) if is_resolver(&key) => match &is.node.value {
            Yaml::Bool(true) => Target::Resolver(key),
            Yaml::Str(name) => Target::Resolver(name.clone()),
            _ => return Err(is.wrong("true, or the name of a label resolver")),
        },
        Some((key, it)) => return Err(Failure::reader(it.path, format!("unknown target '{key}'"))),
        None => return Err(Failure::reader(block.path(), "no target")),
    };
    block.finish()?;
    Ok(target)
}

fn source(block: &mut Fields) -> Outcome<Source> {
    let path = block.path().to_owned();
    match (block.take("fetched_prompt"), block.text("fetched_prompt_ref")?) {
        (Some(spot), None) => {
            let mut inner = spot.fields()?;
            let query = Query::take(&mut inner)?;
            inner.finish()?;
            Ok(Source::Fetched(query))
        }
        (None, Some(name)) => Ok(Source::Captured(name)),
        (Some(_), Some(_)) | (None, None) => {
            Err(Failure::reader(path, "a render has either 'fetched_prompt' or 'fetched_prompt_ref'"))
        }
    }
}

fn inputs(block: &mut Fields) -> Outcome<PromptInputs> {
    let mut inputs = PromptInputs::new();
    if let Some(spot) = block.take("variables").filter(|it| !it.is_null()) {
        inputs = inputs.variables(literals(spot)?);
    }
    let Some(spot) = block.take("placeholders").filter(|it| !it.is_null()) else { return Ok(inputs) };
    let mut placeholders = spot.fields()?;
    while let Some((name, list)) = placeholders.next() {
        let messages: Vec<_> = list.items()?.into_iter().map(message).collect::<Outcome<_>>()?;
        inputs = inputs.placeholder(name, messages);
    }
    Ok(inputs)
}

fn message(spot: Spot) -> Outcome<Arc<ChatMessage>> {
    let read = ChatMessage::from_json(spot.node.to_json());
    read.map(Arc::new).map_err(|error| Failure::reader(&spot.path, error.to_string()))
}
