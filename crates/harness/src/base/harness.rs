//! The harness itself: classify, invoke, handle the outcome (harness §3 to §6).

use std::fmt;

use singletree_durable::{BoxError, BoxFuture, InvocationId, SessionId};
use singletree_engine::{
    Error as RunError, Graph, InvokeOptions, RunOutcome, State, SuspendedRun, format_error_chain,
};
use singletree_session::DispatchPath;

use super::builder::{HarnessBuilder, PausedRecords};
use super::failure::FailureReporter;
use super::inbound::{InboundRequest, SignalArrival, SignalTarget};
use super::report::{EngineInvocation, HarnessOutcome, TurnReport};
use super::resuming::{ResumeReservation, ResumingInvocations};
use super::route::{DispatchRoute, HarnessMode, SessionSelection, route_request};
use crate::{Error, Result};

/// Serves a graph to a runtime: one transmission, one turn, one of three outcomes (harness §2).
///
/// ```
/// use serde_json::{Map, json};
/// use singletree_engine::{Ctx, END, Graph, NodeResult};
/// use singletree_harness::{Harness, HarnessOutcome, InboundRequest};
/// use singletree_macros::State;
///
/// #[derive(Debug, State)]
/// #[state(engine = singletree_engine)] // not needed with the facade crate
/// struct Sum {
///     of: Vec<i64>,
///     sum: i64,
/// }
///
/// async fn add(cx: Ctx<Sum>) -> NodeResult<Sum> {
///     Ok(Sum::update().sum(cx.state().of.iter().sum::<i64>()))
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let graph = Graph::<Sum>::builder().node("add", add).edge("add", END).entry("add").compile()?;
/// let harness = Harness::stateless(graph).build();
/// let report = harness.handle(InboundRequest::message(Map::from_iter([("of".to_owned(), json!([1, 2]))]))).await;
/// let HarnessOutcome::Completed(done) = report.outcome else { unreachable!("it neither waits nor fails") };
/// assert_eq!(done.state.sum, 3);
/// # Ok::<(), singletree_engine::Error>(())
/// # }).unwrap();
/// ```
pub struct Harness<S> {
    parts: HarnessBuilder<S>,
    resuming: ResumingInvocations,
}

/// How the engine was called, if it was, and the result.
type RunResult<S> = (Option<EngineInvocation>, Result<RunOutcome<S>>);

impl<S: State> Harness<S> {
    /// Starts a harness whose turns belong to sessions (harness §2).
    #[must_use]
    pub fn sessioned(graph: Graph<S>) -> HarnessBuilder<S> {
        HarnessBuilder::for_graph(graph, HarnessMode::Sessioned)
    }

    /// Starts a harness whose turns stand alone (harness §2, §3.0).
    #[must_use]
    pub fn stateless(graph: Graph<S>) -> HarnessBuilder<S> {
        HarnessBuilder::for_graph(graph, HarnessMode::Stateless)
    }

    pub(super) fn from_builder(parts: HarnessBuilder<S>) -> Self {
        Self { parts, resuming: ResumingInvocations::default() }
    }

    /// Returns whether the harness has sessions.
    #[must_use]
    pub fn mode(&self) -> HarnessMode {
        self.parts.mode
    }

    /// Says which path a transmission takes, and does nothing: the same one always takes the same (harness §3.4).
    ///
    /// # Errors
    /// `harness_path_classification_ambiguous`, `harness_session_id_unresolved`.
    pub fn classify_request(&self, inbound: &InboundRequest) -> Result<DispatchPath> {
        Ok(self.find_route(inbound)?.dispatch_path())
    }

