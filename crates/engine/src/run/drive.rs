//! The driver of one invocation: load, run, and record how it ends.
//!
//! It polls the run and listens for a node that wants to suspend. A suspension is recorded while the run is not polled;
//! then the run is dropped, and with it the node's body and everything around it (suspension §3, §8.4).

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use serde_json::{Map, Value};
use singletree_durable::Positions;

use super::ambient::{self, Who};
use super::graph::Core;
use super::invoke::{EntryHook, InvokeOptions, Start, Watch};
use super::level::Level;
use super::metadata;
use super::outcome::{Completed, Identity, Outcome, Suspended};
use super::pause;
use super::port::{ContainerProgress, Ending, Entered, Persist, RequestedIdentity, SessionState, Standing};
use super::queue::Queue;
use super::restore;
use super::scope::{Observers, Run, RunParts};
use super::suspend::Asked;
use super::walk::{Begin, walk};
use crate::error::{Error, Result};
use crate::plan::field::FieldFault;
use crate::plan::guard::caught;
use crate::plan::snapshot::{MergeFault, Snapshot};
use crate::plan::update::Update;

/// The starting point of a run.
struct Opening {
    begin: Begin,
    identity: Option<Identity>,
    next_step: u64,
    recovering: bool,
    records: std::collections::BTreeMap<String, crate::plan::item::Item>,
    containers: Vec<ContainerProgress>,
    completed: Positions,
}

impl Opening {
    fn at_entry(state: Snapshot) -> Self {
        let begin = Begin::Entry(state);
        Self {
            begin,
            identity: None,
            next_step: 0,
            recovering: false,
            records: Default::default(),
            containers: Vec::new(),
            completed: Positions::new(),
        }
    }
}

/// Runs a graph over a port.
pub(crate) async fn drive(
    core: &Arc<Core>,
    port: Arc<dyn Persist>,
    start: Start,
    options: InvokeOptions,
    watch: &Watch,
) -> Result<Outcome<Snapshot>> {
    metadata::check(&options.metadata)?;
    let opened = open(core, port.as_ref(), start).await.and_then(|mut opening| {
        let identity = match opening.identity.take() {
            Some(identity) => identity,
            None => identify(core, options.identity)?,
        };
        Ok((opening, Arc::new(identity)))
    });
    let (opening, identity) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            // Nothing ran. The port gets the outcome; an error of the port's own is dropped, since this one is
            // returned.
            drop(port.end(Ending::Errored { error: &error, progress: None }).await);
            return Err(error);
        }
    };
    let who = Who { identity, metadata: Arc::new(options.metadata) };
    let observers = Observers::collect(core, options.observers);
    let queue = (!observers.is_empty()).then(|| {
        Queue::start(who.clone(), core.limits.observer_backlog, core.clock.clone(), core.on_mishap.clone())
    });
    if let Some(queue) = &queue {
        core.watch(queue.backlog());
    }
    let run = Arc::new(Run::new(RunParts {
        who: who.clone(),
        core: core.clone(),
        port,
        extensions: options.extensions,
        queue,
        observers,
        next_step: opening.next_step,
        recovering: opening.recovering || options.recovering,
        records: opening.records,
        containers: opening.containers,
        completed: opening.completed,
    }));
    watch.set(&run);
    let over = Over(&run);
    let outcome = ambient::within(who, finish(&run, opening.begin)).await;
    drop(over);
    outcome
}

/// Closes the run's queues when it is over, also by being dropped: others may hold parts of it for longer.
struct Over<'a>(&'a Run);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.requests.close();
        if let Some(queue) = &self.0.queue {
            queue.close();
        }
    }
}

fn identify(core: &Core, asked: RequestedIdentity) -> Result<Identity> {
    let fresh = || core.ids.uuid();
    let invocation_id = match asked.invocation_id {
        Some(id) => id,
        None => fresh()
            .try_into()
            .map_err(|error| Error::Argument { what: format!("the source of ids failed: {error}") })?,
    };
    let correlation_id = asked.correlation_id.unwrap_or_else(fresh);
    Ok(Identity { invocation_id, correlation_id, session_id: asked.session_id })
}

/// Runs to an end and records it.
async fn finish(run: &Arc<Run>, begin: Begin) -> Result<Outcome<Snapshot>> {
    let ended = match run_to_end(run, begin).await {
        Ok(End::Suspended(outcome)) => return Ok(Outcome::Suspended(*outcome)),
        Ok(End::Reached(state)) => match state.validate() {
            Ok(()) => Ok(state),
            Err(source) => Err(Error::Validation { place: None, source, state: Some(state) }),
        },
        Err(error) => Err(error),
    };
    match ended {
        Ok(state) => {
            let session = auto_saved(run, &state);
            let recorded = run.port.end(Ending::Completed { state: &state, session }).await;
            let completed = Completed { identity: run.who.identity.as_ref().clone(), state };
            match recorded {
                Ok(()) => Ok(Outcome::Completed(completed)),
                // The result stands: it is handed out inside the error (sessions §6.1).
                Err(Error::SessionSave { source, .. }) => {
                    Err(Error::SessionSave { source, completed: Some(Box::new(completed)) })
                }
                Err(error) => Err(error),
            }
        }
        Err(error) => {
            run.port.end(Ending::Errored { error: &error, progress: run.progress() }).await?;
            Err(error)
        }
    }
}

