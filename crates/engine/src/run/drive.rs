//! The driver of one invocation: load, run, and record how it ends.
//!
//! It polls the run and listens for a node that wants to suspend. A suspension is recorded while the run is not polled;
//! then the run is dropped, and with it the node's body and everything around it (suspension §3, §8.4).

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use serde_json::{Map, Value};
use singletree_durable::PositionHistory;
use singletree_graph::{
    ContainerProgress, FieldFault, Identity, MergeFault, SessionState, Snapshot, StateUpdate, StoredRun,
    catch_panic,
};

use super::ambient::{self, CurrentInvocation};
use super::graph::GraphCore;
use super::invoke::{EntryHook, InvokeOptions, RunMonitor, RunStart};
use super::level::GraphLevel;
use super::lifecycle;
use super::metadata;
use super::outcome::{CompletedRun, RunOutcome, SuspendedRun};
use super::outlet::EventOutlet;
use super::pause;
use super::port::{PersistencePort, RequestedIdentity, RunEnding, RunEntry};
use super::queue::EventQueue;
use super::restore;
use super::scope::{RunContext, RunContextParts, RunObservers};
use super::suspend::DriverRequest;
use super::walk::{WalkStart, walk_graph};
use crate::error::{Error, Result};

/// The starting point of a run.
struct StartingPoint {
    begin: WalkStart,
    identity: Option<Identity>,
    next_step: u64,
    recovering: bool,
    records: std::collections::BTreeMap<String, singletree_graph::Item>,
    containers: Vec<ContainerProgress>,
    completed: PositionHistory,
}

impl StartingPoint {
    fn from_entry_state(state: Snapshot) -> Self {
        let begin = WalkStart::Entry(state);
        Self {
            begin,
            identity: None,
            next_step: 0,
            recovering: false,
            records: Default::default(),
            containers: Vec::new(),
            completed: PositionHistory::new(),
        }
    }
}

/// Runs a graph over a port.
pub(crate) async fn drive_run(
    core: &Arc<GraphCore>,
    port: Arc<dyn PersistencePort>,
    start: RunStart,
    options: InvokeOptions,
    watch: &RunMonitor,
) -> Result<RunOutcome<Snapshot>> {
    metadata::check_metadata(&options.metadata)?;
    let metadata = Arc::new(options.metadata);
    let resumed = !matches!(start, RunStart::Fresh { .. });
    // The identity of a new invocation comes first: its failure to begin is reported under it.
    let identity = if resumed { None } else { Some(make_identity(core, &options.identity)) };
    let opened = match identity.transpose() {
        Ok(made) => open_with_identity(core, port.as_ref(), start, (made.clone(), &options.identity))
            .await
            .map_err(|error| (made, error)),
        Err(error) => Err((None, error)),
    };
    let (opening, identity) = match opened {
        Ok(opened) => opened,
        Err((made, error)) => {
            // Nothing ran. The port gets the outcome; an error of the port's own is dropped, since this one is
            // returned.
            drop(port.record_ending(RunEnding::Errored { error: &error, progress: None }).await);
            if let Some(identity) = made.map(Arc::new) {
                let who = CurrentInvocation { identity, metadata };
                lifecycle::report_failed_start(core, (options.observers, options.label), who, &error);
            }
            return Err(error);
        }
    };
    let who = CurrentInvocation { identity, metadata };
    let observers = RunObservers::collect_observers(core, options.observers);
    let queue = (!observers.is_empty()).then(|| {
        EventQueue::start_with_worker(
            who.clone(),
            core.limits.observer_backlog,
            core.env.clone(),
            core.on_mishap.clone(),
        )
    });
    if let Some(queue) = &queue {
        core.track_backlog(queue.event_backlog());
    }
    let run = Arc::new(RunContext::new(RunContextParts {
        who,
        core: core.clone(),
        events: EventOutlet::new(queue, &port),
        port,
        label: options.label,
        extensions: options.extensions,
        tracing: options.tracing,
        observers,
        next_step: opening.next_step,
        recovering: opening.recovering || options.recovering,
        records: opening.records,
        containers: opening.containers,
        completed: opening.completed,
    }));
    watch.set_run_context(&run);
    let over = QueueCloser(&run);
    run.report_begun(opening.begin.outermost_state(), resumed);
    let outcome = ambient::run_in_invocation(run.clone(), run_and_record_ending(&run, opening.begin)).await;
    run.report_outcome(&outcome);
    drop(over);
    outcome
}

