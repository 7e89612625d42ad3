//! One table of the file, read key by key.
//!
//! Every mistake is recorded and reading goes on, so that a report holds everything. The type and range of a key are
//! given where it is read; at the end every key that was not read is a mistake.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Number, Value};
use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

use crate::quantity;
use crate::report::{MistakeCollector, MistakeKind};
use crate::spot::LocatedValue;
use crate::suggest::did_you_mean;

/// The maximum length of an icon in characters: an emoji may have several.
const ICON_CHARS: usize = 16;

/// A table that is being read.
#[derive(Debug)]
pub(crate) struct TableReader<'t> {
    table: &'t DeTable<'t>,
    /// Where it begins.
    pub(crate) at: usize,
    /// How people would call it, as in `models.main`; empty for the whole file.
    name: String,
    faults: &'t MistakeCollector,
    known: Vec<&'static str>,
}

impl<'t> TableReader<'t> {
    pub(crate) fn new(
        table: &'t DeTable<'t>,
        at: usize,
        name: impl Into<String>,
        faults: &'t MistakeCollector,
    ) -> Self {
        Self { table, at, name: name.into(), faults, known: Vec::new() }
    }

    pub(crate) fn mistakes(&self) -> &'t MistakeCollector {
        self.faults
    }

    /// Says how people call a key of this table.
    pub(crate) fn qualified_key(&self, key: &str) -> String {
        if self.name.is_empty() { key.to_owned() } else { format!("{}.{key}", self.name) }
    }

    /// Returns a value as it is, and counts the key as known.
    pub(crate) fn take_raw_value(&mut self, key: &'static str) -> Option<(usize, &'t Spanned<DeValue<'t>>)> {
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        let found = self.table.iter().find(|(name, _)| name.get_ref() == key);
        found.map(|(name, value)| (name.span().start, value))
    }

    /// Returns the keys and values as they are, in the order of the text, where all names are free.
    pub(crate) fn ordered_entries(&self) -> Vec<(LocatedValue<String>, &'t Spanned<DeValue<'t>>)> {
        let entry = |(name, value): (&'t Spanned<_>, &'t Spanned<DeValue<'t>>)| {
            let text: &std::borrow::Cow<'t, str> = name.get_ref();
            (LocatedValue::new(text.to_string(), name.span().start), value)
        };
        let mut entries: Vec<_> = self.table.iter().map(entry).collect();
        entries.sort_by_key(|(name, _)| name.at);
        entries
    }

    /// Reports that a value is not of the required kind. The actual value is described by its type only: it may be a
    /// secret.
    pub(crate) fn report_unfit_value(&self, key: &str, value: &Spanned<DeValue<'_>>, must: &str) {
        let what = format!(
            "`{}` must be {must}, not {}",
            self.qualified_key(key),
            describe_value_type(value.get_ref())
        );
        self.faults.add_mistake(value.span().start, MistakeKind::Value, what);
    }

    /// Says that a key is missing.
    pub(crate) fn report_missing_key(&self, key: &str, hint: &str) {
        let what = format!("`{}` is missing", self.qualified_key(key));
        self.faults.add_with_hint(self.at, MistakeKind::Missing, what, hint.to_owned());
    }

    /// Reads a key with a function; a value that the function does not take is a mistake.
    fn read_value_with<T>(
        &mut self,
        key: &'static str,
        must: &str,
        take: impl FnOnce(&DeValue<'t>) -> Option<T>,
    ) -> Option<LocatedValue<T>> {
        let (_, value) = self.take_raw_value(key)?;
        match take(value.get_ref()) {
            Some(taken) => Some(LocatedValue::new(taken, value.span().start)),
            None => {
                self.report_unfit_value(key, value, must);
                None
            }
        }
    }

    pub(crate) fn read_text(&mut self, key: &'static str) -> Option<LocatedValue<String>> {
        let must = "a text that is not empty";
        self.read_value_with(key, must, |it| {
            it.as_str().filter(|text| !text.trim().is_empty()).map(str::to_owned)
        })
    }

    /// Reads an icon: an emoji or a few letters.
    pub(crate) fn read_icon(&mut self, key: &'static str) -> Option<String> {
        let fits = |text: &&str| !text.trim().is_empty() && text.chars().count() <= ICON_CHARS;
        self.read_value_with(key, "an emoji or a few letters", |value| {
            value.as_str().filter(fits).map(str::to_owned)
        })
        .map(|value| value.value)
    }

    /// Reads a colour in CSS notation, with three or six hexadecimal digits.
    pub(crate) fn read_color(&mut self, key: &'static str) -> Option<String> {
        let fits = |text: &&str| {
            let digits = text.strip_prefix('#').unwrap_or_default();
            matches!(digits.len(), 3 | 6) && digits.bytes().all(|value| value.is_ascii_hexdigit())
        };
        self.read_value_with(key, "a colour as in \"#3366cc\"", |value| {
            value.as_str().filter(fits).map(str::to_owned)
        })
        .map(|value| value.value)
    }

    pub(crate) fn read_path(&mut self, key: &'static str) -> Option<LocatedValue<PathBuf>> {
        self.read_text(key).map(|text| LocatedValue::new(PathBuf::from(text.value), text.at))
    }

    pub(crate) fn read_flag(&mut self, key: &'static str) -> Option<bool> {
        self.read_value_with(key, "true or false", DeValue::as_bool).map(|it| it.value)
    }

    /// A whole number, at least `least`.
    pub(crate) fn read_count(&mut self, key: &'static str, least: u64) -> Option<LocatedValue<u64>> {
        let must = format!("a whole number, {least} or more");
        self.read_value_with(key, &must, |it| {
            it.as_integer()
                .and_then(parse_integer)
                .and_then(|it| u64::try_from(it).ok())
                .filter(|it| *it >= least)
        })
    }

    /// A whole number of either sign.
    pub(crate) fn read_integer(&mut self, key: &'static str) -> Option<i64> {
        self.read_value_with(key, "a whole number", |it| it.as_integer().and_then(parse_integer))
            .map(|it| it.value)
    }

    /// A number that is not infinite.
    pub(crate) fn read_number(&mut self, key: &'static str) -> Option<f64> {
        self.read_value_with(key, "a number", parse_finite_number).map(|it| it.value)
    }

    pub(crate) fn read_duration(&mut self, key: &'static str) -> Option<Duration> {
        let must = "a length of time as in \"30s\" (ms, s, m, h, d)";
        self.read_value_with(key, must, |it| it.as_str().and_then(quantity::parse_duration))
            .map(|it| it.value)
    }

    /// An amount of bytes: a number, or a text with a unit.
    pub(crate) fn read_byte_count(&mut self, key: &'static str) -> Option<u64> {
        let must = "an amount of bytes as in \"64KiB\" (B, kB, KiB, MB, MiB, GB, GiB)";
        let take = |it: &DeValue<'_>| match it.as_integer() {
            Some(it) => parse_integer(it).and_then(|whole| u64::try_from(whole).ok()).filter(|it| *it > 0),
            None => it.as_str().and_then(quantity::parse_byte_count),
        };
        self.read_value_with(key, must, take).map(|it| it.value)
    }

    /// One word of several.
    pub(crate) fn read_choice<T: Copy>(
        &mut self,
        key: &'static str,
        words: &[(&str, T)],
    ) -> Option<LocatedValue<T>> {
        let word = self.read_text(key)?;
        if let Some((_, choice)) = words.iter().find(|(it, _)| *it == word.value) {
            return Some(LocatedValue::new(*choice, word.at));
        }
        let all: Vec<String> = words.iter().map(|(it, _)| format!("\"{it}\"")).collect();
        let what = format!("`{}` must be one of {}", self.qualified_key(key), all.join(", "));
        let near = crate::suggest::nearest_word(&word.value, words.iter().map(|(it, _)| *it));
        let hint = near.map(|near| format!("did you mean `{near}`?"));
        self.faults.add_with_hint(word.at, MistakeKind::Value, what, hint);
        None
    }

    /// A list of texts; those that are none are left out.
    pub(crate) fn read_text_list(&mut self, key: &'static str) -> Option<Vec<LocatedValue<String>>> {
        let (_, value) = self.take_raw_value(key)?;
        let must = "a list of texts as in [\"one\", \"two\"]";
        let Some(array) = value.get_ref().as_array() else {
            self.report_unfit_value(key, value, must);
            return None;
        };
        let mut texts = Vec::new();
        for item in array.iter() {
            match item.get_ref().as_str().filter(|text| !text.trim().is_empty()) {
                Some(text) => texts.push(LocatedValue::new(text.to_owned(), item.span().start)),
                None => self.report_unfit_value(key, item, must),
            }
        }
        Some(texts)
    }

    /// A table inside this one.
    pub(crate) fn open_section(&mut self, key: &'static str) -> Option<Self> {
        let (at, value) = self.take_raw_value(key)?;
        match value.get_ref().as_table() {
            Some(table) => Some(Self::new(table, at, self.qualified_key(key), self.faults)),
            None => {
                self.report_unfit_value(key, value, "a table");
                None
            }
        }
    }

    /// The tables inside a table of free names, in the order of the text, as in `[models.main]`.
    pub(crate) fn open_named_sections(&mut self, key: &'static str) -> Vec<(LocatedValue<String>, Self)> {
        let Some(section) = self.open_section(key) else { return Vec::new() };
        let mut named = Vec::new();
        for (name, value) in section.ordered_entries() {
            if !is_valid_name(&name.value) {
                let what = format!(
                    "a name in `{}` is made of letters, digits, `_` and `-`, 64 at most",
                    section.name
                );
                self.faults.add_mistake(name.at, MistakeKind::Value, what);
                continue;
            }
            match value.get_ref().as_table() {
                Some(table) => {
                    let inner = Self::new(table, name.at, section.qualified_key(&name.value), self.faults);
                    named.push((name, inner));
                }
                None => section.report_unfit_value(&name.value, value, "a table"),
            }
        }
        named
    }

    /// Any JSON object.
    pub(crate) fn read_json_object(&mut self, key: &'static str) -> Option<Map<String, Value>> {
        let (_, value) = self.take_raw_value(key)?;
        match convert_to_json(value.get_ref()) {
            Some(Value::Object(object)) => Some(object),
            Some(_) | None => {
                self.report_unfit_value(key, value, "a table of plain values");
                None
            }
        }
    }

    /// Counts keys that were not asked for as mistakes.
    pub(crate) fn report_unknown_keys(self) {
        for (name, _) in self.ordered_entries() {
            if self.known.contains(&name.value.as_str()) {
                continue;
            }
            let place =
                if self.name.is_empty() { "this file".to_owned() } else { format!("`{}`", self.name) };
            let what = format!("{place} has no key `{}`", printable_name(&name.value));
            let hint = habitual_key_hint(&name.value, &self.known)
                .or_else(|| did_you_mean(&name.value, self.known.iter().copied()));
            self.faults.add_with_hint(name.at, MistakeKind::UnknownKey, what, hint);
        }
    }
}

