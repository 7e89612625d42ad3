//! One invocation of a case's graph, and its results.

use std::time::Duration;

use serde_json::{Map, Value};
use singletree::durable::{InvocationId, SessionId};
use singletree::engine::{DrainSummary, Error, InvokeOptions, RunOutcome as Ended, Snapshot, StateUpdate};
use tokio::time::Instant;

use crate::check::AssertionChecker;
use crate::checkpoints::{self, RecordingCheckpointer};
use crate::failure::{CaseFailure, Outcome};
use crate::fields::{LocatedNode, YamlMapReader};
use crate::graph::CompiledGraphs;
use crate::nodes::parse_time_limit;
use crate::observers::{self, ObserverSpec};
use crate::schema::parse_literals;
use crate::tape::{CaseRecorder, CaseRecording};
use crate::telemetry::{RunTelemetry, TelemetryRuntime};

/// An invocation as the fixture describes it.
#[derive(Debug, Clone)]
pub(crate) struct InvocationSpec {
    name: Option<String>,
    path: String,
    /// The session that it is bound to.
    pub(crate) session: Option<String>,
    initial: Option<Map<String, Value>>,
    resume: Option<LocatedNode>,
    payload: Option<Map<String, Value>>,
    drain: Option<Limit>,
    correlation: Option<String>,
    invocation: Option<String>,
    /// What its caller says about it.
    metadata: Map<String, Value>,
    /// The invocation whose checkpoint it goes on from.
    from: Option<InvocationId>,
    /// Whether nothing at all is expected, not even that it completes.
    unjudged: bool,
    /// Its expectations, by key.
    pub(crate) expected: Vec<(String, LocatedNode)>,
}

/// A time limit that a drain has, if any; or why it cannot have the one that the fixture asks for.
type Limit = Result<Option<Duration>, String>;

/// Keys of an invocation that are expectations without an `expected:` around them (R35).
const INLINE: &[&str] = &[
    "expected_final_state",
    "expected_error",
    "loaded_session_state",
    "saved_session_assertions",
    "no_session_load",
    "no_session_save",
    "store_after",
];

impl InvocationSpec {
    /// Takes an invocation's keys out of a block, which may be that of the whole case.
    ///
    /// # Errors
    /// When the fixture block has an unknown key or value.
    pub(crate) fn take_from_block(block: &mut YamlMapReader) -> Outcome<Self> {
        let mut spec = Self {
            name: block.take_text("name")?,
            path: block.path().to_owned(),
            session: block.take_text("session_id")?,
            initial: block.take_value("initial_state").map(parse_literals).transpose()?,
            resume: block.take_value("resume_invocation"),
            payload: block.take_value("signal_payload").map(parse_literals).transpose()?,
            drain: None,
            correlation: take_either_text(block, "correlation_id", "caller_correlation_id")?,
            invocation: block.take_text("caller_invocation_id")?,
            metadata: block
                .take_value("caller_metadata")
                .map(parse_literals)
                .transpose()?
                .unwrap_or_default(),
            from: None,
            unjudged: false,
            expected: Vec::new(),
        };
        for key in ["invoke", "invoke_with"] {
            if let Some(how) = block.take_value(key) {
                let mut how = how.into_map_reader()?;
                spec.drain = spec.drain.or(take_drain_limit(&mut how)?);
                spec.resume = spec.resume.or(how.take_value("resume_invocation"));
                how.reject_remaining_keys()?;
            }
        }
        spec.drain = spec.drain.or(take_drain_limit(block)?);
        if let Some(expected) = block.take_value("expected") {
            let mut expected = expected.into_map_reader()?;
            while let Some(entry) = expected.take_next_entry() {
                spec.expected.push(entry);
            }
        }
        for key in INLINE {
            spec.expected.extend(block.take_value(key).map(|value| ((*key).to_owned(), value)));
        }
        let scratch: Vec<_> = block
            .remaining_keys()
            .filter(|it| it.starts_with("loaded_invoke_state_for_"))
            .map(str::to_owned)
            .collect();
        for key in scratch {
            spec.expected.extend(block.take_value(&key).map(|value| (key, value)));
        }
        Ok(spec)
    }

    /// Takes the initial state of the whole case when the invocation has none of its own (graph-engine 030).
    #[must_use]
    pub(crate) fn with_default_initial_state(mut self, shared: Option<&Map<String, Value>>) -> Self {
        self.initial = self.initial.or_else(|| shared.cloned());
        self
    }

    /// Returns the same invocation without a drain of its own.
    #[must_use]
    pub(crate) fn without_drain(mut self) -> Self {
        self.drain = None;
        self
    }

    /// Returns the same invocation, going on from the checkpoint of another.
    #[must_use]
    pub(crate) fn resuming_from(mut self, invocation: InvocationId) -> Self {
        self.from = Some(invocation);
        self
    }

