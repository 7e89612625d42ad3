//! `[telemetry]`: where the traces of turns are sent.

use std::time::Duration;

use singletree_http::{Secret, is_this_machine};
use singletree_telemetry::SpanProfile;

use crate::report::{MistakeCollector, MistakeKind};
use crate::section::TableReader;
use crate::server::{ServerSetting, read_settings};
use crate::spot::LocatedValue;
use crate::surroundings::Surroundings;

/// The words of the profiles.
const PROFILES: [(&str, SpanProfile); 2] =
    [("openarmature", SpanProfile::OpenArmature), ("genai", SpanProfile::GenAi)];

/// The path of OTLP's requests for traces, for an address without one.
const TRACES_PATH: &str = "/v1/traces";

/// The path of OTLP's requests for metrics.
const METRICS_PATH: &str = "/v1/metrics";

/// The time between two sendings of metrics, where the file says nothing: that of OpenTelemetry's.
const METRICS_EVERY: Duration = Duration::from_mins(1);

const SHORTEST_METRICS_EVERY: Duration = Duration::from_secs(1);

/// The name of the service, where the file says nothing.
const SERVICE: &str = "singletree";

/// Where the traces of turns are sent, as the file has it. An absent value is the exporter's default.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TelemetrySettings {
    /// The address that takes traces by OTLP over HTTP.
    pub endpoint: String,
    /// Headers of each request.
    pub headers: Vec<(String, Secret)>,
    /// Whose names spans and attributes have.
    pub profile: SpanProfile,
    /// Whether spans hold texts, arguments and results.
    pub payloads: bool,
    /// The name of the service that the spans come from.
    pub service: String,
    /// The share of invocations that are sent, from 0 to 1; all, where nothing is said.
    pub share: Option<f64>,
    /// The shares of agents.
    pub agent_shares: Vec<(String, f64)>,
    /// How long after its end a turn is still sent.
    pub max_age: Option<Duration>,
    /// The bytes of one tenant's turns that wait to be sent.
    pub max_bytes: Option<u64>,
    /// Where a server sends its metrics, if it does.
    pub metrics: Option<MetricSettings>,
}

/// Where a server sends its metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MetricSettings {
    /// The address that takes metrics by OTLP over HTTP.
    pub endpoint: String,
    /// The time between two sendings.
    pub every: Duration,
}

impl TelemetrySettings {
    /// Makes the settings of an address of which nothing else is said.
    #[must_use]
    pub fn new(endpoint: String) -> Self {
        Self {
            endpoint: add_path(endpoint),
            headers: Vec::new(),
            profile: SpanProfile::default(),
            payloads: false,
            service: SERVICE.to_owned(),
            share: None,
            agent_shares: Vec::new(),
            max_age: None,
            max_bytes: None,
            metrics: None,
        }
    }

    /// Sets another address, and leaves out the headers: their secrets are for the first one.
    #[must_use]
    pub fn with_endpoint(self, endpoint: String) -> Self {
        Self { endpoint: add_path(endpoint), headers: Vec::new(), ..self }
    }
}

/// The table, before its secrets were fetched.
#[derive(Debug, Clone)]
pub(crate) struct TelemetryTable {
    endpoint: Option<String>,
    headers: Vec<(String, ServerSetting)>,
    profile: SpanProfile,
    payloads: bool,
    service: Option<String>,
    share: Option<f64>,
    pub(crate) agent_shares: Vec<(LocatedValue<String>, f64)>,
    max_age: Option<Duration>,
    max_bytes: Option<u64>,
    metrics: Option<MetricSettings>,
}

impl TelemetryTable {
    pub(crate) fn from_section(mut section: TableReader<'_>) -> Self {
        let endpoint = section.read_text("endpoint");
        if section.take_raw_value("endpoint").is_none() {
            let hint =
                "an address that takes traces by OTLP over HTTP, as in \"http://127.0.0.1:4318/v1/traces\"";
            section.report_missing_key("endpoint", hint);
        }
        let headers = read_settings(&mut section, "headers");
        let endpoint = endpoint
            .filter(|url| check_endpoint(&section, ("endpoint", url), &headers))
            .map(|url| add_path(url.value));
        let profile = section.read_choice("profile", &PROFILES).map(|it| it.value).unwrap_or_default();
        let payloads = section.read_flag("payloads").unwrap_or_default();
        let service = section.read_text("service").map(|it| it.value);
        let share = read_share(&mut section);
        let agent_shares = section.open_section("shares").map(read_agent_shares).unwrap_or_default();
        let max_age = section.read_duration("max_age");
        let max_bytes = section.read_byte_count("max_bytes");
        let metrics = read_metrics(&mut section, endpoint.as_deref(), &headers);
        section.report_unknown_keys();
        Self {
            endpoint,
            headers,
            profile,
            payloads,
            service,
            share,
            agent_shares,
            max_age,
            max_bytes,
            metrics,
        }
    }

