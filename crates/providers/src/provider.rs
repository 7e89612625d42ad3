//! A model behind an HTTP server.

use std::sync::Arc;

use singletree_http::{Secret, Transport};

use crate::wire::Wire;

/// What the server behind a wire can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// It takes images. Where it does not, an image is refused before anything is sent.
    pub images: bool,
    /// It takes a response schema by itself.
    pub structured_output: bool,
    /// It streams.
    pub streaming: bool,
}

/// A model behind an HTTP server (spec: llm-provider §5, §8). Cheap to share.
#[derive(Debug)]
pub struct HttpProvider {}

/// Collects what a provider is made of.
#[derive(Debug)]
pub struct HttpProviderBuilder {
    wire: Wire,
    model: String,
    base_url: Option<String>,
    key: Option<Secret>,
    transport: Arc<dyn Transport>,
    capabilities: Capabilities,
}
