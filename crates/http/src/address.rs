//! Where a call goes, read by one rule.

use std::fmt;
use std::time::Duration;

use url::Url;

use crate::error::{Error, Result};

/// The host and port of a call, for people; never a path, a query or a credential.
#[derive(Debug, Clone)]
pub(crate) struct HostAndPort(String);

impl HostAndPort {
    /// Takes the host of an address.
    pub(crate) fn from_url(url: &Url) -> Self {
        let name = url.host_str().unwrap_or_default();
        Self(match url.port() {
            Some(port) => format!("{name}:{port}"),
            None => name.to_owned(),
        })
    }

    /// Makes the error of a wait that was too long.
    pub(crate) fn timeout_error(&self, what: &str, limit: Duration) -> Error {
        Error::Timeout { host: self.0.clone(), what: format!("{what} took longer than {limit:?}") }
    }
}

impl fmt::Display for HostAndPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<HostAndPort> for String {
    fn from(host: HostAndPort) -> Self {
        host.0
    }
}

/// Checks whether an address names this machine itself: `localhost`, or a loopback address. Other names are not
/// resolved.
///
/// # Errors
///
/// `http_request_invalid` when it is no address that can be called.
pub fn is_this_machine(url: &str) -> Result<bool> {
    Ok(match parse_http_url(url)?.host() {
        Some(url::Host::Domain(name)) => name.eq_ignore_ascii_case("localhost"),
        Some(url::Host::Ipv4(it)) => it.is_loopback(),
        Some(url::Host::Ipv6(it)) => it.is_loopback(),
        None => false,
    })
}

/// Reads an address: absolute, `http` or `https`, with a host and without a credential.
pub(crate) fn parse_http_url(text: &str) -> Result<Url> {
    let problem = |problem: &str| Error::Request { problem: problem.to_owned() };
    let url = Url::parse(text).map_err(|error| problem(&format!("the address does not read: {error}")))?;
    check_http_url(&url)?;
    Ok(url)
}

/// Checks an address that was read.
pub(crate) fn check_http_url(url: &Url) -> Result<()> {
    let problem = |problem: &str| Err(Error::Request { problem: problem.to_owned() });
    if !matches!(url.scheme(), "http" | "https") {
        return problem("the address must begin with http:// or https://");
    }
    if url.host_str().is_none_or(str::is_empty) {
        return problem("the address has no host");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return problem("the address must not hold a user or a password");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_known_by_its_names() {
        let check = |url: &str, here: bool| assert_eq!(is_this_machine(url).unwrap(), here, "{url}");
        check("http://127.0.0.1:8787/x", true);
        check("http://127.1.2.3", true);
        check("http://2130706433/", true);
        check("https://LOCALHOST", true);
        check("http://[::1]:1", true);
        check("http://localhost.example.com", false);
        check("http://10.0.0.1", false);
        check("http://0.0.0.0", false);
        for wrong in ["", "ftp://localhost", "http://user@localhost", "localhost:8787"] {
            assert_eq!(is_this_machine(wrong).unwrap_err().category(), "http_request_invalid", "{wrong}");
        }
    }
}