    /// Takes a transmission through its turn (harness §4, §5).
    ///
    /// It returns when the turn ends, and a pause is an end: nothing waits here for a signal. A signal is consumed when
    /// its resume begins. Before that, a payload that does not fit or a session that cannot be loaded leaves the
    /// invocation suspended and subscribed. In one process an invocation is resumed by one signal at a time; of several
    /// in different processes the engine lets one through. The store of sessions is called by the engine alone, and
    /// only where there is a session (§8.1).
    ///
    /// Failures are outcomes: those of the engine, and `harness_path_classification_ambiguous`,
    /// `harness_session_id_unresolved`, `harness_signal_correlation_failed`, `harness_signal_subscription_failed`
    /// (§10). After the last one, the effects of the turn before its pause stand, its session included.
    ///
    /// # Cancellation
    /// Dropping the future ends the run at its next await ([`Graph::invoke`]). Between a pause and its subscription the
    /// record stays, and no signal leads to it.
    pub async fn handle(&self, inbound: InboundRequest) -> TurnReport<S> {
        let route = self.find_route(&inbound);
        let path = route.as_ref().ok().map(DispatchRoute::dispatch_path);
        let (invoked, ran) = match route {
            Err(error) => (None, Err(error)),
            Ok(DispatchRoute::Start { session, .. }) => self.start_invocation(&inbound, session).await,
            Ok(DispatchRoute::Resume { signal, .. }) => self.resume_invocation(signal).await,
        };
        let outcome = match ran {
            Ok(RunOutcome::Completed(done)) => HarnessOutcome::Completed(done),
            Ok(RunOutcome::Suspended(paused)) => HarnessOutcome::Suspended(paused),
            Err(error) => HarnessOutcome::Errored(self.failure_reporter().make_turn_failure(error)),
        };
        TurnReport { path, invoked, outcome }
    }