/// Returns a hint for names that other tools use, where the name to use instead is a key here.
fn habitual_key_hint(key: &str, known: &[&str]) -> Option<String> {
    const HABITS: &[(&str, &str, &str)] = &[
        ("api_key", "key", "write `key = { env = \"NAME\" }`"),
        ("apikey", "key", "write `key = { env = \"NAME\" }`"),
        ("token", "key", "write `key = { env = \"NAME\" }`"),
        ("api_key_env", "key", "write `key = { env = \"NAME\" }`"),
        ("provider", "wire", "it is called `wire` here"),
        ("kind", "wire", "it is called `wire` here"),
        ("model", "name", "it is called `name` here"),
        ("url", "base_url", "it is called `base_url` here"),
        ("temperature", "sampling", "it stands in `sampling` here: `sampling = { temperature = 0.2 }`"),
        ("max_tokens", "sampling", "it stands in `sampling` here: `sampling = { max_tokens = 1000 }`"),
        ("top_p", "sampling", "it stands in `sampling` here: `sampling = { top_p = 0.9 }`"),
        ("timeout", "time", "it stands in `time` here: `time = { answer = \"2m\" }`"),
        ("max_retries", "retry", "it stands in `retry` here: `retry = { attempts = 3 }`"),
        ("system", "instructions", "it is called `instructions` here"),
        ("system_prompt", "instructions", "it is called `instructions` here"),
        ("handoffs", "hand_offs", "it is called `hand_offs` here"),
        ("mcp_servers", "mcp", "they stand in `[mcp.NAME]` here"),
        ("mcpServers", "mcp", "they stand in `[mcp.NAME]` here"),
        ("approvals", "approval", "it is called `approval` here"),
        ("timeout", "call_time", "it is called `call_time` here"),
        ("port", "listen", "write `listen = \"127.0.0.1:8787\"`"),
        ("host", "listen", "write `listen = \"127.0.0.1:8787\"`"),
        ("cors", "origins", "it is called `origins` here"),
        ("jwks", "key_set", "it is called `key_set` here"),
        (
            "notes",
            "call_time",
            "notes are kept in the database, each with its conversation: take this table away",
        ),
        (
            "outbox",
            "call_time",
            "messages are kept in the database: take this table away, and deliver them by `singletree outbox`",
        ),
        ("enabled_tools", "tools", "it is called `tools` here"),
    ];
    let plain = key.to_ascii_lowercase().replace('-', "_");
    let found =
        HABITS.iter().find(|(habit, here, _)| (*habit == key || *habit == plain) && known.contains(here));
    found.map(|(_, _, hint)| (*hint).to_owned())
}

