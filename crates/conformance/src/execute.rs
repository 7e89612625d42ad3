//! Running one case, alone: its own runtime, its own stores, time that stands still.

use std::any::Any;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use singletree::engine::{Error, GraphBuilder, RunOutcome as Ended, Snapshot, UNVERSIONED};
use tokio::time::Instant;

use crate::adapt::SaveFaultKind;
use crate::around::NodeTools;
use crate::case::{CaseProgram, FixtureCaseSpec, UnparsedCase};
use crate::check::AssertionChecker;
use crate::checkpoints::{self, RecordingCheckpointer};
use crate::dialect::FixtureDialect;
use crate::errors;
use crate::expect::{ExpectationContext, check_run};
use crate::failure::{CaseFailure, Outcome};
use crate::fields::{LocatedNode, unknown_key};
use crate::graph::{CompiledGraphs, FixtureGraphBuilder, GraphBuildError};
use crate::invariants::{self, InvariantEvidence};
use crate::journal::CountingJournal;
use crate::mocks::MockCallCounters;
use crate::paused::CasePausedStore;
use crate::run::{InvocationResult, InvocationSpec};
use crate::scene::{CaseClock, CaseContext, CaseEnvironment, InvocationOptions};
use crate::sessions::{self, RecordingSessionStore};
use crate::tape::CaseRecorder;
use crate::telemetry::{TelemetryContext, TelemetryRuntime, check_telemetry_key, is_telemetry_key};
use crate::{base, chat, llm, prompts, telemetry};

/// Time that passes in a case before it counts as stuck. It is not waited for: time stands still while anything can
/// run.
const STUCK_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// The result of running a case.
#[derive(Debug, Default)]
pub(crate) struct CaseExamination {
    /// Why it does not pass; empty when it does.
    pub(crate) failures: Vec<CaseFailure>,
    /// The paths of the assertions that were made.
    pub(crate) asserted: BTreeSet<String>,
    /// The invariants that only restated some of those.
    pub(crate) restated: BTreeSet<String>,
}

impl From<CaseFailure> for CaseExamination {
    fn from(failure: CaseFailure) -> Self {
        Self { failures: vec![failure], ..Self::default() }
    }
}

/// Reads and runs a case. An empty list means that it passes.
#[must_use]
pub(crate) fn execute_case(case: UnparsedCase) -> Vec<CaseFailure> {
    examine_case(case).failures
}

/// Reads and runs a case, and returns its failures and assertions.
#[must_use]
pub(crate) fn examine_case(case: UnparsedCase) -> CaseExamination {
    // OpenTelemetry has one global provider in a process: cases that use it run one after the other.
    let uses_global = case.own.get_entry("caller_global_otel_active").is_some();
    let _reserved = uses_global.then(telemetry::reserve_global_tracer);
    let caught = catch_unwind(AssertUnwindSafe(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        match runtime {
            Ok(runtime) => runtime.block_on(examine_with_timeout(case)),
            Err(error) => CaseFailure::build_error("runtime", error.to_string()).into(),
        }
    }));
    caught.unwrap_or_else(|panic| {
        CaseFailure::assertion_error("the case", format!("panicked: {}", panic_message(&panic))).into()
    })
}

fn panic_message(panic: &Box<dyn Any + Send>) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}

async fn examine_with_timeout(case: UnparsedCase) -> CaseExamination {
    let mut checker = AssertionChecker::default();
    match tokio::time::timeout(STUCK_AFTER, run_in_dialect(case, &mut checker)).await {
        Ok(Ok(())) if checker.failures.is_empty() && checker.assertion_count() == 0 => {
            checker.failures.push(CaseFailure::assertion_error("the case", "nothing was asserted"));
        }
        Ok(Ok(())) => {}
        Ok(Err(failure)) => checker.failures.push(failure),
        Err(_) => checker.failures.push(CaseFailure::assertion_error("the case", "does not end")),
    }
    CaseExamination { failures: checker.failures, asserted: checker.asserted, restated: checker.restated }
}

async fn run_in_dialect(case: UnparsedCase, checker: &mut AssertionChecker) -> Outcome<()> {
    match case.dialect {
        FixtureDialect::Graph if telemetry::is_direct_call(&case) => {
            telemetry::run_direct_call(case, checker)
        }
        FixtureDialect::Graph => run_graph_case(case.parse_case()?, checker).await,
        FixtureDialect::Llm => llm::run_llm_case(case, checker).await,
        FixtureDialect::Prompts => prompts::run_prompt_case(case, checker).await,
    }
}