    /// Fetches the secrets. A secret that cannot be fetched is a mistake.
    pub(crate) fn resolve_settings(
        &self,
        around: &Surroundings<'_>,
        faults: &MistakeCollector,
    ) -> Option<TelemetrySettings> {
        let fetched = self.headers.iter().map(|(name, setting)| {
            let (value, _) = setting.resolve(around, faults)?;
            Some((name.clone(), value))
        });
        Some(TelemetrySettings {
            headers: fetched.collect::<Option<_>>()?,
            endpoint: self.endpoint.clone()?,
            profile: self.profile,
            payloads: self.payloads,
            service: self.service.clone().unwrap_or_else(|| SERVICE.to_owned()),
            share: self.share,
            agent_shares: self
                .agent_shares
                .iter()
                .map(|(name, share)| (name.value.clone(), *share))
                .collect(),
            max_age: self.max_age,
            max_bytes: self.max_bytes,
            metrics: self.metrics.clone(),
        })
    }
}

/// Reads where metrics are sent: to the address for traces, with another path, unless there is another address.
fn read_metrics(
    section: &mut TableReader<'_>,
    traces: Option<&str>,
    headers: &[(String, ServerSetting)],
) -> Option<MetricSettings> {
    let wanted = section.read_flag("metrics").unwrap_or_default();
    let given = section.read_text("metrics_endpoint");
    let every = section.read_duration("metrics_every");
    if every.is_some_and(|every| every < SHORTEST_METRICS_EVERY)
        && let Some((_, value)) = section.take_raw_value("metrics_every")
    {
        let what = format!("`{}` must be at least a second", section.qualified_key("metrics_every"));
        section.mistakes().add_mistake(value.span().start, MistakeKind::Value, what);
    }
    if !wanted {
        for key in ["metrics_endpoint", "metrics_every"] {
            if let Some((_, value)) = section.take_raw_value(key) {
                let what =
                    format!("`{}` has no meaning without `metrics = true`", section.qualified_key(key));
                section.mistakes().add_mistake(value.span().start, MistakeKind::Contradiction, what);
            }
        }
        return None;
    }
    let endpoint = match given {
        Some(url) => check_endpoint(section, ("metrics_endpoint", &url), headers).then_some(url.value)?,
        None => {
            let base = traces?.strip_suffix(TRACES_PATH);
            if base.is_none() {
                let hint = "an address that takes metrics by OTLP over HTTP: it cannot be derived from that of traces";
                section.report_missing_key("metrics_endpoint", hint);
            }
            format!("{}{METRICS_PATH}", base?)
        }
    };
    Some(MetricSettings { endpoint, every: every.unwrap_or(METRICS_EVERY) })
}

/// Reads the share of all agents.
fn read_share(section: &mut TableReader<'_>) -> Option<f64> {
    let share = section.read_number("share")?;
    if is_share(share) {
        return Some(share);
    }
    if let Some((_, value)) = section.take_raw_value("share") {
        report_share(section, "share", value.span().start);
    }
    None
}

/// Reads the shares of single agents.
fn read_agent_shares(section: TableReader<'_>) -> Vec<(LocatedValue<String>, f64)> {
    let mut shares = Vec::new();
    for (name, value) in section.ordered_entries() {
        let number = match value.get_ref() {
            toml::de::DeValue::Float(number) => number.as_str().parse().ok(),
            toml::de::DeValue::Integer(number) => number.as_str().parse().ok(),
            _ => None,
        };
        match number.filter(|share| is_share(*share)) {
            Some(share) => shares.push((name, share)),
            None => report_share(&section, &name.value, value.span().start),
        }
    }
    shares
}

fn is_share(share: f64) -> bool {
    (0.0..=1.0).contains(&share)
}

fn report_share(section: &TableReader<'_>, key: &str, at: usize) {
    let what = format!("`{}` must be a number from 0, none, to 1, all", section.qualified_key(key));
    section.mistakes().add_mistake(at, MistakeKind::Value, what);
}

/// Checks an address. Describes the mistake without repeating it: a path may be a secret.
fn check_endpoint(
    section: &TableReader<'_>,
    (key, url): (&str, &LocatedValue<String>),
    headers: &[(String, ServerSetting)],
) -> bool {
    let has_secret = headers.iter().any(|(_, setting)| matches!(setting, ServerSetting::Secret(_)));
    let what = match is_this_machine(&url.value) {
        Err(_) => "is no address that can be called",
        Ok(here) if has_secret && !here && !url.value.starts_with("https://") => {
            "must begin with https://, since a header holds a secret"
        }
        Ok(_) => return true,
    };
    section.mistakes().add_mistake(
        url.at,
        MistakeKind::Value,
        format!("`{}` {what}", section.qualified_key(key)),
    );
    false
}

/// Adds the path of OTLP to an address without one.
fn add_path(url: String) -> String {
    let after_scheme = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
    match after_scheme.split_once('/') {
        None => format!("{url}{TRACES_PATH}"),
        Some((_, "")) => format!("{}{TRACES_PATH}", url.trim_end_matches('/')),
        Some(_) => url,
    }
}
