//! The server of a simulated process: its real handlers, without sockets.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::{Request, Response};
use singletree_durable::DocumentStore;
use singletree_env::Env;
use singletree_harness::Chat;
use singletree_server::Server;
use tokio::runtime::Runtime;

use crate::error::Result;
use crate::webhook::SimulatedReceiver;

/// The server of a process. A clone is the same server.
#[derive(Clone)]
pub(crate) struct SimulatedServer {
    server: Server,
    runtime: Arc<IdleRuntime>,
}

/// The runtime that the timers of handlers ask for. Nothing drives it: time limits of connections never pass.
#[derive(Debug)]
pub(crate) struct IdleRuntime(Option<Runtime>);

impl IdleRuntime {
    /// Makes a runtime.
    ///
    /// # Errors
    /// The system gives none.
    pub(crate) fn new() -> std::io::Result<Arc<Self>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        Ok(Arc::new(Self(Some(runtime))))
    }
}

impl Drop for IdleRuntime {
    fn drop(&mut self) {
        // A caller of the simulation may be in a runtime itself, where none may be dropped that waits for its tasks.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl SimulatedServer {
    /// Makes the server over the chat of a process.
    ///
    /// # Errors
    /// `simulation_failed`.
    pub(crate) fn new(
        (chat, documents): (Chat, Arc<dyn DocumentStore>),
        env: &Env,
        (runtime, receiver): (Arc<IdleRuntime>, &SimulatedReceiver),
    ) -> Result<Self> {
        let server = Server::builder(chat, documents)
            .clock(env.clock.clone())
            .ids(env.ids.clone())
            .entropy(env.rng.clone())
            .delivery_timer(env.timer.clone())
            .webhooks([SimulatedReceiver::make_webhook()?])
            .webhook_transport(Arc::new(receiver.clone()))
            .build()?;
        Ok(Self { server, runtime })
    }

    /// Answers a request. The future and the body of the response are polled by [`SimulatedServer::run_handler`] only.
    pub(crate) async fn answer_request(&self, request: Request<Body>) -> Response<Body> {
        self.server.answer_request(request).await
    }

    /// Delivers notices to webhooks until it is dropped.
    pub(crate) async fn deliver_notices(&self) {
        self.server.deliver_notices().await;
    }

    /// Polls a future where handlers find timers.
    pub(crate) fn run_handler<F: Future + Send>(&self, future: F) -> HandlerFuture<F> {
        HandlerFuture { runtime: self.runtime.clone(), future: Box::pin(future) }
    }
}

/// A future that is polled where handlers find timers.
pub(crate) struct HandlerFuture<F> {
    runtime: Arc<IdleRuntime>,
    future: Pin<Box<F>>,
}

impl<F: Future> Future for HandlerFuture<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let runtime = self.runtime.clone();
        let _entered = runtime.0.as_ref().map(Runtime::enter);
        self.future.as_mut().poll(context)
    }
}

impl fmt::Debug for SimulatedServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulatedServer").finish_non_exhaustive()
    }
}