    /// Returns an invocation with the same initial state that begins at the entry, and of which nothing is expected.
    #[must_use]
    pub(crate) fn restarted_without_expectations(mut self) -> Self {
        (self.resume, self.payload, self.invocation) = (None, None, None);
        self.without_expectations()
    }

    /// Returns the same invocation with nothing expected of it.
    #[must_use]
    pub(crate) fn without_expectations(mut self) -> Self {
        self.unjudged = true;
        self
    }

    /// Tells whether nothing is expected of it.
    #[must_use]
    pub(crate) fn has_no_expectations(&self) -> bool {
        self.unjudged
    }

    /// Takes the expectation under a key.
    pub(crate) fn take_expected(&mut self, key: &str) -> Option<LocatedNode> {
        let at = self.expected.iter().position(|(it, _)| it == key)?;
        Some(self.expected.remove(at).1)
    }

    /// Returns the expectation under a key.
    #[must_use]
    pub(crate) fn expectation(&self, key: &str) -> Option<&LocatedNode> {
        self.expected.iter().find(|(it, _)| it == key).map(|(_, spot)| spot)
    }

    /// Returns where in the case the invocation stands.
    #[must_use]
    pub(crate) fn path(&self) -> &str {
        &self.path
    }
}

fn take_either_text(block: &mut YamlMapReader, key: &str, other: &str) -> Outcome<Option<String>> {
    match block.take_text(key)? {
        None => block.take_text(other),
        some => Ok(some),
    }
}

fn take_drain_limit(block: &mut YamlMapReader) -> Outcome<Option<Limit>> {
    let Some(drain) = block.take_value("drain") else { return Ok(None) };
    let mut drain = drain.into_map_reader()?;
    let timeout = drain.take_value("timeout_seconds").map(|it| parse_time_limit(&it)).transpose()?;
    drain.reject_remaining_keys()?;
    Ok(Some(timeout.unwrap_or(Ok(None))))
}

/// A drain of the whole graph.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GraphDrainResult {
    /// The summary that it returned.
    pub(crate) summary: DrainSummary,
    /// How long it took.
    pub(crate) took: Duration,
    /// How long it was allowed to take.
    pub(crate) limit: Option<Duration>,
}

/// The results of an invocation.
#[derive(Debug)]
pub(crate) struct InvocationResult {
    /// How it ended.
    pub(crate) ended: Result<Ended<Snapshot>, Error>,
    /// Whether it failed before it could begin: when the graph was compiled.
    pub(crate) at_registration: bool,
    /// The runner's recording during the invocation.
    pub(crate) reel: CaseRecording,
    /// The drain that the fixture asks for.
    pub(crate) drained: Option<GraphDrainResult>,
    /// Why the drain that the fixture asks for cannot be asked for.
    pub(crate) drain_refused: Option<String>,
    /// What the case's recorders recorded.
    pub(crate) telemetry: Option<RunTelemetry>,
}

impl InvocationResult {
    /// Returns the names of the state's fields: of the outermost graph, as its first node saw them.
    #[must_use]
    pub(crate) fn declared_fields(&self) -> Vec<String> {
        let seen = self.reel.visits.iter().find(|visit| visit.namespace.len() == 1);
        seen.map(|visit| visit.pre_state.keys().cloned().collect()).unwrap_or_default()
    }

    /// A run that did not begin.
    #[must_use]
    pub(crate) fn from_refusal(error: Error) -> Self {
        Self {
            ended: Err(error),
            at_registration: true,
            reel: CaseRecording::default(),
            drained: None,
            drain_refused: None,
            telemetry: None,
        }
    }

    /// Returns the specification's word for how it ended.
    #[must_use]
    pub(crate) fn outcome_word(&self) -> &'static str {
        match &self.ended {
            Ok(Ended::Completed(_)) => "completed",
            Ok(Ended::Suspended(_)) => "suspended",
            Err(_) => "errored",
        }
    }

    /// Returns the state at the end, also where it failed.
    #[must_use]
    pub(crate) fn last_state(&self) -> Option<&Snapshot> {
        match &self.ended {
            Ok(ended) => Some(ended.state()),
            Err(error) => error.recoverable_state(),
        }
    }

    /// Returns the invocation's id, as far as anybody was told.
    #[must_use]
    pub(crate) fn invocation_id(&self) -> Option<String> {
        match &self.ended {
            Ok(ended) => Some(ended.identity().invocation_id.to_string()),
            Err(_) => self.reel.visits.first().map(|visit| visit.invocation.clone()),
        }
    }
}

/// The context of an invocation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InvocationContext<'a> {
    /// The observers of the case.
    pub(crate) observers: &'a [ObserverSpec],
    /// Whether it is the first invocation of the case.
    pub(crate) is_first: bool,
    /// Whether the runner's own observer listens.
    pub(crate) listens: bool,
    /// Whether it may be given up, and who says so.
    pub(crate) given_up: Option<&'a RecordingCheckpointer>,
    /// The recorders of the case.
    pub(crate) telemetry: &'a TelemetryRuntime,
}

