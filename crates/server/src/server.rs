//! The server: sections put together, and served.

mod builder;
mod layers;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::DefaultBodyLimit;
use axum::http::{Method, Request, Response, StatusCode};
use axum::middleware::from_fn_with_state;
use singletree_durable::Documents;
use singletree_harness::Chat;
use singletree_http::Secret;
use tokio::net::{TcpListener, lookup_host};
use tokio::time::{Instant, timeout_at};
use tower::ServiceExt;

pub use builder::ServerBuilder;

use crate::door::Door;
use crate::frame::{self, Frame};
use crate::notify::Post;
use crate::problem::Problem;
use crate::section::Section;
use crate::settings::ServerLimits;
use crate::shared::Shared;
use crate::{
    Error, Result, agui, docs, keys, narration, native, openai, openharness, page, steerable, store_health,
    system, telemetry, ui_stream, upkeep,
};

/// How long answers get to be written when turns have used up the time of a shutdown.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How many connections the listener for administration has.
const ADMIN_CONNECTIONS: usize = 64;

/// A server over one durable chat.
#[derive(Clone)]
pub struct Server {
    shared: Arc<Shared>,
    /// The pages of elsewhere that may ask from within a browser.
    origins: Vec<String>,
}

/// Returns all sections, the one that describes them last.
fn sections() -> Vec<Section> {
    let mut sections = vec![
        native::section(),
        keys::section(),
        page::section(),
        narration::section(),
        openharness::section(),
        steerable::section(),
        ui_stream::section(),
        agui::section(),
        openai::section(),
        telemetry::section(),
    ];
    let routes: Vec<_> = sections.iter().flat_map(|section| &section.routes).cloned().collect();
    sections.push(docs::section(&routes));
    sections
}

impl Server {
    /// Starts a server over a chat and what is kept beside its conversations, in the same store.
    #[must_use]
    pub fn builder(chat: Chat, documents: Arc<dyn Documents>) -> ServerBuilder {
        ServerBuilder::new(chat, documents)
    }

    /// Makes a server that answers to pages of these origins, too.
    fn of(shared: Arc<Shared>, origins: Vec<String>) -> Self {
        Self { shared, origins }
    }

    /// Lists all that is served: each method with its path, whose names stand in braces.
    #[must_use]
    pub fn routes() -> Vec<(Method, &'static str)> {
        sections().iter().flat_map(|section| &section.routes).map(|it| (it.method.clone(), it.path)).collect()
    }

    /// Returns what all sections share.
    #[cfg(test)]
    pub(crate) fn shared(&self) -> Arc<Shared> {
        self.shared.clone()
    }

    /// Returns all routes, in their frame.
    fn router(&self) -> Router {
        self.framed(sections())
    }

    /// Returns the routes of sections, in their frame.
    fn framed(&self, sections: Vec<Section>) -> Router {
        let frame = Arc::new(Frame::new(self.shared.clone(), &sections));
        let all = sections.into_iter().fold(Router::new(), |all, it| all.merge(it.router));
        let all = all
            .fallback(async || Problem::of_status(StatusCode::NOT_FOUND))
            .layer(DefaultBodyLimit::max(self.shared.limits.body_bytes))
            .layer(from_fn_with_state(frame, frame::run))
            .layer(layers::compression());
        let all = match layers::cors(&self.origins) {
            Some(cors) => all.layer(cors),
            None => all,
        };
        all.with_state(self.shared.clone())
    }

    /// Answers one request without a connection: for programs that test what they serve. It puts the routes together anew each
    /// time, and nothing runs beside it that [`Server::serve`] runs.
    ///
    /// # Cancellation
    /// Dropping the future, or the body of the response, is what a closed connection is: turns that were accepted go on.
    pub async fn answer(&self, request: Request<Body>) -> Response<Body> {
        match self.router().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }

    /// Listens at an address, as `127.0.0.1:8787`; port 0 is a free one.
    ///
    /// # Errors
    /// `server_listen_failed`; `server_open` when others than this machine could reach it and nobody is asked for a key.
    ///
    /// # Cancellation
    /// Dropping the future leaves nothing behind.
    pub async fn listen(&self, address: &str) -> Result<TcpListener> {
        let failed = |source| Error::Listen { address: address.to_owned(), source };
        let all: Vec<_> = lookup_host(address).await.map_err(failed)?.collect();
        if !self.shared.access.is_required()
            && let Some(open) = all.iter().find(|item| !item.ip().is_loopback())
        {
            return Err(Error::Open { address: *open });
        }
        TcpListener::bind(all.as_slice()).await.map_err(failed)
    }

    /// Returns the key of whoever runs the server, drawn when it was built: it manages the keys of all tenants, and nothing else.
    #[must_use]
    pub fn operator_key(&self) -> Secret {
        self.shared.access.operator().clone()
    }

    /// Serves metrics, and nothing else, until it is dropped: at a port of their own, for they tell of all tenants.
    ///
    /// # Cancellation
    /// Dropping the future drops all its connections.
    pub async fn serve_metrics(&self, listener: TcpListener) {
        let metrics = self.shared.telemetry.metrics().clone();
        let mut door = Door::new(telemetry::metrics_alone(self.shared.clone()), &self.shared.limits, metrics);
        door.open(&listener, std::future::pending()).await;
    }

    /// Serves health, readiness, keys and the audit, and nothing else, until it is dropped: with connections of its
    /// own, so that whoever runs the server gets through when all others are taken.
    ///
    /// # Cancellation
    /// Dropping the future drops all its connections.
    pub async fn serve_admin(&self, listener: TcpListener) {
        let sections = vec![telemetry::section(), keys::section()];
        let limits = ServerLimits { connections: ADMIN_CONNECTIONS, ..self.shared.limits.clone() };
        let metrics = self.shared.telemetry.metrics().clone();
        let mut door = Door::new(self.framed(sections), &limits, metrics);
        door.open(&listener, std::future::pending()).await;
    }

    /// Serves until `stop` is ready, or until another writer has taken over the store. On the way it takes over the
    /// work of processes that died, and deletes expired documents. Then it accepts nothing more and lets turns and
    /// answers end, within [`ServerLimits::grace`](crate::ServerLimits::grace). Resumable streams that are still open
    /// then end with a hint to come again, all others with a failure (D33). Accepted turns are kept: those without time
    /// to end go on after the next start.
    ///
    /// # Errors
    /// `store_fenced` when another process has opened the store for writing: this one can never write again. The process should
    /// end, so that whoever watches over it starts it again or finds the other one.
    ///
    /// # Cancellation
    /// Dropping the future drops all connections; turns that were accepted are kept.
    pub async fn serve(&self, listener: TcpListener, stop: impl Future<Output = ()> + Send) -> Result<()> {
        let metrics = self.shared.telemetry.metrics().clone();
        let mut door = Door::new(self.router(), &self.shared.limits, metrics);
        // Dropped before the connections, so that their end does not count as a disconnect of their clients (D31).
        let _closing = ClosingGuard(&self.shared);
        let post = Post::open(&self.shared);
        let ended = tokio::select! {
            () = door.open(&listener, stop) => Ok(()),
            never = upkeep::run(&self.shared) => match never {},
            never = system::watch(&self.shared) => match never {},
            fenced = store_health::watch(&self.shared) => Err(fenced),
        };
        drop(listener);
        door.leave();
        let end = Instant::now() + self.shared.limits.grace;
        self.shared.chat.shutdown(self.shared.limits.grace).await;
        self.shared.closing.send_replace(true);
        let post = post.close(end);
        // Nobody is left, or has had the time.
        let empty = timeout_at(end.max(Instant::now() + LAST_WORDS), door.empty());
        drop(tokio::join!(empty, post).0);
        ended
    }
}

/// Says that streams end with the server, at the latest when it is dropped.
struct ClosingGuard<'a>(&'a Shared);

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
