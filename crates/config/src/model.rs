//! `[models.NAME]`: which model, where, and how it is asked.

use std::path::PathBuf;
use std::time::Duration;

use singletree_llm::RuntimeConfig;
use singletree_providers::Wire;

use crate::report::MistakeKind;
use crate::secret_source::SecretSource;
use crate::section::TableReader;
use crate::spot::LocatedValue;

/// A model, as the file has it.
#[derive(Debug, Clone)]
pub(crate) struct ModelTable {
    pub(crate) name: LocatedValue<String>,
    pub(crate) backend: ModelBackend,
    pub(crate) sampling: RuntimeConfig,
    pub(crate) time: ModelTime,
    pub(crate) retry: ModelRetry,
}

/// Who answers.
#[derive(Debug, Clone)]
pub(crate) enum ModelBackend {
    /// A server.
    Http(HttpModel),
    /// A file of rules.
    Script(LocatedValue<PathBuf>),
    /// Unknown: the value is wrong, and was reported.
    Unknown,
}

/// A model behind a server.
#[derive(Debug, Clone)]
pub(crate) struct HttpModel {
    pub(crate) wire: Wire,
    /// The server's name for the model.
    pub(crate) model: String,
    pub(crate) base_url: Option<String>,
    pub(crate) key: Option<SecretSource>,
    pub(crate) streaming: Option<bool>,
    pub(crate) images: Option<bool>,
    pub(crate) structured_output: Option<bool>,
    /// Whether the caller's `baggage` goes on to the server.
    pub(crate) baggage: Option<bool>,
}

/// How long a model may take. An absent value is the client's default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ModelTime {
    pub(crate) connect: Option<Duration>,
    pub(crate) first: Option<Duration>,
    pub(crate) idle: Option<Duration>,
    pub(crate) answer: Option<Duration>,
}

/// How often a model is asked again. An absent value is the loop's default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ModelRetry {
    pub(crate) attempts: Option<u64>,
    pub(crate) pause: Option<Duration>,
    pub(crate) longest_pause: Option<Duration>,
}

/// How many tokens an answer may have where nothing is said and the wire wants a number: every model of the vendor
/// gives as many.
const ANTHROPIC_TOKENS: u64 = 4096;

/// The words of `wire`.
const WIRES: &[(&str, Option<Wire>)] = &[
    ("openai", Some(Wire::OpenAi)),
    ("anthropic", Some(Wire::Anthropic)),
    ("gemini", Some(Wire::Gemini)),
    ("script", None),
];

impl ModelTable {
    pub(crate) fn from_section((name, mut section): (LocatedValue<String>, TableReader<'_>)) -> Self {
        let wire = section.read_choice("wire", WIRES);
        let spoken = wire.as_ref().and_then(|wire| wire.value);
        let backend = read_backend(&mut section, wire);
        let sampling = section
            .open_section("sampling")
            .map(|section| read_sampling(section, spoken))
            .unwrap_or_default();
        let model = Self {
            name,
            backend,
            sampling: spoken.map_or_else(RuntimeConfig::default, required_sampling).overridden_by(&sampling),
            time: section.open_section("time").map(read_model_time).unwrap_or_default(),
            retry: section.open_section("retry").map(read_model_retry).unwrap_or_default(),
        };
        section.report_unknown_keys();
        model
    }
}

/// Reports the keys that a model behind a server lacks.
fn report_missing_server_keys(section: &mut TableReader<'_>, wire: Wire, is_reachable: bool) {
    if section.take_raw_value("name").is_none() {
        section.report_missing_key(
            "name",
            &format!("what the vendor calls the model, as in `name = \"{}\"`", example_model_name(wire)),
        );
    }
    if !is_reachable {
        let hint = format!(
            "write `key = {{ env = \"{}\" }}`, or the `base_url` of a server that wants none",
            key_variable_name(wire)
        );
        section.report_missing_key("key", &hint);
    }
}

/// Keys that say nothing to a model that is a file of rules.
const SERVER_KEYS: [&str; 8] =
    ["name", "base_url", "key", "streaming", "images", "structured_output", "baggage", "retry"];

fn read_backend(section: &mut TableReader<'_>, wire: Option<LocatedValue<Option<Wire>>>) -> ModelBackend {
    // All of them are read, whatever the wire is: each may be wrong in itself.
    let (file, model) = (section.read_path("file"), section.read_text("name"));
    let base_url = read_base_url(section);
    let has_base_url = section.take_raw_value("base_url").is_some();
    let has_key = section.take_raw_value("key");
    let key = SecretSource::from_section_key(section, "key");
    let (streaming, images) = (section.read_flag("streaming"), section.read_flag("images"));
    let (structured_output, baggage) = (section.read_flag("structured_output"), section.read_flag("baggage"));
    match wire.map(|wire| wire.value) {
        Some(Some(wire)) => {
            if let Some(file) = file {
                let what = "`file` is for models of wire \"script\"";
                section.mistakes().add_mistake(file.at, MistakeKind::Contradiction, what);
            }
            report_missing_server_keys(section, wire, has_base_url || has_key.is_some());
            let Some(model) = model else { return ModelBackend::Unknown };
            let model = model.value;
            ModelBackend::Http(HttpModel {
                wire,
                model,
                base_url,
                key,
                streaming,
                images,
                structured_output,
                baggage,
            })
        }
        Some(None) => {
            for key in SERVER_KEYS {
                if let Some((at, _)) = section.take_raw_value(key) {
                    let what = format!("`{key}` says nothing to a model of wire \"script\"");
                    section.mistakes().add_mistake(at, MistakeKind::Contradiction, what);
                }
            }
            match file {
                Some(file) => ModelBackend::Script(file),
                None => {
                    if section.take_raw_value("file").is_none() {
                        section.report_missing_key(
                            "file",
                            "the file of its rules, as in `file = \"script.json\"`",
                        );
                    }
                    ModelBackend::Unknown
                }
            }
        }
        None => {
            if section.take_raw_value("wire").is_none() {
                section
                    .report_missing_key("wire", "one of \"openai\", \"anthropic\", \"gemini\", \"script\"");
            }
            ModelBackend::Unknown
        }
    }
}

/// The address of a server: it may hold neither a password nor a query, for it is shown.
fn read_base_url(section: &mut TableReader<'_>) -> Option<String> {
    let url = section.read_text("base_url")?;
    match check_base_url(&url.value) {
        Ok(()) => Some(url.value),
        Err(what) => {
            section.mistakes().add_mistake(
                url.at,
                MistakeKind::Value,
                format!("`{}` {what}", section.qualified_key("base_url")),
            );
            None
        }
    }
}

/// Checks the address of a server. Describes the mistake without repeating the address.
pub(crate) fn check_base_url(url: &str) -> Result<(), &'static str> {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    let Some(rest) = rest else { return Err("must begin with http:// or https://") };
    let host = rest.split('/').next().unwrap_or_default();
    if host.contains('@') {
        return Err("must hold no name and no password");
    }
    if host.is_empty() || host.starts_with(':') {
        return Err("names no host");
    }
    if rest.contains(['?', '#']) || rest.contains(char::is_whitespace) || rest.contains(char::is_control) {
        return Err("must end with a path: no query, no fragment, no space");
    }
    url::Url::parse(url).map(drop).map_err(|_| "is no address")
}