async fn run_graph_case(mut spec: FixtureCaseSpec, checker: &mut AssertionChecker) -> Outcome<()> {
    let tape = CaseRecorder::default();
    let store = spec.store.map(|store| Arc::new(RecordingSessionStore::new(store, tape.clone())));
    let checkpoints = match spec.checkpointer {
        Some(backend) => {
            let outermost = spec.graph.state.field_names().map(str::to_owned).collect();
            Some(Arc::new(RecordingCheckpointer::open_empty(backend, outermost).await?))
        }
        None => None,
    };
    let paused = Arc::new(CasePausedStore::new(spec.paused_raises));
    let telemetry = Arc::new(TelemetryRuntime::new(spec.telemetry.clone()));
    let mocks = MockCallCounters::default();
    let stage = CaseEnvironment { store, tape, paused, checkpoints, mocks, telemetry };
    let blocks = std::mem::take(&mut spec.invariants);
    let mut evidence = InvariantEvidence {
        inner_fields: subgraph_fields(&spec),
        conditional: spec.graph.conditional_branches(),
        nodes: spec
            .subgraphs
            .values()
            .chain([&spec.graph])
            .flat_map(crate::graph::FixtureGraphSpec::node_names)
            .collect(),
        ..InvariantEvidence::default()
    };
    let built = build_case_graphs(&spec, &stage)?;
    let built = match built {
        Ok(built) => check_compilation(&spec, &built, checker).map(|()| Some(built))?,
        Err(error) => {
            check_compile_error(&spec, *error, &mut evidence, checker).await;
            None
        }
    };
    let mut inner_blocks = Vec::new();
    if let Some(built) = built {
        let program = std::mem::replace(&mut spec.program, CaseProgram::Compile);
        inner_blocks =
            run_program(&spec, program, (&stage, &built), &mut evidence, (&blocks, checker)).await?;
    }
    inner_blocks.extend(check_case_expectations(&spec, &stage, &evidence, checker));
    for block in inner_blocks.into_iter().chain(blocks) {
        invariants::check_invariants(checker, block, &evidence);
    }
    for complaint in stage.telemetry.model().complaints() {
        checker.failures.push(CaseFailure::assertion_error("mock_llm", complaint));
    }
    Ok(())
}

/// Asserts what is expected of all invocations of a case together. Returns the invariants among it.
fn check_case_expectations(
    spec: &FixtureCaseSpec,
    stage: &CaseEnvironment,
    evidence: &InvariantEvidence,
    checker: &mut AssertionChecker,
) -> Vec<LocatedNode> {
    let runs: Vec<&InvocationResult> = evidence.runs.iter().collect();
    let are_detached_counted = spec.expected.iter().any(|(key, _)| key == "detached_trace_count");
    let mut blocks = Vec::new();
    for (key, spot) in spec.expected.clone() {
        if key == "invariants" {
            blocks.push(spot);
            continue;
        }
        let context = TelemetryContext { runtime: &stage.telemetry, runs: &runs, are_detached_counted };
        let checked = match is_telemetry_key(&key) {
            true => check_telemetry_key(checker, &key, spot, context),
            false => Err(unknown_key("expected", &key, spot.node.line)),
        };
        checker.unwrap_or_record(checked);
    }
    blocks
}