pub(crate) fn auto_saved(run: &Run, state: &Snapshot) -> Option<SessionState> {
    if run.core.auto_save { run.core.session_state(state, &run.who.identity) } else { None }
}

/// How polling a run ended, unless by an error.
enum End {
    Reached(Snapshot),
    Suspended(Box<Suspended<Snapshot>>),
}

enum Polled {
    Ended(Result<Snapshot>),
    Asked(Asked),
}

async fn run_to_end(run: &Arc<Run>, begin: Begin) -> Result<End> {
    let level = Arc::new(Level::outermost(run));
    let mut walking = pin!(walk(run, level, begin));
    loop {
        let polled = poll_fn(|cx| {
            if let Some(request) = run.requests.take(cx.waker()) {
                return Poll::Ready(Polled::Asked(request));
            }
            if let Poll::Ready(ended) = walking.as_mut().poll(cx) {
                return Poll::Ready(Polled::Ended(ended));
            }
            // A node may have asked during this very poll.
            run.requests
                .take(cx.waker())
                .map_or(Poll::Pending, |requests| Poll::Ready(Polled::Asked(requests)))
        });
        match polled.await {
            Polled::Ended(ended) => return ended.map(End::Reached),
            Polled::Asked(Asked::Abort(abort)) => {
                for scope in &abort.scopes {
                    scope.failed(&abort.error);
                }
                return Err(abort.error);
            }
            Polled::Asked(Asked::Pause(request)) => match pause::pause(run, &request).await {
                Ok(outcome) => {
                    pause::tell(&request);
                    return Ok(End::Suspended(Box::new(outcome)));
                }
                // The node hears of it and may go on (suspension §3).
                Err(error) => {
                    if let Some((scope, error)) = request.refuse(error) {
                        scope.failed(&error);
                        scope.level.containers().iter().for_each(|container| container.failed(&error));
                        return Err(error);
                    }
                }
            },
        }
    }
}

async fn open(core: &Arc<Core>, port: &dyn Persist, start: Start) -> Result<Opening> {
    match (start, port.enter().await?) {
        (Start::Fresh { initial, hook }, Entered::Fresh(loaded)) => {
            let state = initial_state(core, loaded, initial, hook)?;
            Ok(Opening::at_entry(state))
        }
        (Start::Resume { payload }, Entered::Standing(standing)) => {
            let opening = standing_open(core, standing, Some(&payload))?;
            port.claim().await?;
            Ok(opening)
        }
        (Start::Recover, Entered::Standing(standing)) => standing_open(core, standing, None),
        (start, _) => Err(Error::Argument { what: format!("the port cannot begin a run as {start:?}") }),
    }
}

fn standing_open(
    core: &Arc<Core>,
    standing: Standing,
    payload: Option<&Map<String, Value>>,
) -> Result<Opening> {
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
    let mut points = restore::standpoints(core, standing).map_err(|error| match (error, &identity) {
        // The error of a resume names the paused record, not the position.
        (Error::Position { reason }, Some(it)) if payload.is_some() => {
            Error::SuspensionRecord { invocation: it.invocation_id.to_string(), reason }
        }
        (error, _) => error,
    })?;
    if let Some(payload) = payload {
        restore::overlay(&mut points, payload)?;
    }
    let begin = Begin::Standing(points.into_iter());
    Ok(Opening { begin, identity, next_step, recovering: payload.is_none(), records, containers, completed })
}

/// Makes the initial state: defaults, then the session's fields, then the caller's (R1).
///
/// A field that the caller sets passes its reducer only where the session has a value for it; elsewhere it is the
/// value.
fn initial_state(
    core: &Core,
    loaded: Option<SessionState>,
    initial: Update,
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
    let mut merged = Update::new();
    for (name, slot) in initial.into_entries() {
        let at = topology
            .schema
            .index(&name)
            .ok_or_else(|| invalid(FieldFault::new(name.as_ref(), "is not declared")))?;
        // A second contribution to a field is an update of the first.
        if set.iter().any(|(it, _)| *it == at) {
            merged = merged.with(name, slot);
        } else {
            topology.schema.fields()[at]
                .check_slot(&slot)
                .map_err(|error| invalid(FieldFault::new(name.as_ref(), error)))?;
            set.push((at, slot));
        }
    }
    let state = Snapshot::start(&topology.schema, set).map_err(invalid)?;
    let hooked = caught(|| hook.map_or_else(Update::new, |hook| hook(&state)));
    let hooked = hooked.map_err(|what| Error::Argument { what: format!("the entry hook {what}") })?;
    let entry = |fault: MergeFault| match fault {
        MergeFault::Invalid(source) => invalid(source),
        MergeFault::Reducer { field, reducer, fault } => {
            invalid(FieldFault::new(field, format!("{reducer} could not merge the initial value: {fault}")))
        }
    };
    let merge = || state.merge(hooked).and_then(|merge| merge.merge(merged)).map_err(entry);
    let state = caught(merge).map_err(|error| invalid(FieldFault::new("initial state", error)))??;
    state.validate().map_err(invalid)?;
    Ok(state)
}
