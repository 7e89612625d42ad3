//! A transport that goes to named hosts only.

use std::sync::Arc;

use futures_util::FutureExt;
use singletree_http::{BoxFuture, Error, HttpRequest, HttpResponse, Result, Transport};
use url::Url;

/// A transport that goes to named hosts, and those below them, only.
#[derive(Debug)]
pub(super) struct AllowedHostsTransport {
    inner: Arc<dyn Transport>,
    hosts: Vec<String>,
}

impl AllowedHostsTransport {
    pub(super) fn new<H: Into<String>>(
        inner: Arc<dyn Transport>,
        hosts: impl IntoIterator<Item = H>,
    ) -> Self {
        let hosts = hosts.into_iter().map(|host| host.into().to_ascii_lowercase()).collect();
        Self { inner, hosts }
    }

    fn check_allowed_host(&self, url: &str) -> Result<()> {
        let url = Url::parse(url).map_err(|error| Error::Request { problem: error.to_string() })?;
        // Read as it will be called: in lower case, and by the ASCII form of its letters.
        let host = url.host_str().unwrap_or_default().trim_end_matches('.').to_owned();
        let known = |it: &String| {
            host == *it || host.strip_suffix(it.as_str()).is_some_and(|below| below.ends_with('.'))
        };
        if self.hosts.iter().any(known) {
            return Ok(());
        }
        Err(Error::Egress { host, reason: "it is none of the hosts that were named".to_owned() })
    }
}

impl Transport for AllowedHostsTransport {
    fn send(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpResponse>> {
        match self.check_allowed_host(&request.url) {
            Ok(()) => self.inner.send(request),
            Err(error) => async { Err(error) }.boxed(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goes nowhere.
    #[derive(Debug)]
    struct Nowhere;

    impl Transport for Nowhere {
        fn send(&self, _request: HttpRequest) -> BoxFuture<'_, Result<HttpResponse>> {
            async { Err(Error::Request { problem: "nowhere".to_owned() }) }.boxed()
        }
    }

    #[test]
    fn a_host_is_named_with_all_below_it_and_nothing_beside_it() {
        let allowed = AllowedHostsTransport::new(Arc::new(Nowhere), ["Example.com", "10.0.0.1"]);
        for (url, goes) in [
            ("https://example.com/a", true),
            ("https://EXAMPLE.com:8080", true),
            ("https://docs.example.com", true),
            ("https://example.com.", true),
            ("https://10.0.0.1", true),
            ("https://notexample.com", false),
            ("https://example.com.evil.test", false),
            ("https://example.com@evil.test", false),
            ("https://evil.test/?example.com", false),
            ("https://evil.test#.example.com", false),
            ("https://1.10.0.0.1", false),
            ("nothing", false),
        ] {
            assert_eq!(allowed.check_allowed_host(url).is_ok(), goes, "{url}");
        }
    }
}