/// Cuts a text that is too long for a line, and removes characters that would control a terminal.
pub(crate) fn printable_name(name: &str) -> String {
    let plain: String = name.chars().filter(|letter| !letter.is_control()).take(65).collect();
    if plain.chars().count() > 64 {
        format!("{}…", plain.chars().take(40).collect::<String>())
    } else {
        plain
    }
}

pub(crate) fn is_valid_name(name: &str) -> bool {
    let fits = |it: char| it.is_ascii_alphanumeric() || matches!(it, '_' | '-');
    (1..=64).contains(&name.len()) && name.chars().all(fits)
}

fn describe_value_type(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(text) if text.trim().is_empty() => "an empty text",
        DeValue::String(_) => "this text",
        DeValue::Integer(_) => "this whole number",
        DeValue::Float(_) => "this number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

fn parse_integer(integer: &DeInteger<'_>) -> Option<i64> {
    i64::from_str_radix(integer.as_str(), integer.radix()).ok()
}

fn parse_finite_number(value: &DeValue<'_>) -> Option<f64> {
    let text = match value {
        DeValue::Integer(integer) => return parse_integer(integer).map(|whole| whole as f64),
        DeValue::Float(float) => float.as_str(),
        DeValue::String(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_)
        | DeValue::Array(_)
        | DeValue::Table(_) => {
            return None;
        }
    };
    text.parse().ok().filter(|it: &f64| it.is_finite())
}

/// Makes JSON of a value; a date or a number that JSON does not know is none.
pub(crate) fn convert_to_json(value: &DeValue<'_>) -> Option<Value> {
    match value {
        DeValue::String(text) => Some(Value::String(text.to_string())),
        DeValue::Integer(integer) => parse_integer(integer).map(|whole| Value::Number(whole.into())),
        DeValue::Float(_) => parse_finite_number(value).and_then(Number::from_f64).map(Value::Number),
        DeValue::Boolean(flag) => Some(Value::Bool(*flag)),
        DeValue::Datetime(_) => None,
        DeValue::Array(array) => {
            array.iter().map(|it| convert_to_json(it.get_ref())).collect::<Option<_>>().map(Value::Array)
        }
        DeValue::Table(table) => {
            let entry = |(name, value): (&Spanned<std::borrow::Cow<'_, str>>, &Spanned<DeValue<'_>>)| {
                Some((name.get_ref().to_string(), convert_to_json(value.get_ref())?))
            };
            table.iter().map(entry).collect::<Option<_>>().map(Value::Object)
        }
    }
}
