//! The server: puts the sections together, and serves them.

mod builder;
mod cross_origin;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::DefaultBodyLimit;
use axum::http::{Method, Request, Response, StatusCode};
use axum::middleware::from_fn_with_state;
use futures_util::future::join_all;
use singletree_durable::DocumentStore;
use singletree_harness::Chat;
use singletree_http::Secret;
use tokio::net::{TcpListener, lookup_host};
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};
use tower::ServiceExt;
use tower_http::CompressionLevel;

pub use builder::ServerBuilder;

use crate::compression::compression_layer;
use crate::door::ConnectionAcceptor;
use crate::frame::{self, RequestLayer};
use crate::notify::WebhookService;
use crate::problem::RequestProblem;
use crate::section::ProtocolSection;
use crate::settings::ServerLimits;
use crate::shared::ServerState;
use crate::telemetry::send_metrics_once;
use crate::{
    Error, Result, agui, campaigns, docs, keys, narration, native, nodes, openai, openharness, page,
    steerable, store_health, system, telemetry, ui_stream, upkeep,
};

/// The time for writing answers when turns have used up the time of a shutdown.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The maximum number of connections of the listener for administration.
const ADMIN_CONNECTIONS: usize = 64;

/// A server over one durable chat.
#[derive(Clone)]
pub struct Server {
    shared: Arc<ServerState>,
    /// The origins of pages on other sites whose scripts may send requests.
    origins: Vec<String>,
}

/// Returns all sections; the last one serves the document of the API.
fn build_sections() -> Vec<ProtocolSection> {
    let mut sections = vec![
        native::build_section(),
        campaigns::build_section(),
        keys::build_section(),
        nodes::build_section(),
        page::build_section(),
        narration::build_section(),
        openharness::build_section(),
        steerable::build_section(),
        ui_stream::build_section(),
        agui::build_section(),
        openai::build_section(),
        telemetry::build_section(),
    ];
    let routes: Vec<_> = sections.iter().flat_map(|section| &section.routes).cloned().collect();
    sections.push(docs::build_section(&routes));
    sections
}

impl Server {
    /// Makes a builder of a server over a chat and the documents beside its conversations, in the same store.
    #[must_use]
    pub fn builder(chat: Chat, documents: Arc<dyn DocumentStore>) -> ServerBuilder {
        ServerBuilder::new(chat, documents)
    }

    /// Makes a server that also answers to pages of these origins.
    fn from_state(shared: Arc<ServerState>, origins: Vec<String>) -> Self {
        Self { shared, origins }
    }

    /// Lists all served routes: each method with its path, with parameters in braces.
    #[must_use]
    pub fn list_routes() -> Vec<(Method, &'static str)> {
        build_sections()
            .iter()
            .flat_map(|section| &section.routes)
            .map(|it| (it.method.clone(), it.path))
            .collect()
    }

    /// Returns the dependencies of all HTTP handlers.
    #[cfg(test)]
    pub(crate) fn shared(&self) -> Arc<ServerState> {
        self.shared.clone()
    }

    /// Returns all routes, in the request layer.
    fn build_router(&self) -> Router {
        self.build_section_router(build_sections())
    }

    /// Returns the routes of sections, in the request layer.
    fn build_section_router(&self, sections: Vec<ProtocolSection>) -> Router {
        let frame = Arc::new(RequestLayer::new(self.shared.clone(), &sections));
        let all = sections.into_iter().fold(Router::new(), |all, it| all.merge(it.router));
        let all = all
            .fallback(async || RequestProblem::from_status(StatusCode::NOT_FOUND))
            .layer(DefaultBodyLimit::max(self.shared.limits.body_bytes))
            .layer(from_fn_with_state(frame, frame::handle_request))
            .layer(compression_layer(CompressionLevel::Fastest));
        let all = match cross_origin::cors_layer(&self.origins) {
            Some(cors) => all.layer(cors),
            None => all,
        };
        all.with_state(self.shared.clone())
    }

    /// Answers one request without a connection: for programs that test their server. It builds the router again for
    /// each call, and runs none of the background tasks of [`Server::serve`].
    ///
    /// # Cancellation
    /// Dropping the future, or the body of the response, has the effect of a closed connection: accepted turns go on.
    pub async fn answer_request(&self, request: Request<Body>) -> Response<Body> {
        match self.build_router().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }

    /// Delivers notices to the endpoints of webhooks, until it is dropped: for programs that answer requests by
    /// [`answer_request`](Self::answer_request). [`serve`](Self::serve) does this itself.
    ///
    /// # Cancellation
    /// Dropping the future ends the deliveries; the next process delivers the remaining notices.
    pub async fn deliver_notices(&self) {
        let stop = watch::Sender::new(false);
        join_all(WebhookService::delivery_tasks(&self.shared, &stop)).await;
    }

