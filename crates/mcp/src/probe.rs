//! The first question to a program: does it speak the revision without `initialize`?

use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorCode, ErrorData, RequestId, ServerJsonRpcMessage, ServerResult,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::time::{Instant, timeout_at};

use crate::link::ConnectionLink;

/// A transport that answers `server/discover` in place of a program that does not: a program of an older revision may
/// ignore a request that it does not know, and rmcp would wait ten seconds for it. A late answer of the program is
/// dropped, because rmcp no longer expects it.
pub(crate) struct ProbeTransport<T> {
    inner: T,
    limit: Duration,
    probe: DiscoveryPhase,
    link: Arc<ConnectionLink>,
}

/// How far the question is.
enum DiscoveryPhase {
    /// It was not asked, or is answered.
    Idle,
    /// It is asked, and answered here at this moment.
    Asked(RequestId, Instant),
    /// It was answered here; the program's own answer may still come.
    GivenUp(RequestId),
}

impl<T> ProbeTransport<T> {
    pub(crate) fn new(inner: T, limit: Duration, link: &Arc<ConnectionLink>) -> Self {
        Self { inner, limit, probe: DiscoveryPhase::Idle, link: Arc::clone(link) }
    }

    /// Handles a message of the program, and returns it unless it is the late answer. An older program may answer every
    /// unknown request, for example with an empty result: that counts as not knowing the request.
    fn intercept_message(
        &mut self,
        message: RxJsonRpcMessage<RoleClient>,
    ) -> Option<RxJsonRpcMessage<RoleClient>> {
        let answered = match &message {
            ServerJsonRpcMessage::Response(response) => Some(&response.id),
            ServerJsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => None,
        };
        match &self.probe {
            DiscoveryPhase::Asked(id, _) if answered == Some(id) => {
                self.link.mark_probed();
                let id = id.clone();
                self.probe = DiscoveryPhase::Idle;
                let is_unknown = matches!(&message, ServerJsonRpcMessage::Response(response)
                    if !matches!(response.result, ServerResult::DiscoverResult(_)));
                Some(if is_unknown {
                    ServerJsonRpcMessage::error(unknown_method_error(), Some(id))
                } else {
                    message
                })
            }
            DiscoveryPhase::GivenUp(id) if answered == Some(id) => {
                if let ServerJsonRpcMessage::Response(response) = &message
                    && matches!(response.result, ServerResult::DiscoverResult(_))
                {
                    self.link.mark_discovered_late();
                }
                self.probe = DiscoveryPhase::Idle;
                None
            }
            _ => Some(message),
        }
    }
}

fn unknown_method_error() -> ErrorData {
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "server/discover", None)
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for ProbeTransport<T> {
    type Error = T::Error;

    #[expect(
        clippy::disallowed_methods,
        reason = "time limits and tasks of a connection to a child process or a server"
    )]
    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if let ClientJsonRpcMessage::Request(request) = &item
            && matches!(request.request, ClientRequest::DiscoverRequest(_))
        {
            self.probe = DiscoveryPhase::Asked(request.id.clone(), Instant::now() + self.limit);
        }
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let message = match &self.probe {
                DiscoveryPhase::Asked(id, until) => match timeout_at(*until, self.inner.receive()).await {
                    Ok(message) => message?,
                    Err(_elapsed) => {
                        let id = id.clone();
                        self.link.mark_probed();
                        self.probe = DiscoveryPhase::GivenUp(id.clone());
                        return Some(ServerJsonRpcMessage::error(unknown_method_error(), Some(id)));
                    }
                },
                DiscoveryPhase::Idle | DiscoveryPhase::GivenUp(_) => self.inner.receive().await?,
            };
            if let Some(message) = self.intercept_message(message) {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}
