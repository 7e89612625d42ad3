//! `[notify.TENANT]`: where a tenant's notices are told.

use std::time::Duration;

use singletree_harness::NoticeType;
use singletree_http::{Secret, is_this_machine};

use crate::report::{MistakeCollector, MistakeKind};
use crate::secret_source::SecretSource;
use crate::section::TableReader;
use crate::spot::LocatedValue;
use crate::surroundings::Surroundings;

/// How many bytes a secret must have: a signature with a shorter one can be forged by guessing.
const SECRET_BYTES_MIN: usize = 24;
/// For how long at most it is tried to tell a notice: they are not kept longer.
const GIVE_UP_MAX: Duration = Duration::from_hours(7 * 24);

/// The words of the notices.
const TYPES: [(&str, NoticeType); 4] = [
    ("suspended", NoticeType::Suspended),
    ("expiring", NoticeType::Expiring),
    ("resumed", NoticeType::Resumed),
    ("errored", NoticeType::Errored),
];

/// Where a tenant's notices are told, as the file has it. An absent value is the server's default.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct NotifySettings {
    /// Whose notices.
    pub tenant: String,
    /// Where.
    pub url: String,
    /// The secret that signs them.
    pub secret: Secret,
    /// The previous secret, which signs them, too.
    pub old_secret: Option<Secret>,
    /// Which notices.
    pub events: Vec<NoticeType>,
    /// How long before a deadline it is told that it is near.
    pub expiring_before: Option<Duration>,
    /// For how long it is tried to tell a notice.
    pub give_up_after: Option<Duration>,
    /// Where people go from a notice, with `{tenant}`, `{session}` and `{signal}` in it.
    pub link: Option<String>,
    /// Whether the endpoint may be on the private network.
    pub private_network: bool,
}

/// One of the tables, before its secrets were fetched.
#[derive(Debug, Clone)]
pub(crate) struct NotifyTable {
    tenant: String,
    url: Option<String>,
    secret: Option<SecretSource>,
    old_secret: Option<SecretSource>,
    events: Vec<NoticeType>,
    expiring_before: Option<Duration>,
    give_up_after: Option<Duration>,
    link: Option<String>,
    private_network: bool,
}

