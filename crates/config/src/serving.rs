//! `[server]` and `[auth]`: how the agents are served, and who may ask.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use singletree_narration::{Locale, NarrationVerbosity};

use crate::model::check_base_url;
use crate::quota::QuotaSettings;
use crate::report::{MistakeCollector, MistakeKind};
use crate::section::TableReader;
use crate::spot::LocatedValue;

/// How agents are served over HTTP. An absent value is the server's default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServingSettings {
    /// Where to listen: a host and a port.
    pub listen: Option<String>,
    /// Where other servers of the same database reach this one, if not at the address where it listens: a scheme and a
    /// host.
    pub address: Option<String>,
    /// The address of the additional listener for health, keys and the audit: a host and a port; otherwise a free port
    /// of this machine.
    pub admin: Option<String>,
    /// Where metrics are to be had, if not beside everything else: a host and a port.
    pub metrics: Option<String>,
    /// The pages of elsewhere that may ask from within a browser.
    pub origins: Vec<String>,
    /// Whether there is a line for each request and turn; there is otherwise.
    pub log: Option<bool>,
    /// Whether the narration log is on, which tells people in words about the agents' work; it is on by default.
    pub narration: Option<bool>,
    /// The file that narration is written to, too, whole.
    pub narration_file: Option<PathBuf>,
    /// In which language it is.
    pub narration_language: Option<Locale>,
    /// How much is narrated.
    pub narration_verbosity: Option<NarrationVerbosity>,
    /// How many pieces of narration are held of each session; 0 holds none.
    pub narration_keep: Option<u64>,
    /// Bytes of a request's body, except that of a blob.
    pub body_bytes: Option<u64>,
    /// Bytes of a blob.
    pub blob_bytes: Option<u64>,
    /// Bytes of the blobs that one session uses.
    pub session_blob_bytes: Option<u64>,
    /// The media types of blobs that are kept.
    pub blob_types: Option<Vec<String>>,
    /// Bytes of all headers of a request.
    pub header_bytes: Option<u64>,
    /// Connections at once.
    pub connections: Option<u64>,
    /// How long headers, and then a body, may take to arrive.
    pub request_time: Option<Duration>,
    /// How long the reader of an answer may take nothing of it.
    pub write_time: Option<Duration>,
    /// How often a silent stream says that it lives.
    pub heartbeat: Option<Duration>,
    /// How long turns and answers get at shutdown.
    pub grace: Option<Duration>,
    /// How long the audit is kept.
    pub audit_kept: Option<Duration>,
    /// How much of the server a key and a tenant may use.
    pub quotas: QuotaSettings,
    /// Whether everybody is asked for a key.
    pub key_required: bool,
    /// Which tokens of others are believed beside keys.
    pub tokens: Option<TokenSettings>,
}

/// Which tokens are believed, and how their claims are read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenSettings {
    /// The file of the public keys, whole.
    pub key_set: PathBuf,
    /// Who must have made them.
    pub issuer: String,
    /// For whom they must be made.
    pub audiences: Vec<String>,
    /// The claim that names the tenant.
    pub tenant_claim: String,
    /// The claim that lists the scopes.
    pub scope_claim: String,
    /// The prefix of the names of scopes there.
    pub scope_prefix: String,
    /// By how much the clocks may differ.
    pub leeway: Duration,
}

/// The words that switch something.
const SWITCH: [(&str, bool); 2] = [("on", true), ("off", false)];
/// Bytes of headers that no server can do with less of.
const HEADER_BYTES_MIN: u64 = 8 << 10;
/// The longest time by which clocks may differ.
const LEEWAY_MAX: Duration = Duration::from_mins(5);

/// Reads both tables of a file.
pub(crate) fn read_serving_settings(file: &mut TableReader<'_>, folder: &Path) -> ServingSettings {
    let mut serving = ServingSettings::default();
    let listen =
        file.open_section("server").and_then(|section| read_server_section(section, &mut serving, folder));
    if let Some(section) = file.open_section("auth") {
        read_auth_section(section, &mut serving, folder);
    }
    if let Some(listen) = listen.filter(|listen| is_open_address(&listen.value) && !serving.key_required) {
        let what = "`server.listen` can be reached by others, and nobody would be asked for a key".to_owned();
        let hint = "write `[auth]` with `required = true`, or listen at 127.0.0.1".to_owned();
        file.mistakes().add_with_hint(listen.at, MistakeKind::Contradiction, what, hint);
    }
    serving
}

