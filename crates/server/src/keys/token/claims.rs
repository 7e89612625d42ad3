//! The claims of a token, and their check against the policy.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};
use singletree_durable::{SubjectId, Timestamp};

use super::TokenPolicy;
use crate::caller::{Caller, Scope, parse_tenant_name};
use crate::problem::{RequestProblem, RequestProblemKind};

/// Bytes of the longest subject: it stands in audits and beside answers.
const SUBJECT_BYTES: usize = 256;

/// The claims of a token.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct TokenClaims(Map<String, Value>);

impl TokenClaims {
    /// Returns who shows the token, if it is believed at this time.
    pub(super) fn authenticate_caller(
        &self,
        policy: &TokenPolicy,
        now: Timestamp,
    ) -> Result<Caller, RequestProblem> {
        self.check_lifetime(policy.leeway, now)?;
        if self.is_id_token() {
            return Err(invalid_token(
                "it is an ID token: it tells a client who signed in, and gives access to nothing",
            ));
        }
        if self.read_text_claim("iss") != Some(policy.issuer.as_str()) {
            return Err(invalid_token("it is not of the issuer that is believed here"));
        }
        if !self
            .read_words_claim("aud")
            .iter()
            .any(|word| policy.audiences.iter().any(|audience| audience == word))
        {
            return Err(invalid_token("it is meant for somebody else"));
        }
        let named = self.read_text_claim(&policy.tenant_claim);
        let named = named.ok_or_else(|| invalid_token("it names no tenant"))?;
        let tenant =
            parse_tenant_name(named).map_err(|_| invalid_token("it names a tenant that nobody can be"))?;
        let name = self.read_text_claim("sub").filter(|text| !text.is_empty() && text.len() <= SUBJECT_BYTES);
        let name = name.filter(|name| !name.chars().any(char::is_control));
        let said = name.ok_or_else(|| invalid_token("it has no subject that can be recorded"))?;
        let subject = SubjectId::parse(said).ok();
        // Marked, so that an audit never takes a subject for the id of a key, for `operator` or for `local`.
        let name = format!("token:{said}");
        let valid_until = self.read_time_claim("exp").map(|end| end.saturating_add(policy.leeway));
        Ok(Caller { tenant, name, scopes: self.granted_scopes(policy), valid_until, subject })
    }

    /// Tells whether it is an ID token (OpenID Connect Core §2, §3.3.2.11): these claims are in no access token.
    fn is_id_token(&self) -> bool {
        ["nonce", "at_hash", "c_hash"].iter().any(|claim| self.0.contains_key(*claim))
            || self.read_text_claim("typ").is_some_and(|kind| kind.eq_ignore_ascii_case("ID"))
    }

    /// Checks from when to when it is good. A token without an end is not believed.
    fn check_lifetime(&self, leeway: Duration, now: Timestamp) -> Result<(), RequestProblem> {
        let expired = || {
            RequestProblem::from_kind(
                RequestProblemKind::TokenExpired,
                RequestProblemKind::TokenExpired.default_message(),
            )
        };
        let end = self.read_time_claim("exp").ok_or_else(|| invalid_token("it has no end"))?;
        if now >= end.saturating_add(leeway) {
            return Err(expired());
        }
        match (self.0.get("nbf"), self.read_time_claim("nbf")) {
            (None, _) => Ok(()),
            (Some(_), None) => Err(invalid_token("it has a beginning that is no time")),
            (Some(_), Some(begin)) if now.saturating_add(leeway) < begin => Err(expired()),
            (Some(_), Some(_)) => Ok(()),
        }
    }

    fn granted_scopes(&self, policy: &TokenPolicy) -> Vec<Scope> {
        let words = self.read_words_claim(&policy.scope_claim);
        let named = |scope: &Scope| {
            words.iter().any(|word| word.strip_prefix(policy.scope_prefix.as_str()) == Some(scope.as_str()))
        };
        Scope::ALL.into_iter().filter(named).collect()
    }

    fn read_text_claim(&self, claim: &str) -> Option<&str> {
        self.0.get(claim)?.as_str()
    }

    /// Reads a claim that is a list of words, or a text of words.
    fn read_words_claim(&self, claim: &str) -> Vec<&str> {
        match self.0.get(claim) {
            Some(Value::String(text)) => text.split_ascii_whitespace().collect(),
            Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
            Some(_) | None => Vec::new(),
        }
    }

    /// Reads a claim that is a number of seconds since 1970, perhaps with a fraction (RFC 7519 §2).
    fn read_time_claim(&self, claim: &str) -> Option<Timestamp> {
        let seconds = self.0.get(claim)?.as_f64().filter(|f64| f64.is_finite() && *f64 >= 0.0)?;
        Some(Timestamp::from_millis((seconds * 1000.0) as i64))
    }
}

fn invalid_token(hint: &str) -> RequestProblem {
    RequestProblem::from_kind(
        RequestProblemKind::TokenInvalid,
        RequestProblemKind::TokenInvalid.default_message(),
    )
    .with_hint(hint)
}
