//! Accepts connections, up to a maximum number at once, and closes them at shutdown.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tower::ServiceExt;

use crate::patient::WriteTimeoutStream;
use crate::settings::ServerLimits;
use crate::telemetry::ServerMetrics;

/// The time to wait when a connection cannot be accepted, for example for lack of file descriptors.
const BREATH: Duration = Duration::from_millis(50);

/// The address of the other end of a connection: of a client, or of a proxy before the server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PeerAddress(pub(crate) SocketAddr);

/// The connections of a server. Dropping it drops all of them.
pub(crate) struct ConnectionAcceptor {
    http: http1::Builder,
    router: Router,
    slots: Arc<Semaphore>,
    patience: Duration,
    /// Becomes true when connections have to end after their current request.
    leaving: watch::Sender<bool>,
    inside: JoinSet<()>,
    metrics: Arc<ServerMetrics>,
}

impl ConnectionAcceptor {
    pub(crate) fn new(router: Router, limits: &ServerLimits, metrics: Arc<ServerMetrics>) -> Self {
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(limits.request_time)
            .max_header_size(limits.header_bytes)
            .keep_alive(true);
        let slots = Arc::new(Semaphore::new(limits.connections));
        let (leaving, _) = watch::channel(false);
        Self { http, router, slots, patience: limits.write_time, leaving, inside: JoinSet::new(), metrics }
    }

    /// Accepts connections until `stop` is ready.
    pub(crate) async fn accept_connections(
        &mut self,
        listener: &TcpListener,
        stop: impl Future<Output = ()>,
    ) {
        tokio::pin!(stop);
        loop {
            let slots = self.slots.clone();
            let entering = async {
                let slot = slots.acquire_owned().await.expect("nobody closes it");
                loop {
                    match listener.accept().await {
                        Ok((stream, peer)) => return (slot, stream, peer),
                        // The error belongs to the connection, or is a temporary one of this process: neither ends
                        // the server.
                        Err(_) => tokio::time::sleep(BREATH).await,
                    }
                }
            };
            tokio::select! {
                biased;
                () = &mut stop => return,
                (slot, stream, peer) = entering => self.spawn_connection(slot, stream, peer),
            }
            while self.inside.try_join_next().is_some() {}
        }
    }

    fn spawn_connection(&mut self, slot: OwnedSemaphorePermit, stream: TcpStream, peer: SocketAddr) {
        // Sends small packets without delay. If the option cannot be set, the connection is only slower.
        stream.set_nodelay(true).unwrap_or_default();
        let io = TokioIo::new(WriteTimeoutStream::new(stream, self.patience));
        let router = self.router.clone().map_request(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(PeerAddress(peer));
            request.map(axum::body::Body::new)
        });
        let connection = self.http.serve_connection(io, TowerToHyperService::new(router));
        let mut leaving = self.leaving.subscribe();
        let counted = self.metrics.count_connection();
        self.inside.spawn(async move {
            tokio::pin!(connection);
            let left = async move { drop(leaving.wait_for(|leaving| *leaving).await) };
            // The result of a connection is not an error of the server: its client was answered, or is gone.
            tokio::select! {
                biased;
                ended = connection.as_mut() => drop(ended),
                () = left => {
                    connection.as_mut().graceful_shutdown();
                    drop(connection.await);
                }
            }
            drop((slot, counted));
        });
    }

    /// Ends connections after their current request, and idle ones immediately.
    pub(crate) fn begin_shutdown(&self) {
        self.leaving.send_replace(true);
    }

    /// Waits until all connections have ended.
    pub(crate) async fn wait_until_closed(&mut self) {
        while self.inside.join_next().await.is_some() {}
    }
}
