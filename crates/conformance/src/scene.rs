//! The runtime of a case, and one invocation of it.

use std::sync::Arc;

use serde_json::Value;
use singletree::durable::Timestamp;
use singletree::engine::Clock;
use tokio::time::Instant;

use crate::case::FixtureCaseSpec;
use crate::check::AssertionChecker;
use crate::checkpoints::RecordingCheckpointer;
use crate::expect::{ExpectationContext, check_run};
use crate::failure::Outcome;
use crate::fields::LocatedNode;
use crate::graph::CompiledGraphs;
use crate::mocks::MockCallCounters;
use crate::paused::CasePausedStore;
use crate::run::{InvocationContext, InvocationResult, InvocationSpec, run_invocation};
use crate::sessions::RecordingSessionStore;
use crate::tape::CaseRecorder;
use crate::telemetry::TelemetryRuntime;

/// The clock of a case: it begins at a fixed time and follows the runtime's.
#[derive(Debug)]
pub(crate) struct CaseClock(pub(crate) Instant);

impl Clock for CaseClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_000_000_000_000).saturating_add(self.0.elapsed())
    }
}

/// The stores and recorders of a case.
pub(crate) struct CaseEnvironment {
    /// The tape that records all events of the case.
    pub(crate) tape: CaseRecorder,
    /// Its sessions.
    pub(crate) store: Option<Arc<RecordingSessionStore>>,
    /// Its suspended invocations.
    pub(crate) paused: Arc<CasePausedStore>,
    /// Its checkpoints.
    pub(crate) checkpoints: Option<Arc<RecordingCheckpointer>>,
    /// The counters of its failure mocks.
    pub(crate) mocks: MockCallCounters,
    /// The recorders of its telemetry, and the model that its nodes call.
    pub(crate) telemetry: Arc<TelemetryRuntime>,
}

/// A case with its graph.
pub(crate) struct CaseContext<'a> {
    /// The case.
    pub(crate) case: &'a FixtureCaseSpec,
    /// Its stores and recorders.
    pub(crate) stage: &'a CaseEnvironment,
    /// Its graph.
    pub(crate) built: &'a CompiledGraphs,
}

/// How one invocation is made.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct InvocationOptions<'a> {
    /// Whether it is the first of its case.
    pub(crate) is_first: bool,
    /// Whether it may be given up, and who says so.
    pub(crate) given_up: Option<&'a RecordingCheckpointer>,
    /// The record that it goes on from.
    pub(crate) record: Option<&'a Value>,
}

impl CaseContext<'_> {
    /// Makes one invocation and asserts its expectations. Returns the run, and the invariants that stand among the
    /// expectations.
    ///
    /// # Errors
    /// When the fixture asks for something that cannot be asked.
    pub(crate) async fn invoke_and_check(
        &self,
        invocation: &InvocationSpec,
        how: InvocationOptions<'_>,
        checker: &mut AssertionChecker,
    ) -> Outcome<(InvocationResult, Vec<LocatedNode>)> {
        let with = InvocationContext {
            observers: &self.case.observers,
            is_first: how.is_first,
            listens: self.case.needs_runner_observer(),
            given_up: how.given_up,
            telemetry: &self.stage.telemetry,
        };
        let ran = run_invocation(invocation, self.built, with, &self.stage.tape, checker).await?;
        let observers: Vec<String> =
            self.case.observers.iter().map(|observer| observer.name.clone()).collect();
        let around = ExpectationContext {
            spec: invocation,
            observers: &observers,
            error_fields: &self.case.graph.error_fields(),
            made_fields: self.case.graph.state.made_fields(),
            store: self.stage.store.as_deref(),
            paused: Some(&self.stage.paused),
            record: how.record,
            telemetry: Some(&self.stage.telemetry),
        };
        let blocks = if invocation.has_no_expectations() {
            Vec::new()
        } else {
            check_run(checker, &ran, &around).await
        };
        Ok((ran, blocks))
    }
}