fn read_server_section(
    mut section: TableReader<'_>,
    serving: &mut ServingSettings,
    folder: &Path,
) -> Option<LocatedValue<String>> {
    let listen = read_socket_address(&mut section, "listen");
    serving.listen = listen.as_ref().map(|listen| listen.value.clone());
    serving.address = read_server_url(&mut section);
    serving.admin = read_socket_address(&mut section, "admin").map(|address| address.value);
    serving.metrics = read_socket_address(&mut section, "metrics").map(|address| address.value);
    for origin in section.read_text_list("origins").unwrap_or_default() {
        if let Err(why) = check_origin(&origin.value) {
            let what = format!("`{}` {why}", section.qualified_key("origins"));
            let hint = "write it as a browser does: \"https://chat.example.com\"".to_owned();
            section.mistakes().add_with_hint(origin.at, MistakeKind::Value, what, hint);
        } else {
            serving.origins.push(origin.value);
        }
    }
    serving.log = section.read_flag("log");
    read_narration(&mut section, serving, folder);
    serving.body_bytes = section.read_byte_count("body_bytes");
    serving.blob_bytes = section.read_byte_count("blob_bytes");
    serving.session_blob_bytes = section.read_byte_count("session_blob_bytes");
    serving.blob_types = read_blob_types(&mut section);
    serving.header_bytes = section.read_byte_count("header_bytes");
    if serving.header_bytes.is_some_and(|header_bytes| header_bytes < HEADER_BYTES_MIN)
        && let Some((at, _)) = section.take_raw_value("header_bytes")
    {
        let what = format!("`{}` must be 8KiB or more", section.qualified_key("header_bytes"));
        section.mistakes().add_mistake(at, MistakeKind::Value, what);
    }
    serving.connections = section.read_count("connections", 1).map(|count| count.value);
    serving.request_time = section.read_duration("request_time");
    serving.write_time = section.read_duration("write_time");
    serving.heartbeat = section.read_duration("heartbeat");
    serving.grace = section.read_duration("grace");
    serving.audit_kept = section.read_duration("audit_kept");
    serving.quotas = section.open_section("quotas").map(crate::quota::read_quotas).unwrap_or_default();
    section.report_unknown_keys();
    listen
}

/// Reads whether narration is on, the file it is written to as well, its language, how much is narrated and held.
fn read_narration(section: &mut TableReader<'_>, serving: &mut ServingSettings, folder: &Path) {
    serving.narration = section.read_choice("narration", &SWITCH).map(|choice| choice.value);
    serving.narration_file = section.read_path("narration_file").map(|path| folder.join(path.value));
    let languages = Locale::ALL.map(|item| (item.as_str(), item));
    serving.narration_language =
        section.read_choice("narration_language", &languages).map(|choice| choice.value);
    let verbosities = NarrationVerbosity::ALL.map(|item| (item.as_str(), item));
    serving.narration_verbosity =
        section.read_choice("narration_verbosity", &verbosities).map(|choice| choice.value);
    serving.narration_keep = section.read_count("narration_keep", 0).map(|count| count.value);
}

/// Reads which media types are kept, without parameters.
fn read_blob_types(section: &mut TableReader<'_>) -> Option<Vec<String>> {
    let types = section.read_text_list("blob_types")?;
    let is_token = |it: &str| {
        let fits = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || "+-._".contains(it);
        !it.is_empty() && it.chars().all(fits)
    };
    for it in &types {
        if !it.value.split_once('/').is_some_and(|(kind, rest)| is_token(kind) && is_token(rest)) {
            let what = format!(
                "`{}` must be made of media types as \"image/png\"",
                section.qualified_key("blob_types")
            );
            section.mistakes().add_mistake(it.at, MistakeKind::Value, what);
        }
    }
    Some(types.into_iter().map(|kind| kind.value).collect())
}

fn read_auth_section(mut section: TableReader<'_>, serving: &mut ServingSettings, folder: &Path) {
    serving.key_required = section.read_flag("required").unwrap_or(false);
    serving.tokens = section.open_section("tokens").and_then(|section| read_token_settings(section, folder));
    section.report_unknown_keys();
}

