//! Where the server of a model is.

use singletree_llm::{Error, ProviderErrorDetail, Result};
use url::Url;

/// The base address of a server, to which the path of each call is added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProviderEndpoint {
    /// Without a slash at the end.
    base: String,
    host: String,
    versioned: bool,
}

impl ProviderEndpoint {
    /// Reads a base address: `http` or `https`, a host, and perhaps the beginning of a path.
    pub(super) fn parse_base_url(text: &str) -> Result<Self> {
        let invalid =
            |problem: &str| Error::InvalidRequest(ProviderErrorDetail::new(format!("base_url: {problem}")));
        let url = Url::parse(text).map_err(|error| invalid(&format!("does not read: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(invalid("must begin with http:// or https://"));
        }
        if !url.username().is_empty()
            || url.password().is_some()
            || url.query().is_some()
            || url.fragment().is_some()
        {
            return Err(invalid("must hold no user, no password, no query and no fragment"));
        }
        let host = url
            .host_str()
            .filter(|host_str| !host_str.is_empty())
            .ok_or_else(|| invalid("has no host"))?
            .to_owned();
        let versioned =
            url.path_segments().is_some_and(|mut path_segments| path_segments.any(is_version_segment));
        Ok(Self { base: url.as_str().trim_end_matches('/').to_owned(), host, versioned })
    }

    /// Returns the host, for people.
    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// Returns the address of a path. A path begins with the version of its wire, as in `/v1/models`; a base address
    /// that names a version itself, as in `/api/v1`, goes before.
    pub(super) fn url_for_path(&self, path: &str) -> String {
        let rest = path.trim_start_matches('/');
        let rest = match rest.split_once('/') {
            Some((first, rest)) if self.versioned && is_version_segment(first) => rest,
            _ => rest,
        };
        format!("{}/{rest}", self.base)
    }
}

/// Says whether a segment of a path is a version: `v1`, `v1beta`.
fn is_version_segment(segment: &str) -> bool {
    segment
        .strip_prefix('v')
        .and_then(|segment| segment.chars().next())
        .is_some_and(|value| value.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(base: &str, path: &str, expected: &str) {
        assert_eq!(ProviderEndpoint::parse_base_url(base).unwrap().url_for_path(path), expected, "{base}");
    }

    #[test]
    fn a_base_address_may_name_the_version_or_leave_it_out() {
        let chat = "/v1/chat/completions";
        check("https://api.example.com", chat, "https://api.example.com/v1/chat/completions");
        check("https://api.example.com/", chat, "https://api.example.com/v1/chat/completions");
        check("http://127.0.0.1:8080/v1", chat, "http://127.0.0.1:8080/v1/chat/completions");
        check("http://127.0.0.1:8080/v1/", chat, "http://127.0.0.1:8080/v1/chat/completions");
        check("https://example.com/api/v1", chat, "https://example.com/api/v1/chat/completions");
        check(
            "https://example.com/v1beta/openai",
            chat,
            "https://example.com/v1beta/openai/chat/completions",
        );
        check("https://example.com/paas/v4", chat, "https://example.com/paas/v4/chat/completions");
        check("https://example.com/gate/one", chat, "https://example.com/gate/one/v1/chat/completions");
        check("https://example.com/vendors", chat, "https://example.com/vendors/v1/chat/completions");
        let generate = "/v1beta/models/m:generateContent";
        check("https://example.com", generate, "https://example.com/v1beta/models/m:generateContent");
        check("https://example.com/v1", generate, "https://example.com/v1/models/m:generateContent");
    }

    #[test]
    fn what_is_no_base_address_is_refused_without_repeating_it() {
        for text in [
            "",
            "api.example.com",
            "ftp://example.com",
            "http://",
            "https://u:hunter22@example.com",
            "https://example.com?key=hunter22",
            "https://example.com#hunter22",
        ] {
            let error = ProviderEndpoint::parse_base_url(text).unwrap_err();
            assert_eq!(error.category(), "provider_invalid_request", "{text}");
            assert!(!error.to_string().contains("hunter22"), "{error}");
        }
    }
}
