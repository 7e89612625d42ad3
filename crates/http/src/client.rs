//! The client: reqwest, told everything explicitly.

mod body;
mod tls;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use singletree_env::{BoxError, BoxFuture, TraceHeaders};
use url::Url;

use crate::address::{self, HostAndPort};
use crate::egress::{EgressPolicy, PublicOnlyResolver, find_egress_refusal};
use crate::error::{Error, Result};
use crate::limits::HttpLimits;
use crate::resolver::{Resolver, SystemResolver};
use crate::transport::{HttpRequest, HttpResponse, Method, Transport};

/// The one HTTP client. Cheap to clone; clones share their connections.
///
/// HTTP/1.1, with TLS 1.2 and 1.3 by ring and the roots that the system trusts. Follows no redirect, asks no proxy,
/// keeps no cookie, retries nothing, takes no compressed body.
#[derive(Clone)]
pub struct HttpClient {
    client: reqwest::Client,
    limits: HttpLimits,
    egress: EgressPolicy,
    /// Whether the caller's `baggage` goes on.
    passes_baggage: bool,
    /// Why no server can be trusted, where the system has no roots.
    rootless: Option<Arc<str>>,
}

impl HttpClient {
    /// Makes a client that may call anywhere. For servers that an operator named, not for addresses that a model or a
    /// stranger chose: see [`public_only`](Self::public_only).
    ///
    /// # Errors
    ///
    /// `http_request_invalid` when the TLS library refuses its configuration.
    pub fn new(limits: HttpLimits) -> Result<Self> {
        Self::build_client(limits, EgressPolicy::Anywhere, None)
    }

    /// Makes a client that calls public addresses only: not this machine, not the private network, not the metadata
    /// service of a cloud, however the address is written, also when a name resolves to one. The addresses that were
    /// checked are those that are connected to. Redirects are not followed; see
    /// [`get_following`](crate::get_following).
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn public_only(limits: HttpLimits) -> Result<Self> {
        Self::public_only_with_resolver(limits, Arc::new(SystemResolver))
    }

    /// Makes a client that calls public addresses only, and asks this resolver for them.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn public_only_with_resolver(limits: HttpLimits, resolver: Arc<dyn Resolver>) -> Result<Self> {
        Self::build_client(limits, EgressPolicy::PublicOnly, Some(PublicOnlyResolver::new(resolver)))
    }

    /// Keeps the caller's `baggage` (W3C Baggage) from the servers that this client calls. Without this, each client but
    /// those for [public addresses only](Self::public_only) passes it on with the rest of the trace.
    #[must_use]
    pub fn without_baggage(mut self) -> Self {
        self.passes_baggage = false;
        self
    }

    /// Returns the limits.
    #[must_use]
    pub fn limits(&self) -> HttpLimits {
        self.limits
    }

    /// Returns the client underneath, for a library that speaks a protocol over it by itself: the same connections, TLS
    /// and time to connect. All other limits, and the check of addresses written as numbers, are those of
    /// [`Transport::send`] alone, so this is for servers that an operator named.
    #[must_use]
    pub fn reqwest_client(&self) -> reqwest::Client {
        self.client.clone()
    }

    fn build_client(
        limits: HttpLimits,
        egress: EgressPolicy,
        resolver: Option<PublicOnlyResolver>,
    ) -> Result<Self> {
        let (tls, rootless) = tls::build_client_config()?;
        let mut builder = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .http1_only()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .connect_timeout(limits.connect)
            .tcp_nodelay(true);
        if let Some(resolver) = resolver {
            builder = builder.dns_resolver(resolver);
        }
        let client = builder.build().map_err(|error| Error::Request {
            problem: format!("no client can be made: {}", error.without_url()),
        })?;
        let passes_baggage = egress == EgressPolicy::Anywhere;
        Ok(Self { client, limits, egress, passes_baggage, rootless: rootless.map(Arc::from) })
    }

    async fn send_checked_request(&self, request: HttpRequest) -> Result<HttpResponse> {
        let url = address::parse_http_url(&request.url)?;
        let host = HostAndPort::from_url(&url);
        self.egress.check_literal_address(&url)?;
        if let Some(why) = self.rootless.as_deref().filter(|_| url.scheme() == "https") {
            return Err(Error::Unreachable { host: host.into(), source: why.into() });
        }
        let mut built = build_reqwest_request(request, url)?;
        self.add_trace_headers(&mut built);
        let sent = self.client.execute(built);
        let response = match tokio::time::timeout(self.limits.head, sent).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(self.convert_send_error(&host, error)),
            Err(_) => return Err(host.timeout_error("the head of the answer", self.limits.head)),
        };
        let status = response.status().as_u16();
        let headers = collect_text_headers(response.headers());
        let body = body::limited_body_stream(response, host, self.limits);
        Ok(HttpResponse { status, headers, body })
    }

    /// Adds the headers of the trace that the caller works in, but for those that the request has. An address that a model
    /// or a stranger chose gets no `baggage`: its values are the caller's own.
    fn add_trace_headers(&self, request: &mut reqwest::Request) {
        let Some(trace) = TraceHeaders::current() else { return };
        for (name, value) in trace.entries_for(self.passes_baggage) {
            if let Ok(value) = HeaderValue::from_str(value) {
                request.headers_mut().entry(name).or_insert(value);
            }
        }
    }

    /// Makes the error of a call that failed before the head of the response.
    fn convert_send_error(&self, host: &HostAndPort, error: reqwest::Error) -> Error {
        if let Some(refused) = find_egress_refusal(&error) {
            return Error::Egress { host: host.to_string(), reason: refused };
        }
        if error.is_timeout() {
            return host.timeout_error("a connection", self.limits.connect);
        }
        if error.is_builder() {
            return Error::Request { problem: error.without_url().to_string() };
        }
        let unreachable = error.is_connect();
        let (host, source): (String, BoxError) = (host.to_string(), error.without_url().into());
        if unreachable { Error::Unreachable { host, source } } else { Error::Broken { host, source } }
    }
}

impl Transport for HttpClient {
    fn send(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpResponse>> {
        Box::pin(self.send_checked_request(request))
    }
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClient")
            .field("limits", &self.limits)
            .field("egress", &self.egress)
            .finish_non_exhaustive()
    }
}

fn build_reqwest_request(request: HttpRequest, url: Url) -> Result<reqwest::Request> {
    let method = match request.method {
        Method::Get => reqwest::Method::GET,
        Method::Post => reqwest::Method::POST,
        Method::Put => reqwest::Method::PUT,
        Method::Delete => reqwest::Method::DELETE,
    };
    let mut out = reqwest::Request::new(method, url);
    for (name, value) in &request.headers {
        let problem = |what: &str| Error::Request {
            problem: format!("the {what} of the header {name:?} cannot be sent"),
        };
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| problem("name"))?;
        let mut value = HeaderValue::from_str(value).map_err(|_| problem("value"))?;
        value.set_sensitive(true);
        out.headers_mut().append(key, value);
    }
    if !request.body.is_empty() {
        *out.body_mut() = Some(Bytes::into(request.body));
    }
    Ok(out)
}

fn collect_text_headers(headers: &HeaderMap) -> Vec<(String, String)> {
    headers
        .iter()
        .filter_map(|(name, value)| Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned())))
        .collect()
}