impl NotifyTable {
    pub(crate) fn from_section((tenant, mut section): (LocatedValue<String>, TableReader<'_>)) -> Self {
        let url = section.read_text("url");
        let secret = SecretSource::from_section_key(&mut section, "secret");
        for (key, hint) in [
            ("url", "an address that takes POST, as in \"https://hooks.example.com/singletree\""),
            (
                "secret",
                "write { env = \"NAME\" } or { file = \"PATH\" }; `echo whsec_$(openssl rand -base64 32)` makes one",
            ),
        ] {
            if section.take_raw_value(key).is_none() {
                section.report_missing_key(key, hint);
            }
        }
        let url = url.filter(|url| check_endpoint_url(&section, url)).map(|url| url.value);
        let old_secret = SecretSource::from_section_key(&mut section, "old_secret");
        let events = read_notice_types(&mut section);
        let expiring_before = section.read_duration("expiring_before");
        let give_up_after = section.read_duration("give_up_after");
        if give_up_after.is_some_and(|give_up_after| give_up_after > GIVE_UP_MAX)
            && let Some((at, _)) = section.take_raw_value("give_up_after")
        {
            let what = format!(
                "`{}` must be 7d or less: notices are not kept longer",
                section.qualified_key("give_up_after")
            );
            section.mistakes().add_mistake(at, MistakeKind::Value, what);
        }
        let link = section.read_text("link");
        if let Some(link) = link.as_ref().filter(|link| !is_valid_link(&link.value)) {
            let what = format!("`{}` must begin with http:// or https://", section.qualified_key("link"));
            let hint = "`{tenant}`, `{session}` and `{signal}` stand in it for those of a notice";
            section.mistakes().add_with_hint(link.at, MistakeKind::Value, what, hint.to_owned());
        }
        let private_network = section.read_flag("private_network").unwrap_or(false);
        section.report_unknown_keys();
        let (tenant, link) = (tenant.value, link.map(|link| link.value));
        Self {
            tenant,
            url,
            secret,
            old_secret,
            events,
            expiring_before,
            give_up_after,
            link,
            private_network,
        }
    }

    /// Fetches the secrets. A secret that cannot be fetched or used is a mistake.
    pub(crate) fn resolve_settings(
        &self,
        around: &Surroundings<'_>,
        faults: &MistakeCollector,
    ) -> Option<NotifySettings> {
        let fetch = |source: &SecretSource, key: &str| {
            let secret = source.fetch_secret(around, faults)?;
            check_secret_length(&secret, source, &format!("notify.{}.{key}", self.tenant), faults)
        };
        let secret = self.secret.as_ref().and_then(|secret| fetch(secret, "secret"));
        let old_secret = self.old_secret.as_ref().map(|old_secret| fetch(old_secret, "old_secret"));
        Some(NotifySettings {
            tenant: self.tenant.clone(),
            url: self.url.clone()?,
            secret: secret?,
            old_secret: match old_secret {
                Some(fetched) => Some(fetched?),
                None => None,
            },
            events: self.events.clone(),
            expiring_before: self.expiring_before,
            give_up_after: self.give_up_after,
            link: self.link.clone(),
            private_network: self.private_network,
        })
    }
}

/// Reads which notices are told: all of them, where nothing is said.
fn read_notice_types(section: &mut TableReader<'_>) -> Vec<NoticeType> {
    let Some(words) = section.read_text_list("events") else { return NoticeType::ALL.to_vec() };
    let mut events = Vec::new();
    for word in &words {
        match TYPES.iter().find(|(it, _)| *it == word.value) {
            Some((_, event)) => events.push(*event),
            None => {
                let all = TYPES.map(|(it, _)| format!("\"{it}\"")).join(", ");
                let what = format!("`{}` must be made of {all}", section.qualified_key("events"));
                let near = crate::suggest::nearest_word(&word.value, TYPES.iter().map(|(it, _)| *it));
                let hint = near.map(|near| format!("did you mean `{near}`?"));
                section.mistakes().add_with_hint(word.at, MistakeKind::Value, what, hint);
            }
        }
    }
    if let ([], Some((at, _))) = (words.as_slice(), section.take_raw_value("events")) {
        let what = format!("`{}` is empty: nothing would be told", section.qualified_key("events"));
        section.mistakes().add_mistake(at, MistakeKind::Value, what);
    }
    events
}

/// Checks where notices are told. Describes the mistake without repeating the address: a path may be a secret.
fn check_endpoint_url(section: &TableReader<'_>, url: &LocatedValue<String>) -> bool {
    let what = match is_this_machine(&url.value) {
        Err(_) => "is no address that can be called",
        Ok(here) if !here && !url.value.starts_with("https://") => {
            "must begin with https://, unless it is on this machine"
        }
        Ok(_) => return true,
    };
    section.mistakes().add_mistake(
        url.at,
        MistakeKind::Value,
        format!("`{}` {what}", section.qualified_key("url")),
    );
    false
}

fn check_secret_length(
    secret: &Secret,
    source: &SecretSource,
    key: &str,
    faults: &MistakeCollector,
) -> Option<Secret> {
    // Of base64 three quarters are left.
    let bytes = match secret.expose().strip_prefix("whsec_") {
        Some(base64) => base64.trim_end_matches('=').len() * 3 / 4,
        None => secret.expose().len(),
    };
    if bytes >= SECRET_BYTES_MIN {
        return Some(secret.clone());
    }
    let hint = "`echo whsec_$(openssl rand -base64 32)` makes one".to_owned();
    let what = format!("the secret of `{key}` must have {SECRET_BYTES_MIN} bytes or more");
    faults.add_with_hint(source.byte_offset(), MistakeKind::Value, what, hint);
    None
}

fn is_valid_link(link: &str) -> bool {
    ["http://", "https://"].iter().any(|item| link.strip_prefix(item).is_some_and(|rest| !rest.is_empty()))
}