/// Returns the default sampling of a model: only the settings that its wire requires.
pub(crate) fn required_sampling(wire: Wire) -> RuntimeConfig {
    let max_tokens = match wire {
        Wire::Anthropic => Some(ANTHROPIC_TOKENS),
        Wire::OpenAi | Wire::Gemini => None,
    };
    RuntimeConfig { max_tokens, ..RuntimeConfig::default() }
}

/// Tells which sampling parameters a wire has no word for: each call would be refused (llm-provider §8.2).
fn report_unsupported_sampling(section: &mut TableReader<'_>, wire: Option<Wire>) {
    let without: &[&'static str] = match wire {
        Some(Wire::Anthropic) => &["seed", "frequency_penalty", "presence_penalty"],
        Some(Wire::OpenAi | Wire::Gemini) | None => &[],
    };
    for key in without {
        if let Some((at, _)) = section.take_raw_value(key) {
            let what =
                format!("`{}` says nothing to a model of wire \"anthropic\"", section.qualified_key(key));
            section.mistakes().add_mistake(at, MistakeKind::Contradiction, what);
        }
    }
}

fn read_sampling(mut section: TableReader<'_>, wire: Option<Wire>) -> RuntimeConfig {
    report_unsupported_sampling(&mut section, wire);
    let stop = section.read_text_list("stop");
    let config = RuntimeConfig {
        temperature: section.read_number("temperature"),
        max_tokens: section.read_count("max_tokens", 1).map(|count| count.value),
        top_p: section.read_number("top_p"),
        seed: section.read_integer("seed"),
        frequency_penalty: section.read_number("frequency_penalty"),
        presence_penalty: section.read_number("presence_penalty"),
        stop_sequences: stop.map(|stop| stop.into_iter().map(|it| it.value).collect()),
        extras: section.read_json_object("extras").unwrap_or_default(),
    };
    section.report_unknown_keys();
    config
}

fn read_model_time(mut section: TableReader<'_>) -> ModelTime {
    let time = ModelTime {
        connect: section.read_duration("connect"),
        first: section.read_duration("first"),
        idle: section.read_duration("idle"),
        answer: section.read_duration("answer"),
    };
    section.report_unknown_keys();
    time
}

fn read_model_retry(mut section: TableReader<'_>) -> ModelRetry {
    let retry = ModelRetry {
        attempts: section.read_count("attempts", 1).map(|count| count.value),
        pause: section.read_duration("pause"),
        longest_pause: section.read_duration("longest_pause"),
    };
    section.report_unknown_keys();
    retry
}

fn example_model_name(wire: Wire) -> &'static str {
    match wire {
        Wire::OpenAi => "gpt-5-mini",
        Wire::Anthropic => "claude-sonnet-4-5",
        Wire::Gemini => "gemini-2.5-flash",
    }
}

/// Returns the environment variable in which a vendor's key usually is.
pub(crate) fn key_variable_name(wire: Wire) -> &'static str {
    match wire {
        Wire::OpenAi => "OPENAI_API_KEY",
        Wire::Anthropic => "ANTHROPIC_API_KEY",
        Wire::Gemini => "GEMINI_API_KEY",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_holds_no_secret_and_no_query() {
        let check = |url: &str, sound: bool| assert_eq!(check_base_url(url).is_ok(), sound, "{url}");
        check("http://127.0.0.1:8080", true);
        check("https://openrouter.ai/api/v1", true);
        check("http://[::1]:8080/v1/", true);
        for wrong in ["", "api.openai.com", "ftp://x", "http://", "http://:80", "https://me:secret@x/v1"] {
            check(wrong, false);
        }
        check("http://a%zz", false);
        check("http://h:99999", false);
        check("https://x/v1?key=secret", false);
        check("https://x/v 1", false);
    }
}
