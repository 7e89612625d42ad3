//! A server that is elsewhere: its transport.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{HeaderName, HeaderValue};
use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::common::client_side_sse::FixedInterval;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, Transport};

use crate::limits::McpLimits;
use crate::link::ConnectionLink;
use crate::place::McpEndpoint;

/// How often a stream of events that broke off is asked for again, before the connection counts as lost.
const REOPENED_MAX: usize = 3;

type Inner = StreamableHttpClientTransport<reqwest::Client>;

/// The transport of an endpoint, whose end is taken down.
pub(crate) struct RemoteTransport {
    inner: Inner,
    link: Arc<ConnectionLink>,
}

impl RemoteTransport {
    /// Makes the transport. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// The malformed setting, without values of headers.
    pub(crate) fn new(
        endpoint: &McpEndpoint,
        limits: &McpLimits,
        link: &Arc<ConnectionLink>,
    ) -> Result<Self, String> {
        let mut reopening = FixedInterval::default();
        reopening.max_times = Some(REOPENED_MAX);
        reopening.duration = Duration::from_millis(500);
        let mut config = StreamableHttpClientTransportConfig::with_uri(endpoint.url.as_str())
            .custom_headers(parse_endpoint_headers(endpoint)?)
            .max_sse_event_size(limits.message_bytes);
        config.retry_config = Arc::new(reopening);
        let inner = Inner::with_client(endpoint.client.clone(), config);
        Ok(Self { inner, link: Arc::clone(link) })
    }
}

/// Reads the headers of an endpoint.
pub(crate) fn parse_endpoint_headers(
    endpoint: &McpEndpoint,
) -> Result<HashMap<HeaderName, HeaderValue>, String> {
    let mut headers = HashMap::new();
    for (name, value) in &endpoint.headers {
        let known = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| format!("{name:?} cannot be the name of a header"))?;
        let mut value = HeaderValue::from_str(value.expose())
            .map_err(|_| format!("the value of the header {name:?} cannot be sent"))?;
        value.set_sensitive(true);
        headers.insert(known, value);
    }
    Ok(headers)
}

impl Transport<RoleClient> for RemoteTransport {
    type Error = <Inner as Transport<RoleClient>>::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let message = self.inner.receive().await;
        if message.is_none() {
            self.link.mark_closed();
        }
        message
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.link.mark_closed();
        self.inner.close().await
    }
}

impl Drop for RemoteTransport {
    fn drop(&mut self) {
        self.link.mark_closed();
    }
}