/// Returns the fields of the case's one subgraph.
fn subgraph_fields(spec: &FixtureCaseSpec) -> Vec<String> {
    let mut graphs = spec.subgraphs.values();
    match (graphs.next(), graphs.next()) {
        (Some(only), None) => only.state.field_names().map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

fn build_case_graphs(
    spec: &FixtureCaseSpec,
    stage: &CaseEnvironment,
) -> Outcome<Result<CompiledGraphs, Box<Error>>> {
    let migrations = sessions::parse_migrations(spec.migrations.clone(), &stage.tape)?;
    let of_checkpoints = sessions::parse_migrations(spec.checkpoint_migrations.clone(), &stage.tape)?;
    let finish = |builder: GraphBuilder<Snapshot>| {
        let tape = stage.tape.clone();
        let mut builder = builder
            .clock(Arc::new(CaseClock(Instant::now())))
            .session_migrations(migrations)
            .on_mishap(move |_| tape.lock_recording().mishaps += 1);
        // The chat harness keeps sessions and pauses in its journal.
        if !matches!(spec.program, CaseProgram::Chat(_)) {
            builder = builder.paused_store(stage.paused.clone());
            if let Some(store) = &stage.store {
                builder = builder.session_store(store.clone());
            }
        }
        if let Some(shape) = &spec.shape {
            builder = builder.session_shape(shape.clone());
        }
        if let Some(auto_save) = spec.auto_save {
            builder = builder.auto_save(auto_save);
        }
        match &stage.checkpoints {
            Some(checkpoints) => checkpoints.register_with_graph(builder, of_checkpoints),
            None => builder,
        }
    };
    let tools = NodeTools { tape: stage.tape.clone(), tick: spec.tick, telemetry: stage.telemetry.clone() };
    let workshop = FixtureGraphBuilder::new(tools, &spec.subgraphs, stage.mocks.clone());
    match workshop.compile_outermost(&spec.graph, stage.checkpoints.is_some(), finish) {
        Ok(built) => Ok(Ok(built)),
        Err(GraphBuildError::Engine(error)) => Ok(Err(error)),
        Err(GraphBuildError::Fixture(failure)) => Err(failure),
    }
}

fn check_compilation(
    spec: &FixtureCaseSpec,
    built: &CompiledGraphs,
    checker: &mut AssertionChecker,
) -> Outcome<()> {
    if let Some(wanted) = &spec.compile_error {
        checker.check_result(&wanted.path, Err("the graph compiled".into()));
    }
    let Some(wanted) = spec.compile_warning.clone() else { return Ok(()) };
    let mut found: Vec<&str> = built.graph.warnings().iter().map(|warning| warning.kind.category()).collect();
    found.sort_unstable();
    found.dedup();
    // A text must be among the warnings; a list is all of them (conformance-adapter §5.8).
    if let Ok(one) = wanted.as_text() {
        let there = found.contains(&one);
        checker.check_result(
            &wanted.path,
            crate::check::ensure(there, || format!("the warnings are {found:?}")),
        );
        return Ok(());
    }
    let path = wanted.path.clone();
    let mut all = wanted.into_texts()?;
    all.sort_unstable();
    let same = all.iter().map(String::as_str).eq(found.iter().copied());
    checker.check_result(&path, crate::check::ensure(same, || format!("expected {all:?}, found {found:?}")));
    Ok(())
}

/// Asserts that the case expects the graph's compilation to fail with this error.
async fn check_compile_error(
    spec: &FixtureCaseSpec,
    error: Error,
    evidence: &mut InvariantEvidence,
    checker: &mut AssertionChecker,
) {
    if let Some(wanted) = &spec.compile_error {
        checker.check_exact(wanted, error.category());
        return;
    }
    if let CaseProgram::Checkpointed(program) = &spec.program
        && let Some(wanted) = program.expected_ambiguity()
    {
        checker.check_exact(wanted, error.category());
        return;
    }
    let CaseProgram::Invoke(invocations, _) = &spec.program else {
        checker.check_result("compile", Err(errors::describe_error(&error)));
        return;
    };
    let Some(first) =
        invocations.first().filter(|invocation| invocation.expectation("expected_error").is_some())
    else {
        checker.check_result("compile", Err(errors::describe_error(&error)));
        return;
    };
    let run = InvocationResult::from_refusal(error);
    let around = ExpectationContext {
        spec: first,
        observers: &[],
        error_fields: &[],
        made_fields: &[],
        store: None,
        paused: None,
        record: None,
        telemetry: None,
    };
    let blocks = check_run(checker, &run, &around).await;
    evidence.runs.push(run);
    for block in blocks {
        invariants::check_invariants(checker, block, evidence);
    }
}

async fn run_program(
    spec: &FixtureCaseSpec,
    program: CaseProgram,
    (stage, built): (&CaseEnvironment, &CompiledGraphs),
    evidence: &mut InvariantEvidence,
    (blocks, checker): (&[LocatedNode], &mut AssertionChecker),
) -> Outcome<Vec<LocatedNode>> {
    let scene = CaseContext { case: spec, stage, built };
    match program {
        CaseProgram::Compile => Ok(Vec::new()),
        CaseProgram::Checkpointed(program) => {
            checkpoints::run_checkpoint_case(&program, &scene, evidence, checker).await
        }
        CaseProgram::Invoke(invocations, times) => {
            seed_session(spec, stage, invocations.first()).await?;
            let mut found = Vec::new();
            for _ in 0..times {
                found.clear();
                stage.mocks.forget_all_calls();
                for invocation in &invocations {
                    let how = InvocationOptions {
                        is_first: evidence.runs.is_empty(),
                        ..InvocationOptions::default()
                    };
                    let (ran, blocks) = scene.invoke_and_check(invocation, how, checker).await?;
                    evidence.runs.push(ran);
                    stage.mocks.begin_next_invocation();
                    found.extend(blocks);
                }
            }
            check_repetition(&evidence.runs, times, checker);
            evidence.again = repeat_without_drain(&scene, &invocations, (blocks, checker)).await?;
            Ok(found)
        }
        CaseProgram::Base(base) => {
            let declared = (&spec.graph, &stage.tape, &stage.paused);
            evidence.handled = base::run_transmissions(base, built.graph.clone(), declared, checker).await?;
            Ok(Vec::new())
        }
        CaseProgram::Chat(chat) => {
            if spec.paused_raises
                || spec.store.is_some_and(|store| store.save_raises == Some(SaveFaultKind::Conflict))
            {
                return Err(CaseFailure::reader_error("the case", "a journal of chats has no such fault"));
            }
            let journal = CountingJournal::new(spec.store.unwrap_or_default());
            let again = "next_send_call_does_not_consume_the_post_resume_reply";
            let ask_again = blocks.iter().any(|block| block.node.get_entry(again).is_some());
            let with = (journal, &stage.tape);
            evidence.talked =
                chat::run_chat_case(chat, built.graph.clone(), with, ask_again, checker).await?;
            Ok(Vec::new())
        }
    }
}

async fn seed_session(
    spec: &FixtureCaseSpec,
    stage: &CaseEnvironment,
    first: Option<&InvocationSpec>,
) -> Outcome<()> {
    let Some(seeded) = spec.seeded.clone() else { return Ok(()) };
    let path = seeded.path.clone();
    let no = |what: &str| CaseFailure::reader_error(&path, what);
    let store = stage.store.as_ref().ok_or_else(|| no("there is no store to put it into"))?;
    let session =
        first.and_then(|first| first.session.as_deref()).ok_or_else(|| no("no session is named"))?;
    let version = spec.graph.state.version().unwrap_or(UNVERSIONED);
    store.seed_record(session, &sessions::parse_seeded_record(seeded, version)?).await
}

/// Makes the first invocation that says so once more, without its drain: graph-engine §6 says that a graph is as before
/// after a drain gave up.
async fn repeat_without_drain(
    scene: &CaseContext<'_>,
    invocations: &[InvocationSpec],
    (blocks, checker): (&[LocatedNode], &mut AssertionChecker),
) -> Outcome<Option<InvocationResult>> {
    let asks = |it: &LocatedNode| it.node.get_entry("graph_state_intact_after_timeout").is_some();
    let of_case = blocks.iter().any(asks);
    let Some(first) = invocations
        .iter()
        .find(|invocation| of_case || invocation.expectation("invariants").is_some_and(asks))
    else {
        return Ok(None);
    };
    let again = first.clone().without_drain().without_expectations();
    scene.invoke_and_check(&again, InvocationOptions::default(), checker).await.map(|(run, _)| Some(run))
}

/// A case that runs several times gives the same each time (graph-engine §5).
fn check_repetition(runs: &[InvocationResult], times: usize, checker: &mut AssertionChecker) {
    if times < 2 {
        return;
    }
    let each = runs.len() / times;
    let shown = |it: &InvocationResult| {
        let state = match &it.ended {
            Ok(Ended::Completed(it)) => it.state.to_json().map(Value::Object).unwrap_or_default(),
            Ok(Ended::Suspended(_)) | Err(_) => Value::Null,
        };
        (it.outcome_word(), state, it.reel.execution_order())
    };
    let same = (each..runs.len()).all(|at| shown(&runs[at]) == shown(&runs[at % each]));
    checker.check_result("run_count", crate::check::ensure(same, || "the runs differ".into()));
}

#[cfg(test)]
mod tests;