fn read_token_settings(mut section: TableReader<'_>, folder: &Path) -> Option<TokenSettings> {
    let key_set = section.read_path("key_set");
    let issuer = section.read_text("issuer");
    let audiences = section.read_text_list("audiences");
    for (key, hint) in [
        ("key_set", "the file of the issuer's public keys, a JSON Web Key Set"),
        ("issuer", "what stands as `iss` in the tokens"),
        ("audiences", "what stands as `aud` in tokens that are meant for this server"),
    ] {
        if section.take_raw_value(key).is_none() {
            section.report_missing_key(key, hint);
        }
    }
    if let (Some([]), Some((at, _))) = (audiences.as_deref(), section.take_raw_value("audiences")) {
        let what = format!(
            "`{}` is empty: no token would be meant for this server",
            section.qualified_key("audiences")
        );
        section.mistakes().add_mistake(at, MistakeKind::Value, what);
    }
    if let Some(path) = &key_set {
        check_key_set(&folder.join(&path.value), path.at, section.mistakes());
    }
    let tenant_claim =
        section.read_text("tenant_claim").map_or_else(|| "tenant".to_owned(), |text| text.value);
    let scope_claim = section.read_text("scope_claim").map_or_else(|| "scope".to_owned(), |text| text.value);
    let scope_prefix = section.read_text("scope_prefix").map(|text| text.value).unwrap_or_default();
    let leeway = section.read_duration("leeway").unwrap_or(Duration::from_secs(30));
    if leeway > LEEWAY_MAX
        && let Some((at, _)) = section.take_raw_value("leeway")
    {
        let what = format!(
            "`{}` must be 5m or less: a token is over when it is over",
            section.qualified_key("leeway")
        );
        section.mistakes().add_mistake(at, MistakeKind::Value, what);
    }
    section.report_unknown_keys();
    Some(TokenSettings {
        key_set: folder.join(key_set?.value),
        issuer: issuer?.value,
        audiences: audiences?.into_iter().map(|audience| audience.value).collect(),
        tenant_claim,
        scope_claim,
        scope_prefix,
        leeway,
    })
}

/// Checks that the file can be opened; its content is checked by its user.
fn check_key_set(path: &Path, at: usize, faults: &MistakeCollector) {
    if let Err(error) = std::fs::File::open(path) {
        let what = format!("the file of the public keys cannot be read: {}", error.kind());
        let hint = "the path is relative to the folder of this file".to_owned();
        faults.add_with_hint(at, MistakeKind::Unavailable, what, hint);
    }
}

/// Reads a host and a port.
fn read_socket_address(section: &mut TableReader<'_>, key: &'static str) -> Option<LocatedValue<String>> {
    let text = section.read_text(key)?;
    let parts = text.value.rsplit_once(':').filter(|(host, _)| !host.is_empty());
    if parts.is_some_and(|(_, port)| port.parse::<u16>().is_ok()) {
        return Some(text);
    }
    let what = format!("`{}` must be a host and a port as in \"127.0.0.1:8787\"", section.qualified_key(key));
    section.mistakes().add_mistake(text.at, MistakeKind::Value, what);
    None
}

/// Reads the address at which other servers reach this one.
fn read_server_url(section: &mut TableReader<'_>) -> Option<String> {
    let address = section.read_text("address")?;
    let Err(why) = check_origin(&address.value) else { return Some(address.value) };
    let what = format!("`{}` {why}", section.qualified_key("address"));
    let hint = "write it as other servers reach this one: \"https://10.0.0.5:8787\"".to_owned();
    section.mistakes().add_with_hint(address.at, MistakeKind::Value, what, hint);
    None
}

/// Tells whether an address is one that others reach. Of a name only the system can tell: it is asked when the server
/// starts.
fn is_open_address(address: &str) -> bool {
    address.parse::<SocketAddr>().is_ok_and(|parsed| !parsed.ip().is_loopback())
}

fn check_origin(origin: &str) -> Result<(), &'static str> {
    check_base_url(origin)?;
    let host = origin.split_once("://").map_or("", |(_, rest)| rest);
    if host.contains('/') { Err("must end with the host, or its port") } else { Ok(()) }
}
