//! The builder of a provider.

use std::sync::Arc;

use singletree_http::{HttpLimits, Redactor, Secret, Transport};
use singletree_llm::{Error, ProviderErrorDetail, Result};

use super::endpoint::ProviderEndpoint;
use super::{Capabilities, HttpProvider};
use crate::wire::Wire;

/// Collects the settings and the parts of a provider. `Debug` shows no key.
#[derive(Debug)]
pub struct HttpProviderBuilder {
    wire: Wire,
    model: String,
    system: Option<String>,
    base_url: Option<String>,
    key: Option<Secret>,
    headers: Vec<(String, Secret)>,
    transport: Arc<dyn Transport>,
    capabilities: Capabilities,
    limits: HttpLimits,
}

impl HttpProviderBuilder {
    pub(super) fn new(wire: Wire, model: String, transport: Arc<dyn Transport>) -> Self {
        let capabilities = Capabilities::of(wire);
        let limits = HttpLimits::standard();
        Self {
            wire,
            model,
            system: None,
            base_url: None,
            key: None,
            headers: Vec::new(),
            transport,
            capabilities,
            limits,
        }
    }

    /// Says where the server is: scheme, host, and perhaps the beginning of a path, with or without the version of
    /// the wire (`http://host` and `http://host/v1` are the same). The vendor's own server where this is not called.
    #[must_use]
    pub fn base_url(mut self, base_url: impl Into<String>) -> Self {
        self.base_url = Some(base_url.into());
        self
    }

    /// Names the system behind the wire, where it is not the vendor's own: `vllm`, `lm_studio`, `ollama` (spec:
    /// observability §5.5.3).
    #[must_use]
    pub fn system(mut self, system: impl Into<String>) -> Self {
        self.system = Some(system.into());
        self
    }

    /// Gives the key that the server asks for; space and line ends around it are not part of it. A server on this
    /// machine usually asks for none.
    #[must_use]
    pub fn key(mut self, key: Secret) -> Self {
        self.key = Some(Secret::new(key.expose().trim()));
        self
    }

    /// Sends one more header with every call; its value is treated as a secret.
    #[must_use]
    pub fn header(mut self, name: &str, value: Secret) -> Self {
        self.headers.push((name.to_ascii_lowercase(), value));
        self
    }

    /// Sets the capabilities of the server, where they differ from those of the vendor's own server.
    #[must_use]
    pub fn capabilities(mut self, capabilities: Capabilities) -> Self {
        self.capabilities = capabilities;
        self
    }

    /// Bounds how much of an answer is read: the bytes of a body and of a line. The timeouts are the transport's.
    #[must_use]
    pub fn limits(mut self, limits: HttpLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Makes the provider. Nothing is sent.
    ///
    /// # Errors
    ///
    /// `provider_invalid_request` for an empty model and for a base address that is none.
    pub fn build(self) -> Result<HttpProvider> {
        if self.model.trim().is_empty() {
            return Err(Error::InvalidRequest(ProviderErrorDetail::new("model: must not be empty")));
        }
        let endpoint =
            ProviderEndpoint::parse_base_url(self.base_url.as_deref().unwrap_or(self.wire.vendor_url()))?;
        let mapping = self.wire.wire_mapping();
        let written = mapping.auth_headers(self.key.as_ref().map(Secret::expose));
        let mut headers: Vec<_> =
            written.into_iter().map(|(name, value)| (name, Secret::new(value))).collect();
        let redactor =
            Redactor::new(self.key.iter().chain(self.headers.iter().map(|(_, value)| value)).cloned());
        for (name, value) in self.headers {
            headers.retain(|(known, _)| *known != name);
            headers.push((name, value));
        }
        Ok(HttpProvider {
            wire: self.wire,
            model: self.model,
            system: self.system.unwrap_or_else(|| self.wire.system_name().to_owned()),
            endpoint,
            headers,
            transport: self.transport,
            capabilities: self.capabilities,
            limits: self.limits,
            redactor,
            mapping,
        })
    }
}