    /// Listens at an address, as `127.0.0.1:8787`; port 0 is a free one.
    ///
    /// # Errors
    /// `server_listen_failed`; `server_open` when the server needs no key and the address is reachable from other
    /// machines.
    ///
    /// # Cancellation
    /// Dropping the future leaves nothing behind.
    pub async fn listen(&self, address: &str) -> Result<TcpListener> {
        let failed = |source| Error::Listen { address: address.to_owned(), source };
        let all: Vec<_> = lookup_host(address).await.map_err(failed)?.collect();
        if !self.shared.access.is_key_required()
            && let Some(open) = all.iter().find(|item| !item.ip().is_loopback())
        {
            return Err(Error::Open { address: *open });
        }
        TcpListener::bind(all.as_slice()).await.map_err(failed)
    }

    /// Returns the operator's key, drawn when the server was built: it manages the keys of all tenants, and nothing
    /// else.
    #[must_use]
    pub fn operator_key(&self) -> Secret {
        self.shared.access.operator_key().clone()
    }

    /// Serves metrics, and nothing else, until it is dropped: at a separate port, since metrics cover all tenants.
    ///
    /// # Cancellation
    /// Dropping the future drops all its connections.
    pub async fn serve_metrics(&self, listener: TcpListener) {
        let metrics = self.shared.telemetry.metrics().clone();
        let mut door = ConnectionAcceptor::new(
            telemetry::build_metrics_router(self.shared.clone()),
            &self.shared.limits,
            metrics,
        );
        door.accept_connections(&listener, std::future::pending()).await;
    }

    /// Serves health, readiness, keys and the audit, and nothing else, until it is dropped: with connections of its
    /// own, so that the operator gets through when all others are taken.
    ///
    /// # Cancellation
    /// Dropping the future drops all its connections.
    pub async fn serve_admin(&self, listener: TcpListener) {
        let sections = vec![telemetry::build_section(), keys::build_section()];
        let limits = ServerLimits { connections: ADMIN_CONNECTIONS, ..self.shared.limits.clone() };
        let metrics = self.shared.telemetry.metrics().clone();
        let mut door = ConnectionAcceptor::new(self.build_section_router(sections), &limits, metrics);
        door.accept_connections(&listener, std::future::pending()).await;
    }

    /// Serves until `stop` is ready, or until another writer has taken over the store. While it runs, it takes over the
    /// work of processes that died, and deletes expired documents. Then it accepts no more connections and lets turns
    /// and answers end, within [`ServerLimits::grace`](crate::ServerLimits::grace). Resumable streams that are still
    /// open then end with a hint to reconnect, all others with a failure (D33). Accepted turns are kept: those without
    /// time to end go on after the next start.
    ///
    /// # Errors
    /// `store_fenced` when another process has opened the store for writing: this one can never write again. The
    /// process should end, so that its supervisor starts it again or finds the other process.
    ///
    /// # Cancellation
    /// Dropping the future drops all connections; turns that were accepted are kept.
    #[expect(clippy::disallowed_methods, reason = "time limits of connections are those of the runtime")]
    pub async fn serve(&self, listener: TcpListener, stop: impl Future<Output = ()> + Send) -> Result<()> {
        let metrics = self.shared.telemetry.metrics().clone();
        let mut door = ConnectionAcceptor::new(self.build_router(), &self.shared.limits, metrics);
        // Dropped before the connections, so that their end does not count as a disconnect of their clients (D31).
        let _closing = ClosingGuard(&self.shared);
        let post = WebhookService::start_dispatchers(&self.shared);
        let ended = tokio::select! {
            biased;
            () = door.accept_connections(&listener, stop) => Ok(()),
            never = upkeep::run_upkeep(&self.shared) => match never {},
            never = system::watch_descriptors(&self.shared) => match never {},
            fenced = store_health::watch_until_fenced(&self.shared) => Err(fenced),
        };
        drop(listener);
        door.begin_shutdown();
        let end = Instant::now() + self.shared.limits.grace;
        self.shared.chat.shutdown(self.shared.limits.grace).await;
        if let Some(exporter) = &self.shared.trace_exporter {
            // Claims that a store in trouble keeps end by themselves.
            drop(timeout_at(end.max(Instant::now() + LAST_WORDS), exporter.release()).await);
        }
        self.shared.closing.send_replace(true);
        let post = post.stop_dispatchers(end);
        // All connections have ended, or had their time.
        let empty = timeout_at(end.max(Instant::now() + LAST_WORDS), door.wait_until_closed());
        // Values that are not taken now are lost with the process.
        let metrics = timeout(LAST_WORDS, send_last_metrics(&self.shared));
        drop(tokio::join!(empty, post, metrics).0);
        ended
    }
}

async fn send_last_metrics(shared: &ServerState) {
    if let Some(export) = &shared.metric_export {
        send_metrics_once(shared, export).await;
    }
}

/// Ends all streams when it is dropped, at the latest.
struct ClosingGuard<'a>(&'a ServerState);

impl Drop for ClosingGuard<'_> {
    fn drop(&mut self) {
        self.0.closing.send_replace(true);
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Server").field(&self.shared).finish()
    }
}
