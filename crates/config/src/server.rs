//! `[mcp.NAME]`: an MCP server, and the effects of its tools.

use std::path::PathBuf;
use std::time::Duration;

use singletree_tools::Effect;

use crate::approval::{EFFECTS, effect};
use crate::report::MistakeKind;
use crate::secret_source::SecretSource;
use crate::section::{TableReader, shown};
use crate::spot::LocatedValue;
use crate::suggest::did_you_mean;

/// An MCP server, as the file has it.
#[derive(Debug, Clone)]
pub(crate) struct McpServerTable {
    pub(crate) name: LocatedValue<String>,
    pub(crate) reach: ServerTransport,
    /// Whether the server's own hints about its tools' effects count, where the file says nothing.
    pub(crate) trust_hints: bool,
    /// Effects by the names of its tools; `*` is all others.
    pub(crate) effects: Vec<(LocatedValue<String>, Effect)>,
    /// Those of its tools that anybody gets to see; all otherwise.
    pub(crate) tools: Option<Vec<LocatedValue<String>>>,
    pub(crate) start_time: Option<Duration>,
    pub(crate) call_time: Option<Duration>,
}

/// How a server is reached.
#[derive(Debug, Clone)]
pub(crate) enum ServerTransport {
    /// A program that is started.
    Command {
        program: LocatedValue<String>,
        args: Vec<String>,
        folder: Option<PathBuf>,
        env: Vec<(String, ServerSetting)>,
    },
    /// An address.
    Url { url: String, headers: Vec<(String, ServerSetting)> },
    /// Unknown: the value is wrong, and was reported.
    Unknown,
}

/// A variable or a header that a server gets.
#[derive(Debug, Clone)]
pub(crate) enum ServerSetting {
    Plain(String),
    Secret(SecretSource),
}

/// Words in the names of settings that are secret.
const SECRETS: [&str; 7] = ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "AUTHORIZATION"];

impl McpServerTable {
    pub(crate) fn read((name, mut section): (LocatedValue<String>, TableReader<'_>)) -> Self {
        let reach = reach(&mut section);
        let effects = section.section("effects").map(effects).unwrap_or_default();
        let server = Self {
            name,
            reach,
            effects,
            trust_hints: section.flag("trust_hints").unwrap_or(false),
            tools: section.texts("tools"),
            start_time: section.duration("start_time"),
            call_time: section.duration("call_time"),
        };
        section.end();
        server
    }

    /// Returns the effect of one of its tools. A tool without a declared effect counts as dangerous.
    pub(crate) fn effect(&self, tool: &str) -> Effect {
        let declared = |name: &str| self.effects.iter().find(|(it, _)| it.value == name);
        declared(tool).or_else(|| declared("*")).map_or(Effect::Destructive, |(_, effect)| *effect)
    }

    /// Returns the worst effect that a tool of it may have that is not named.
    pub(crate) fn effects(&self) -> Vec<Effect> {
        match &self.tools {
            Some(tools) => tools.iter().map(|tool| self.effect(&tool.value)).collect(),
            None => {
                let declared = self.effects.iter().map(|(_, effect)| *effect);
                declared.chain([self.effect("*")]).collect()
            }
        }
    }
}

fn reach(section: &mut TableReader<'_>) -> ServerTransport {
    let (program, url) = (section.text("command"), section.text("url"));
    let args = section.texts("args").unwrap_or_default().into_iter().map(|text| text.value).collect();
    let folder = section.path("folder").map(|path| path.value);
    let (env, headers) = (settings(section, "env"), settings(section, "headers"));
    match (program, url) {
        (Some(_), Some(url)) => {
            let what = format!(
                "`{}` beside `command`: a server is started or addressed, not both",
                section.called("url")
            );
            section.faults().plain(url.at, MistakeKind::Contradiction, what);
            ServerTransport::Unknown
        }
        (Some(program), None) => {
            foreign(section, &["headers"], "url");
            ServerTransport::Command { program, args, folder, env }
        }
        (None, Some(url)) => {
            foreign(section, &["args", "folder", "env"], "command");
            if let Err(what) = crate::model::check_base_url(&url.value) {
                section.faults().plain(
                    url.at,
                    MistakeKind::Value,
                    format!("`{}` {what}", section.called("url")),
                );
                return ServerTransport::Unknown;
            }
            ServerTransport::Url { url: url.value, headers }
        }
        (None, None) => {
            if section.raw("command").is_none() && section.raw("url").is_none() {
                section.missing("command", "the program to start, or the `url` of a server that runs");
            }
            ServerTransport::Unknown
        }
    }
}

/// Counts keys that say nothing without another one as mistakes.
fn foreign(section: &mut TableReader<'_>, keys: &[&'static str], needs: &str) {
    for key in keys {
        if let Some((at, _)) = section.raw(key) {
            let what = format!("`{}` says nothing without `{needs}`", section.called(key));
            section.faults().plain(at, MistakeKind::Contradiction, what);
        }
    }
}

fn effects(section: TableReader<'_>) -> Vec<(LocatedValue<String>, Effect)> {
    let mut effects = Vec::new();
    for (tool, value) in section.entries() {
        let words = EFFECTS.map(|(word, _)| word);
        match value.get_ref().as_str().map(|word| (word, effect(word))) {
            Some((_, Some(effect))) => effects.push((tool, effect)),
            Some((word, None)) => {
                let what = format!("`{}` must be the word of an effect", section.called(&shown(&tool.value)));
                let hint = did_you_mean(word, words);
                section.faults().add(value.span().start, MistakeKind::Value, what, hint);
            }
            None => section.unfit(&shown(&tool.value), value, "the word of an effect"),
        }
    }
    effects
}

/// Variables and headers: texts, or where a secret comes from. A value whose name marks it as secret may not stand in
/// the file.
fn settings(section: &mut TableReader<'_>, key: &'static str) -> Vec<(String, ServerSetting)> {
    let Some(inner) = section.section(key) else { return Vec::new() };
    let mut settings = Vec::new();
    for (name, value) in inner.entries() {
        let upper = name.value.to_ascii_uppercase();
        let secret = SECRETS.iter().any(|it| upper.contains(it));
        let setting = match value.get_ref().as_str().filter(|_| !secret) {
            Some(text) => Some(ServerSetting::Plain(text.to_owned())),
            None => SecretSource::of(&inner, &shown(&name.value), value).map(ServerSetting::Secret),
        };
        settings.extend(setting.map(|setting| (name.value, setting)));
    }
    settings
}