/// Opens the starting point of a run, and determines its identity: the stored one, the one that was made, or a new one.
async fn open_with_identity(
    core: &Arc<GraphCore>,
    port: &dyn PersistencePort,
    start: RunStart,
    (made, asked): (Option<Identity>, &RequestedIdentity),
) -> Result<(StartingPoint, Arc<Identity>)> {
    let mut opening = open_starting_point(core, port, start).await?;
    let identity = match opening.identity.take().or(made) {
        Some(identity) => identity,
        None => make_identity(core, asked)?,
    };
    Ok((opening, Arc::new(identity)))
}

/// Closes the run's queues when it is over, also by being dropped: others may hold parts of it for longer.
struct QueueCloser<'a>(&'a RunContext);

impl Drop for QueueCloser<'_> {
    fn drop(&mut self) {
        self.0.requests.close_requests();
        if let Some(queue) = self.0.events.as_ref().and_then(EventOutlet::observer_queue) {
            queue.close_queue();
        }
    }
}

fn make_identity(core: &GraphCore, asked: &RequestedIdentity) -> Result<Identity> {
    let fresh = || core.env.ids.generate_uuid();
    let invocation_id = match &asked.invocation_id {
        Some(id) => id.clone(),
        None => fresh()
            .try_into()
            .map_err(|error| Error::Argument { what: format!("the source of ids failed: {error}") })?,
    };
    let correlation_id = asked.correlation_id.clone().unwrap_or_else(fresh);
    Ok(Identity { invocation_id, correlation_id, session_id: asked.session_id.clone() })
}

/// Runs to an end and records it.
async fn run_and_record_ending(run: &Arc<RunContext>, begin: WalkStart) -> Result<RunOutcome<Snapshot>> {
    let ended = match run_until_stop(run, begin).await {
        Ok(RunStop::Suspended(outcome)) => return Ok(RunOutcome::Suspended(*outcome)),
        Ok(RunStop::Reached(state)) => match state.validate_fields() {
            Ok(()) => Ok(state),
            Err(source) => Err(Error::Validation { place: None, source, state: Some(state) }),
        },
        Err(error) => Err(error),
    };
    match ended {
        Ok(state) => {
            let session = auto_saved_session(run, &state);
            let recorded = run.port.record_ending(RunEnding::Completed { state: &state, session }).await;
            let completed = CompletedRun { identity: run.who.identity.as_ref().clone(), state };
            match recorded {
                Ok(()) => Ok(RunOutcome::Completed(completed)),
                // The result stands: it is handed out inside the error (sessions §6.1).
                Err(Error::SessionSave { source, .. }) => {
                    Err(Error::SessionSave { source, completed: Some(Box::new(completed)) })
                }
                Err(error) => Err(error),
            }
        }
        Err(error) => {
            run.port
                .record_ending(RunEnding::Errored { error: &error, progress: run.capture_progress() })
                .await?;
            Err(error)
        }
    }
}

pub(crate) fn auto_saved_session(run: &RunContext, state: &Snapshot) -> Option<SessionState> {
    if run.core.auto_save { run.core.session_state(state, &run.who.identity) } else { None }
}

/// How polling a run ended, unless by an error.
enum RunStop {
    Reached(Snapshot),
    Suspended(Box<SuspendedRun<Snapshot>>),
}

enum DriverEvent {
    Ended(Result<Snapshot>),
    Asked(DriverRequest),
}

async fn run_until_stop(run: &Arc<RunContext>, begin: WalkStart) -> Result<RunStop> {
    let level = Arc::new(GraphLevel::for_outermost_graph(run));
    let mut walking = pin!(walk_graph(run, level, begin));
    loop {
        let polled = poll_fn(|cx| {
            if let Some(request) = run.requests.take_request(cx.waker()) {
                return Poll::Ready(DriverEvent::Asked(request));
            }
            if let Poll::Ready(ended) = walking.as_mut().poll(cx) {
                return Poll::Ready(DriverEvent::Ended(ended));
            }
            // A node may have asked during this very poll.
            run.requests
                .take_request(cx.waker())
                .map_or(Poll::Pending, |requests| Poll::Ready(DriverEvent::Asked(requests)))
        });
        match polled.await {
            DriverEvent::Ended(ended) => return ended.map(RunStop::Reached),
            DriverEvent::Asked(DriverRequest::Abort(abort)) => {
                for scope in &abort.scopes {
                    scope.report_failed(&abort.error);
                }
                return Err(abort.error);
            }
            DriverEvent::Asked(DriverRequest::Pause(request)) => {
                match pause::record_suspension(run, &request).await {
                    Ok(outcome) => {
                        pause::report_suspension(&request);
                        return Ok(RunStop::Suspended(Box::new(outcome)));
                    }
                    // The node hears of it and may go on (suspension §3).
                    Err(error) => {
                        if let Some((scope, error)) = request.refuse_suspension(error) {
                            scope.report_failed(&error);
                            scope
                                .level
                                .enclosing_containers()
                                .iter()
                                .for_each(|container| container.report_failed(&error));
                            return Err(error);
                        }
                    }
                }
            }
        }
    }
}