    fn find_route<'a>(&self, inbound: &'a InboundRequest) -> Result<DispatchRoute<'a>> {
        route_request(self.parts.mode, inbound, &self.parts.resolve)
    }

    fn failure_reporter(&self) -> FailureReporter<'_> {
        let HarnessBuilder { mode, buckets, redact, limits, .. } = &self.parts;
        FailureReporter { mode: *mode, buckets, redact, max_bytes: limits.diagnostic_bytes }
    }

    async fn start_invocation(&self, inbound: &InboundRequest, session: SessionSelection) -> RunResult<S> {
        let assigned = session == SessionSelection::Unnamed;
        let session = match session {
            SessionSelection::Absent => None,
            SessionSelection::Named(id) => Some(id),
            SessionSelection::Unnamed => match SessionId::parse(self.parts.env.ids.generate_uuid()) {
                Ok(id) => Some(id),
                Err(error) => return (None, Err(Error::SessionId { why: error.to_string() })),
            },
        };
        let initial = (self.parts.build)(inbound);
        let options = InvokeOptions::new().extensions(self.parts.extensions.clone());
        let options = session.clone().into_iter().fold(options, InvokeOptions::session);
        let ran = self.parts.graph.invoke(initial.clone(), options).await;
        (Some(EngineInvocation::Start { initial, session, assigned }), self.subscribe_if_suspended(ran).await)
    }

    async fn resume_invocation(&self, signal: &SignalArrival) -> RunResult<S> {
        let reserved = match self.correlate_signal(signal).await {
            Ok(reserved) => reserved,
            Err(error) => return (None, Err(error)),
        };
        let (invocation, payload) = (&reserved.invocation, &signal.payload);
        let options = InvokeOptions::new().extensions(self.parts.extensions.clone());
        let ran = self.parts.graph.resume(invocation, payload.clone(), options).await;
        if is_invocation_over(&ran) {
            self.end_subscription(invocation).await;
        }
        let invoked = EngineInvocation::Resume { invocation: invocation.clone(), payload: payload.clone() };
        (Some(invoked), self.subscribe_if_suspended(ran).await)
    }

    /// Finds the invocation of a signal and reserves it, so that other signals cannot resume it.
    async fn correlate_signal(&self, signal: &SignalArrival) -> Result<ResumeReservation<'_>> {
        let found = self.resolve_target(&signal.target).await?;
        let Some(reserved) = self.resuming.reserve_invocation(found) else {
            return Err(Error::Correlation { why: "another one is resuming it".into() });
        };
        // Between look-up and reservation another signal may have been answered, and the invocation may wait for
        // something else by now: this one must not answer that.
        if self.resolve_target(&signal.target).await? != reserved.invocation {
            return Err(Error::Correlation { why: "it was answered already".into() });
        }
        let max = self.parts.limits.payload_bytes;
        let text = serde_json::to_string(&signal.payload).unwrap_or_default();
        if text.len() > max {
            return Err(Error::Payload { why: format!("it has more than {max} bytes") });
        }
        singletree_session::check_payload_nesting(&text, &self.parts.limits)?;
        Ok(reserved)
    }

    async fn resolve_target(&self, target: &SignalTarget) -> Result<InvocationId> {
        let found = self.call_with_timeout(self.parts.coordinator.resolve_signal(target)).await;
        let found = found.map_err(|error| Error::Correlation { why: format_error_chain(error.as_ref()) })?;
        found.ok_or_else(|| Error::Correlation {
            why: match target {
                SignalTarget::Signal(id) => format!("nothing waits for '{id}'"),
                SignalTarget::Invocation(id) => format!("invocation '{id}' waits for nothing"),
            },
        })
    }

    /// Subscribes to the signal of a turn that suspended (harness §5.3); other ends are passed on.
    async fn subscribe_if_suspended(
        &self,
        ran: singletree_engine::Result<RunOutcome<S>>,
    ) -> Result<RunOutcome<S>> {
        let outcome = ran?;
        if let RunOutcome::Suspended(paused) = &outcome {
            self.subscribe_to_signal(paused).await?;
        }
        Ok(outcome)
    }

    async fn subscribe_to_signal(&self, paused: &SuspendedRun<S>) -> Result<()> {
        let SuspendedRun { descriptor, identity, .. } = paused;
        let invocation = &identity.invocation_id;
        let subscribed =
            self.call_with_timeout(self.parts.coordinator.subscribe(descriptor, invocation)).await;
        let Err(source) = subscribed else { return Ok(()) };
        // The subscription may exist although the call failed, and an invocation that is reported as errored must not
        // be resumed (R32). If the record cannot be deleted, it stays without a subscription; the first failure is the
        // one reported.
        self.end_subscription(invocation).await;
        if let Some(PausedRecords { store, tenant }) = &self.parts.paused {
            let deleting = async { store.delete(tenant, invocation).await.map_err(BoxError::from) };
            drop(self.call_with_timeout(Box::pin(deleting)).await);
        }
        Err(Error::Subscription { signal: descriptor.signal_id.clone(), source })
    }

    /// Ends a subscription. That it fails changes nothing: it leads to a record that cannot be resumed again.
    async fn end_subscription(&self, invocation: &InvocationId) {
        drop(self.call_with_timeout(self.parts.coordinator.unsubscribe(invocation)).await);
    }

    async fn call_with_timeout<T>(&self, call: BoxFuture<'_, Result<T, BoxError>>) -> Result<T, BoxError> {
        match self.parts.env.timer.run_with_timeout(self.parts.limits.read_time, call).await {
            Ok(answer) => answer,
            Err(elapsed) => Err(elapsed.into()),
        }
    }
}

/// Checks whether a resume consumed its signal and the invocation waits for nothing more. A failure before the record
/// is claimed leaves the invocation suspended, or with the caller that claimed it.
fn is_invocation_over<S>(ran: &singletree_engine::Result<RunOutcome<S>>) -> bool {
    match ran {
        Ok(RunOutcome::Completed(_)) => true,
        Ok(RunOutcome::Suspended(_)) => false,
        Err(error) => !matches!(
            error,
            RunError::SuspensionPayload { .. }
                | RunError::SuspensionRecord { .. }
                | RunError::SuspensionPersistence { .. }
                | RunError::SessionConflict { .. }
                | RunError::SessionLoad { .. }
                | RunError::Position { .. }
                | RunError::CheckpointMigration { .. }
                | RunError::Validation { place: None, state: None, .. }
        ),
    }
}

impl<S> fmt::Debug for Harness<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Harness").field("parts", &self.parts).finish_non_exhaustive()
    }
}
