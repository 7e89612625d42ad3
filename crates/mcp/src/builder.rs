//! Describing a server.

use std::collections::BTreeMap;
use std::sync::Arc;

use singletree_http::Secret;
use singletree_tools::{DefinitionPins, Effect, MemoryDefinitionPins, Recovery};

use crate::connection::ConnectionTerms;
use crate::error::{Error, Result};
use crate::judgement::McpToolSettings;
use crate::limits::McpLimits;
use crate::name::check_server_name;
use crate::place::{McpCommand, McpServerLocation};
use crate::remote::parse_endpoint_headers;
use crate::server::McpServer;
use crate::words::SecretRedactor;

/// Describes a server before it is made.
#[derive(Debug)]
pub struct McpServerBuilder {
    name: String,
    place: McpServerLocation,
    limits: McpLimits,
    passes_baggage: bool,
    judgement: McpToolSettings,
    secrets: Vec<Secret>,
    pins: Arc<dyn DefinitionPins>,
}

impl McpServerBuilder {
    pub(crate) fn new(name: &str, place: McpServerLocation) -> Self {
        let judgement =
            McpToolSettings { hints: true, effects: BTreeMap::new(), recoveries: BTreeMap::new() };
        let (name, limits) = (name.to_owned(), McpLimits::standard());
        Self {
            name,
            place,
            limits,
            passes_baggage: true,
            judgement,
            secrets: Vec::new(),
            pins: Arc::new(MemoryDefinitionPins::default()),
        }
    }

    /// Sets the limits; [`McpLimits::standard`] otherwise.
    #[must_use]
    pub fn limits(mut self, limits: McpLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Keeps the caller's `baggage` (W3C Baggage) from the server. Without this it goes out in `_meta` of each call of a
    /// tool, with the rest of the trace.
    #[must_use]
    pub fn without_baggage(mut self) -> Self {
        self.passes_baggage = false;
        self
    }

    /// Sets how much a tool of this server may change, whatever its hints say. The name is the server's own. `*` stands
    /// for every tool that is not named.
    #[must_use]
    pub fn effect(mut self, tool: impl Into<String>, effect: Effect) -> Self {
        self.judgement.effects.insert(tool.into(), effect);
        self
    }

    /// Sets the reaction to a call of a tool whose outcome is unknown, whatever its hints say.
    #[must_use]
    pub fn recovery(mut self, tool: impl Into<String>, recovery: Recovery) -> Self {
        self.judgement.recoveries.insert(tool.into(), recovery);
        self
    }

    /// Believes no hint of the server: every tool counts as dangerous unless [`effect`](Self::effect) says otherwise.
    /// For servers that belong to somebody else.
    #[must_use]
    pub fn ignore_hints(mut self) -> Self {
        self.judgement.hints = false;
        self
    }

    /// Stores the first definition of each tool that was seen. A tool whose definition changes later counts as
    /// dangerous unless [`effect`](Self::effect) says otherwise, whatever its hints say. Without this, pins last as
    /// long as the server.
    #[must_use]
    pub fn definition_pins(mut self, pins: Arc<dyn DefinitionPins>) -> Self {
        self.pins = pins;
        self
    }

    /// Names a text that must not be shown where the server says it, besides its secret variables and its headers.
    #[must_use]
    pub fn redacted_secret(mut self, secret: Secret) -> Self {
        self.secrets.push(secret);
        self
    }

    /// Makes the server. Nothing is started.
    ///
    /// # Errors
    ///
    /// `mcp_configuration_invalid`: a name that cannot be a prefix of tool names, no program, an invalid variable, an
    /// invalid address or an invalid header.
    pub fn build(mut self) -> Result<McpServer> {
        let checked = check_server_name(&self.name).and_then(|()| match &self.place {
            McpServerLocation::Command(command) => check_command(command),
            McpServerLocation::Endpoint(endpoint) => {
                check_address(&endpoint.url).and_then(|()| parse_endpoint_headers(endpoint).map(drop))
            }
        });
        if let Err(problem) = checked {
            return Err(Error::Configuration { server: self.name, problem });
        }
        self.secrets.extend(self.place.collect_secrets());
        let words = SecretRedactor::new(self.secrets);
        let terms = ConnectionTerms {
            server: self.name,
            place: self.place,
            limits: self.limits,
            passes_baggage: self.passes_baggage,
            words,
        };
        Ok(McpServer::new(terms, self.judgement, self.pins))
    }
}

fn check_command(command: &McpCommand) -> Result<(), String> {
    if command.program.is_empty() {
        return Err("it names no program".to_owned());
    }
    let plain = command.plain.iter().map(|(name, _)| name);
    let mut names = plain.chain(command.secret.iter().map(|(name, _)| name));
    match names.find(|name| name.is_empty() || name.contains(['=', '\0'])) {
        Some(name) => Err(format!("{name:?} cannot be the name of a variable")),
        None => Ok(()),
    }
}

/// Checks an address, without saying it: it may hold a key.
fn check_address(url: &str) -> Result<(), String> {
    match reqwest::Url::parse(url) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Ok(()),
        Ok(_) | Err(_) => Err("its address is no http or https URL".to_owned()),
    }
}