/// Invokes or resumes the graph as the fixture says, drains, and cuts the tape.
///
/// # Errors
/// When the fixture asks for something that cannot be asked.
pub(crate) async fn run_invocation(
    spec: &InvocationSpec,
    built: &CompiledGraphs,
    with: InvocationContext<'_>,
    tape: &CaseRecorder,
    checker: &mut AssertionChecker,
) -> Outcome<InvocationResult> {
    let attached = observers::attach_to_graphs(with.observers, built, tape, with.is_first)?;
    let options = spec.invoke_options()?;
    let options = observers::add_to_invocation(with.observers, tape, (with.is_first, with.listens), options)?;
    let options = with.telemetry.attach_recorders(options);
    let started = invoke_graph(spec, built, options, checker);
    let ended = match with.given_up {
        None => started.await?,
        Some(store) => tokio::select! {
            ended = started => ended?,
            () = store.wait_for_crash() => Err(Error::Argument { what: "the fixture ends the process".into() }),
        },
    };
    let began = Instant::now();
    let (limit, drain_refused) = match &spec.drain {
        None => (None, None),
        Some(Ok(limit)) => (*limit, None),
        Some(Err(why)) if spec.expectation("dev.singletree.drain_refused").is_some() => {
            (None, Some(why.clone()))
        }
        Some(Err(why)) => {
            return Err(CaseFailure::reader_error(&spec.path, format!("the drain's time limit: {why}")));
        }
    };
    let summary = built
        .graph
        .drain(limit)
        .await
        .map_err(|error| CaseFailure::build_error(&spec.path, error.to_string()))?;
    let asked = matches!(spec.drain, Some(Ok(_)));
    let drained = asked.then(|| GraphDrainResult { summary, took: began.elapsed(), limit });
    attached.detach();
    let mut recorded = with.telemetry.render_recording(spec.metadata.clone(), spec.invocation.clone())?;
    with.telemetry.export_traces(&mut recorded).await?;
    let run = InvocationResult {
        ended,
        at_registration: false,
        reel: tape.take_recording(),
        drained,
        drain_refused,
        telemetry: Some(recorded),
    };
    bind_references(spec, &run, checker);
    Ok(run)
}

impl InvocationSpec {
    fn invoke_options(&self) -> Outcome<InvokeOptions> {
        let refused =
            |it: singletree::durable::InvalidIdentifier| CaseFailure::build_error(&self.path, it.to_string());
        let mut options = InvokeOptions::new();
        if let Some(session) = &self.session {
            options = options.session(SessionId::parse(session).map_err(refused)?);
        }
        if let Some(correlation) = &self.correlation {
            options = options.correlation(correlation.clone());
        }
        if let Some(invocation) = &self.invocation {
            options = options.invocation(InvocationId::parse(invocation).map_err(refused)?);
        }
        for (key, value) in &self.metadata {
            options = options.metadata(key.clone(), value.clone());
        }
        Ok(options)
    }
}

async fn invoke_graph(
    spec: &InvocationSpec,
    built: &CompiledGraphs,
    options: InvokeOptions,
    checker: &AssertionChecker,
) -> Outcome<Result<Ended<Snapshot>, Error>> {
    if let Some(from) = &spec.from {
        return Ok(checkpoints::resume_invocation(&built.graph, from, options).await);
    }
    let Some(which) = &spec.resume else {
        let fields = spec.initial.iter().flatten();
        let initial =
            fields.fold(StateUpdate::new(), |it, (name, value)| it.with_json(name.clone(), value.clone()));
        return Ok(built.graph.invoke(initial, options).await);
    };
    let text = which.as_text()?;
    let id = checker.bindings.resolve_reference(text).and_then(Value::as_str).unwrap_or(text).to_owned();
    let id =
        InvocationId::parse(id).map_err(|error| CaseFailure::build_error(&which.path, error.to_string()))?;
    // A checkpoint is gone on from with nothing, a pause with a signal's payload, which may be empty.
    match &spec.payload {
        None if built.has_checkpoints => Ok(checkpoints::resume_invocation(&built.graph, &id, options).await),
        payload => Ok(built.graph.resume(&id, payload.clone().unwrap_or_default(), options).await),
    }
}

/// Binds the references to this run that later invocations of the case may use.
fn bind_references(spec: &InvocationSpec, run: &InvocationResult, checker: &mut AssertionChecker) {
    let Some(id) = run.invocation_id() else { return };
    let mut refer = |token: String| checker.bindings.bind_reference(token, Value::String(id.clone()));
    match run.outcome_word() {
        "suspended" => {
            refer("<from previous suspended outcome>".into());
            if let Some(name) = &spec.name {
                refer(format!("<from {name} suspended outcome>"));
            }
        }
        "completed" => refer("<invocation_id from initial completed invoke>".into()),
        _ => refer("<invocation_id from previous errored invoke>".into()),
    }
}
