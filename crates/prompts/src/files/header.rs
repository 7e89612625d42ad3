//! The header of a prompt's file.

use serde::Deserialize;
use serde_json::Value;
use singletree_llm::{Map, RuntimeConfig};

/// The line before and after the header.
const FENCE: &str = "+++";

/// The first line of other tools' headers.
const YAML_FENCE: &str = "---";

/// The content of a header.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PromptFileHeader {
    pub(super) version: Option<String>,
    pub(super) labels: Option<Vec<String>>,
    pub(super) description: Option<String>,
    pub(super) sampling: Option<SamplingFields>,
    pub(super) token_budget: Option<Value>,
    pub(super) observability_entities: Option<Map>,
    pub(super) metadata: Option<Map>,
}

/// The fields of a runtime configuration, by the specification's names.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SamplingFields {
    temperature: Option<f64>,
    max_tokens: Option<u64>,
    top_p: Option<f64>,
    seed: Option<i64>,
    frequency_penalty: Option<f64>,
    presence_penalty: Option<f64>,
    stop_sequences: Option<Vec<String>>,
    #[serde(default)]
    extras: Map,
}

impl From<SamplingFields> for RuntimeConfig {
    fn from(it: SamplingFields) -> Self {
        Self {
            temperature: it.temperature,
            max_tokens: it.max_tokens,
            top_p: it.top_p,
            seed: it.seed,
            frequency_penalty: it.frequency_penalty,
            presence_penalty: it.presence_penalty,
            stop_sequences: it.stop_sequences,
            extras: it.extras,
        }
    }
}

/// A mistake and the line where it is, from 1.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PromptFileMistake {
    pub(super) line: usize,
    pub(super) what: String,
}

impl PromptFileMistake {
    pub(super) fn at_line(line: usize, what: impl Into<String>) -> Self {
        Self { line, what: what.into() }
    }
}

/// Takes a file apart: its header, its body, and the line where the body begins.
pub(super) fn split_header(text: &str) -> Result<(PromptFileHeader, &str, usize), PromptFileMistake> {
    let first = text.lines().next().unwrap_or_default().trim_end();
    if first == YAML_FENCE {
        let what = "a header is TOML between two lines '+++'; text that begins with '---' needs an empty header before it";
        return Err(PromptFileMistake::at_line(1, what));
    }
    if first != FENCE {
        return Ok((PromptFileHeader::default(), text, 1));
    }
    let mut end = text.find('\n').map_or(text.len(), |text| text + 1);
    let begin = end;
    for (at, line) in text[begin..].split_inclusive('\n').enumerate() {
        let next = end + line.len();
        if line.trim_end() == FENCE {
            return Ok((parse_header(&text[begin..end])?, &text[next..], at + 3));
        }
        end = next;
    }
    Err(PromptFileMistake::at_line(1, "the header has no end: a second line '+++'"))
}

fn parse_header(header: &str) -> Result<PromptFileHeader, PromptFileMistake> {
    toml::from_str(header).map_err(|error: toml::de::Error| {
        let before = error.span().and_then(|span| header.get(..span.start)).unwrap_or_default();
        // One for the fence, one because lines count from 1.
        PromptFileMistake::at_line(before.matches('\n').count() + 2, error.message())
    })
}
