//! A server and a key: requests out, JSON back.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use singletree_http::{HttpRequest, HttpResponse, Method, Secret, Transport, read_body, retry_after};
use singletree_protocol::native::ErrorBody;
use url::{Host, Url};

use crate::error::{Error, Result, ServerRefusal};

/// How many bytes of an answer that is no stream are read.
const ANSWER_BYTES: u64 = 64 << 20;

/// A server and a key. Cheap to clone.
#[derive(Clone)]
pub struct Connection {
    transport: Arc<dyn Transport>,
    base: Url,
    key: Option<Secret>,
}

/// A request to a server.
#[derive(Debug, Clone)]
pub(crate) struct ServerApiRequest {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Bytes,
}

impl Connection {
    /// Makes a connection to a server at an address such as `https://chat.example.com`.
    ///
    /// # Errors
    /// `client_address_invalid`; `client_key_exposed` when a key would go over an open line to another machine.
    pub fn new(transport: Arc<dyn Transport>, base: &str, key: Option<Secret>) -> Result<Self> {
        let wrong = |what: &str| Error::Address { what: what.to_owned() };
        let base = Url::parse(base).map_err(|error| wrong(&error.to_string()))?;
        if !matches!(base.scheme(), "http" | "https") || base.host().is_none() {
            return Err(wrong("it begins with http:// or https:// and names a host"));
        }
        if !base.username().is_empty() || base.password().is_some() {
            return Err(wrong("it must not hold a user or a password"));
        }
        if key.is_some() && base.scheme() == "http" && !is_this_machine(&base) {
            return Err(Error::Insecure { host: base.host_str().unwrap_or_default().to_owned() });
        }
        Ok(Self { transport, base, key })
    }

    /// Returns the address.
    #[must_use]
    pub fn base_url(&self) -> &Url {
        &self.base
    }

    /// Returns the address of a path below this one. In each segment, characters that are not allowed in a URL are
    /// escaped.
    pub(crate) fn url_below(&self, parts: &[&str]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(parts);
        }
        url
    }

    /// Asks, and reads the answer as JSON.
    pub(crate) async fn request_json<T: DeserializeOwned>(&self, asked: ServerApiRequest) -> Result<T> {
        let (_, body) = self.request_body(asked).await?;
        serde_json::from_slice(&body).map_err(|error| Error::Answer { what: error.to_string() })
    }

    /// Asks, and reads the whole answer; a refusal is an error.
    pub(crate) async fn request_body(&self, asked: ServerApiRequest) -> Result<(u16, Bytes)> {
        let response = self.open_response(asked).await?;
        let status = response.status;
        Ok((status, read_body(response.body, ANSWER_BYTES, self.host_name()).await?))
    }

    /// Asks, and returns the answer as soon as its head is there; a refusal is an error.
    pub(crate) async fn open_response(&self, asked: ServerApiRequest) -> Result<HttpResponse> {
        let response = self.send_request(asked).await?;
        if (200..300).contains(&response.status) {
            Ok(response)
        } else {
            Err(self.read_refusal(response).await?)
        }
    }

    /// Asks, and reads the whole answer, whatever its status.
    pub(crate) async fn request_any_status(&self, asked: ServerApiRequest) -> Result<(u16, Bytes)> {
        let response = self.send_request(asked).await?;
        let status = response.status;
        Ok((status, read_body(response.body, ANSWER_BYTES, self.host_name()).await?))
    }

    async fn send_request(&self, asked: ServerApiRequest) -> Result<HttpResponse> {
        let ServerApiRequest { method, url, mut headers, body } = asked;
        if let Some(key) = &self.key {
            headers.push(("authorization".to_owned(), format!("Bearer {}", key.expose())));
        }
        if !body.is_empty() {
            headers.push(("content-type".to_owned(), "application/json".to_owned()));
        }
        Ok(self.transport.send(HttpRequest { method, url: url.into(), headers, body }).await?)
    }

    async fn read_refusal(&self, response: HttpResponse) -> Result<Error> {
        let (status, wait) = (response.status, retry_after(&response));
        let body = read_body(response.body, ANSWER_BYTES, self.host_name()).await?;
        let refused = match serde_json::from_slice::<ErrorBody>(&body) {
            Ok(ErrorBody { error }) => ServerRefusal {
                status,
                category: error.category,
                bucket: Some(error.bucket),
                message: error.message,
                hint: error.hint,
                retry_after: wait,
                turn: error.turn,
            },
            // Somebody between us and the server.
            Err(_) => ServerRefusal {
                status,
                category: String::new(),
                bucket: None,
                message: format!("the status {status}, without a word that is understood"),
                hint: None,
                retry_after: wait,
                turn: None,
            },
        };
        Ok(Error::Refused(Box::new(refused)))
    }

    pub(crate) fn host_name(&self) -> &str {
        self.base.host_str().unwrap_or_default()
    }
}

impl ServerApiRequest {
    pub(crate) fn get(url: Url) -> Self {
        Self { method: Method::Get, url, headers: Vec::new(), body: Bytes::new() }
    }

    pub(crate) fn delete(url: Url) -> Self {
        Self { method: Method::Delete, ..Self::get(url) }
    }

    pub(crate) fn post(url: Url, body: &impl Serialize) -> Result<Self> {
        let body = serde_json::to_vec(body).map_err(|error| Error::Answer { what: error.to_string() })?;
        Ok(Self { method: Method::Post, body: body.into(), ..Self::get(url) })
    }

    pub(crate) fn put(url: Url, body: &impl Serialize) -> Result<Self> {
        Ok(Self { method: Method::Put, ..Self::post(url, body)? })
    }

    /// Adds a header.
    pub(crate) fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds a query parameter, if it has a value.
    pub(crate) fn with_query(mut self, name: &str, value: Option<&str>) -> Self {
        if let Some(value) = value {
            self.url.query_pairs_mut().append_pair(name, value);
        }
        self
    }
}

fn is_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(it)) => it.is_loopback(),
        Some(Host::Ipv6(it)) => it.is_loopback(),
        None => false,
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("base", &self.base.as_str()).finish_non_exhaustive()
    }
}
