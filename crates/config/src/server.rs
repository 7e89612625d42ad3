//! `[mcp.NAME]`: an MCP server, and the effects of its tools.

use std::path::PathBuf;
use std::time::Duration;

use singletree_http::Secret;
use singletree_tools::Effect;

use crate::approval::{EFFECTS, parse_effect};
use crate::report::{MistakeCollector, MistakeKind};
use crate::secret_source::SecretSource;
use crate::section::{TableReader, printable_name};
use crate::spot::LocatedValue;
use crate::suggest::did_you_mean;
use crate::surroundings::Surroundings;

/// An MCP server, as the file has it.
#[derive(Debug, Clone)]
pub(crate) struct McpServerTable {
    pub(crate) name: LocatedValue<String>,
    pub(crate) reach: ServerTransport,
    /// Whether the server's own hints about its tools' effects count, where the file says nothing.
    pub(crate) trust_hints: bool,
    /// Whether the caller's `baggage` goes on to it.
    pub(crate) baggage: bool,
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

impl ServerSetting {
    /// Returns the value, and whether it is a secret. A secret that cannot be fetched is a mistake.
    pub(crate) fn resolve(
        &self,
        around: &Surroundings<'_>,
        faults: &MistakeCollector,
    ) -> Option<(Secret, bool)> {
        match self {
            Self::Plain(text) => Some((Secret::new(text.as_str()), false)),
            Self::Secret(source) => source.fetch_secret(around, faults).map(|fetched| (fetched, true)),
        }
    }
}

/// Words in the names of settings that are secret.
const SECRETS: [&str; 7] = ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "AUTHORIZATION"];

impl McpServerTable {
    pub(crate) fn from_section((name, mut section): (LocatedValue<String>, TableReader<'_>)) -> Self {
        let reach = read_transport(&mut section);
        let effects = section.open_section("effects").map(read_tool_effects).unwrap_or_default();
        let server = Self {
            name,
            reach,
            effects,
            trust_hints: section.read_flag("trust_hints").unwrap_or(false),
            baggage: section.read_flag("baggage").unwrap_or(true),
            tools: section.read_text_list("tools"),
            start_time: section.read_duration("start_time"),
            call_time: section.read_duration("call_time"),
        };
        section.report_unknown_keys();
        server
    }

    /// Returns the effect of one of its tools. A tool without a declared effect counts as dangerous.
    pub(crate) fn effect_of_tool(&self, tool: &str) -> Effect {
        let declared = |name: &str| self.effects.iter().find(|(it, _)| it.value == name);
        declared(tool).or_else(|| declared("*")).map_or(Effect::Destructive, |(_, effect)| *effect)
    }

    /// Returns the worst effect that a tool of it may have that is not named.
    pub(crate) fn possible_effects(&self) -> Vec<Effect> {
        match &self.tools {
            Some(tools) => tools.iter().map(|tool| self.effect_of_tool(&tool.value)).collect(),
            None => {
                let declared = self.effects.iter().map(|(_, effect)| *effect);
                declared.chain([self.effect_of_tool("*")]).collect()
            }
        }
    }
}

fn read_transport(section: &mut TableReader<'_>) -> ServerTransport {
    let (program, url) = (section.read_text("command"), section.read_text("url"));
    let args =
        section.read_text_list("args").unwrap_or_default().into_iter().map(|text| text.value).collect();
    let folder = section.read_path("folder").map(|path| path.value);
    let (env, headers) = (read_settings(section, "env"), read_settings(section, "headers"));
    match (program, url) {
        (Some(_), Some(url)) => {
            let what = format!(
                "`{}` beside `command`: a server is started or addressed, not both",
                section.qualified_key("url")
            );
            section.mistakes().add_mistake(url.at, MistakeKind::Contradiction, what);
            ServerTransport::Unknown
        }
        (Some(program), None) => {
            report_unrelated_keys(section, &["headers"], "url");
            ServerTransport::Command { program, args, folder, env }
        }
        (None, Some(url)) => {
            report_unrelated_keys(section, &["args", "folder", "env"], "command");
            if let Err(what) = crate::model::check_base_url(&url.value) {
                section.mistakes().add_mistake(
                    url.at,
                    MistakeKind::Value,
                    format!("`{}` {what}", section.qualified_key("url")),
                );
                return ServerTransport::Unknown;
            }
            ServerTransport::Url { url: url.value, headers }
        }
        (None, None) => {
            if section.take_raw_value("command").is_none() && section.take_raw_value("url").is_none() {
                section.report_missing_key(
                    "command",
                    "the program to start, or the `url` of a server that runs",
                );
            }
            ServerTransport::Unknown
        }
    }
}

/// Counts keys that say nothing without another one as mistakes.
fn report_unrelated_keys(section: &mut TableReader<'_>, keys: &[&'static str], needs: &str) {
    for key in keys {
        if let Some((at, _)) = section.take_raw_value(key) {
            let what = format!("`{}` says nothing without `{needs}`", section.qualified_key(key));
            section.mistakes().add_mistake(at, MistakeKind::Contradiction, what);
        }
    }
}

fn read_tool_effects(section: TableReader<'_>) -> Vec<(LocatedValue<String>, Effect)> {
    let mut effects = Vec::new();
    for (tool, value) in section.ordered_entries() {
        let words = EFFECTS.map(|(word, _)| word);
        match value.get_ref().as_str().map(|word| (word, parse_effect(word))) {
            Some((_, Some(effect))) => effects.push((tool, effect)),
            Some((word, None)) => {
                let what = format!(
                    "`{}` must be the word of an effect",
                    section.qualified_key(&printable_name(&tool.value))
                );
                let hint = did_you_mean(word, words);
                section.mistakes().add_with_hint(value.span().start, MistakeKind::Value, what, hint);
            }
            None => section.report_unfit_value(&printable_name(&tool.value), value, "the word of an effect"),
        }
    }
    effects
}

/// Variables and headers: texts, or where a secret comes from. A value whose name marks it as secret may not stand in
/// the file.
pub(crate) fn read_settings(
    section: &mut TableReader<'_>,
    key: &'static str,
) -> Vec<(String, ServerSetting)> {
    let Some(inner) = section.open_section(key) else { return Vec::new() };
    let mut settings = Vec::new();
    for (name, value) in inner.ordered_entries() {
        let upper = name.value.to_ascii_uppercase();
        let secret = SECRETS.iter().any(|it| upper.contains(it));
        let setting = match value.get_ref().as_str().filter(|_| !secret) {
            Some(text) => Some(ServerSetting::Plain(text.to_owned())),
            None => SecretSource::from_table_value(&inner, &printable_name(&name.value), value)
                .map(ServerSetting::Secret),
        };
        settings.extend(setting.map(|setting| (name.value, setting)));
    }
    settings
}
