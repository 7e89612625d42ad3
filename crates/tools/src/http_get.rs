//! Reading a page of the web.

mod allowed;
mod text;

use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use schemars::JsonSchema;
use serde::Deserialize;
use singletree_http::{HttpClient, HttpLimits, HttpResponse, Transport, get_following};
use singletree_llm::{BoxFuture, ToolDefinition};

use crate::effect::{Effect, Recovery};
use crate::error::{Error, Result};
use crate::output::Output;
use crate::tool::{Invocation, Tool};
use crate::typed::TypedTool;

use allowed::AllowedHostsTransport;

/// How many redirects are followed.
const HOPS_MAX: usize = 5;
/// How many bytes of a page are read.
const BYTES_MAX: usize = 512 * 1024;
/// How many bytes of the body of a refused call are read.
const REFUSAL_BYTES_MAX: usize = 1_000;

/// Reads text from an address of the web that the model chose.
///
/// It goes to public addresses only: not to this machine, not to its network, not to the metadata service of a cloud,
/// also not by a name or a redirect that leads there. It sends no credential, follows at most five redirects, reads
/// half a megabyte, and returns text of any kind, with the address at which it was found and its type; a body that is
/// no text is an error that names the address and the type. [`Effect::Read`], though an address can carry words to its
/// owner: where that matters, [`with_allowed_hosts`](Self::with_allowed_hosts) names the hosts.
#[derive(Debug)]
pub struct HttpGet(TypedTool);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The address, beginning with http:// or https://.
    url: String,
}

impl HttpGet {
    /// Makes the tool `http_get`, which may read every public address.
    ///
    /// # Errors
    ///
    /// `tool_failed` when no client can be made, `tool_definition_invalid` when the library refuses the schema.
    pub fn new() -> Result<Self> {
        Self::with_transport(Arc::new(build_public_client()?))
    }

    /// Makes the tool `http_get`, which may read these hosts and those below them: `example.com` means
    /// `docs.example.com` too. Each redirect is checked.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with_allowed_hosts<H: Into<String>>(hosts: impl IntoIterator<Item = H>) -> Result<Self> {
        Self::with_transport(Arc::new(AllowedHostsTransport::new(Arc::new(build_public_client()?), hosts)))
    }

    /// Makes the tool `http_get` over a transport. Where it may go is the transport's to say: give it one that is
    /// guarded.
    ///
    /// # Errors
    ///
    /// `tool_definition_invalid` when the library refuses the schema.
    pub fn with_transport(transport: Arc<dyn Transport>) -> Result<Self> {
        let description = "Reads a web page or another text on the internet by its address.";
        TypedTool::new("http_get", description, Effect::Read, move |arguments: Arguments, _| {
            let transport = Arc::clone(&transport);
            async move { fetch_page(transport.as_ref(), &arguments.url).await }
        })
        .map(Self)
    }
}

fn build_public_client() -> Result<HttpClient> {
    HttpClient::public_only(HttpLimits::fetching())
        .map_err(|error| Error::failed_with_source(error.to_string(), error))
}

impl Tool for HttpGet {
    fn definition(&self) -> &ToolDefinition {
        self.0.definition()
    }

    fn effect(&self) -> Effect {
        self.0.effect()
    }

    fn on_unknown_outcome(&self) -> Recovery {
        self.0.on_unknown_outcome()
    }

    fn call<'a>(&'a self, invocation: Invocation<'a>) -> BoxFuture<'a, Result<Output>> {
        self.0.call(invocation)
    }
}

async fn fetch_page(transport: &dyn Transport, url: &str) -> Result<Output> {
    let failed = |it: singletree_http::Error| Error::failed_with_source(it.to_string(), it);
    let (url, response) = get_following(transport, url, HOPS_MAX).await.map_err(failed)?;
    let status = response.status;
    let kind = response.header("content-type").unwrap_or("of no stated type").to_owned();
    let most = if (200..300).contains(&status) { BYTES_MAX } else { REFUSAL_BYTES_MAX };
    let (bytes, whole) = read_body_prefix(response, most).await.map_err(failed)?;
    let text = text::decode_text(&kind, &bytes);
    if !(200..300).contains(&status) {
        let said = text.map(|text| format!(", and says: {text}")).unwrap_or_default();
        return Err(Error::failed(format!("{url} answered with status {status}{said}")));
    }
    let Some(mut text) = text else {
        return Err(Error::failed(format!("{url} is no text: {kind}")));
    };
    if !whole {
        text.push_str(&format!("\n[cut: only the first {BYTES_MAX} bytes were read]"));
    }
    Ok(Output::text(format!("{url} ({kind})\n\n{text}")))
}

/// Reads the beginning of a body, and says whether it was the whole.
async fn read_body_prefix(
    mut response: HttpResponse,
    most: usize,
) -> singletree_http::Result<(Vec<u8>, bool)> {
    let mut bytes = Vec::new();
    while let Some(piece) = response.body.next().await {
        let piece: Bytes = piece?;
        let room = most - bytes.len();
        bytes.extend_from_slice(&piece[..piece.len().min(room)]);
        if piece.len() > room {
            return Ok((bytes, false));
        }
    }
    Ok((bytes, true))
}