async fn open_starting_point(
    core: &Arc<GraphCore>,
    port: &dyn PersistencePort,
    start: RunStart,
) -> Result<StartingPoint> {
    match (start, port.load_entry().await?) {
        (RunStart::Fresh { initial, hook }, RunEntry::Fresh(loaded)) => {
            let state = make_initial_state(core, loaded, initial, hook)?;
            Ok(StartingPoint::from_entry_state(state))
        }
        (RunStart::Resume { payload }, RunEntry::Standing(standing)) => {
            let opening = open_stored_run(core, standing, Some(&payload))?;
            port.claim_suspended_run().await?;
            Ok(opening)
        }
        (RunStart::Recover, RunEntry::Standing(standing)) => open_stored_run(core, standing, None),
        (start, _) => Err(Error::Argument { what: format!("the port cannot begin a run as {start:?}") }),
    }
}

fn open_stored_run(
    core: &Arc<GraphCore>,
    standing: StoredRun,
    payload: Option<&Map<String, Value>>,
) -> Result<StartingPoint> {
    let identity = standing.identity.clone();
    let next_step = standing.cursor.next_step;
    let mut standing = standing;
    let records = std::mem::take(&mut standing.records);
    let containers = std::mem::take(&mut standing.containers);
    let completed = std::mem::take(&mut standing.completed);
    if payload.is_none() {
        // A crash is no suspension: attempts begin anew (pipeline-utilities §10.6).
        standing.cursor.frames.iter_mut().for_each(|frame| frame.attempt = 0);
    }
    let mut points =
        restore::restore_standpoints(core, standing).map_err(|error| match (error, &identity) {
            // The error of a resume names the paused record, not the position.
            (Error::Position { reason }, Some(it)) if payload.is_some() => {
                Error::SuspensionRecord { invocation: it.invocation_id.to_string(), reason }
            }
            (error, _) => error,
        })?;
    if let Some(payload) = payload {
        restore::overlay_payload(&mut points, payload)?;
    }
    let begin = WalkStart::Standing(points.into_iter());
    Ok(StartingPoint {
        begin,
        identity,
        next_step,
        recovering: payload.is_none(),
        records,
        containers,
        completed,
    })
}

/// Makes the initial state: defaults, then the session's fields, then the caller's (R1).
///
/// A field that the caller sets passes its reducer only where the session has a value for it; elsewhere it is the
/// value.
fn make_initial_state(
    core: &GraphCore,
    loaded: Option<SessionState>,
    initial: StateUpdate,
    hook: Option<EntryHook>,
) -> Result<Snapshot> {
    let topology = &core.topology;
    let invalid = |source: FieldFault| Error::Validation { place: None, source, state: None };
    let mut set = Vec::new();
    for (name, slot) in loaded.into_iter().flat_map(|it| it.fields) {
        if let Some((_, at)) = topology.session.fields.iter().find(|(it, _)| *it == name) {
            set.push((*at, slot));
        }
    }
    let mut merged = StateUpdate::new();
    for (name, slot) in initial.into_entries() {
        let at = topology
            .schema
            .find_field_index(&name)
            .ok_or_else(|| invalid(FieldFault::new(name.as_ref(), "is not declared")))?;
        // A second contribution to a field is an update of the first.
        if set.iter().any(|(it, _)| *it == at) {
            merged = merged.with(name, slot);
        } else {
            topology.schema.fields()[at]
                .check_content(&slot)
                .map_err(|error| invalid(FieldFault::new(name.as_ref(), error)))?;
            set.push((at, slot));
        }
    }
    let state = Snapshot::from_defaults_with(&topology.schema, set).map_err(invalid)?;
    let hooked = catch_panic(|| hook.map_or_else(StateUpdate::new, |hook| hook(&state)));
    let hooked = hooked.map_err(|what| Error::Argument { what: format!("the entry hook {what}") })?;
    let entry = |fault: MergeFault| match fault {
        MergeFault::Invalid(source) => invalid(source),
        MergeFault::Reducer { field, reducer, fault } => {
            invalid(FieldFault::new(field, format!("{reducer} could not merge the initial value: {fault}")))
        }
    };
    let merge = || state.merge_update(hooked).and_then(|merge| merge.merge_update(merged)).map_err(entry);
    let state = catch_panic(merge).map_err(|error| invalid(FieldFault::new("initial state", error)))??;
    state.validate_fields().map_err(invalid)?;
    Ok(state)
}
