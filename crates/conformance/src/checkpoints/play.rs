//! Playing a case with a checkpointer: an invocation that ends before its time, its record, and one that goes on from
//! it.

use serde_json::Value;
use singletree::durable::InvocationId;
use singletree::engine::AttemptPhase;

use super::occasion::CompletionSet;
use super::spec::{CheckpointCaseSpec, CrashPoint, ResumeSource, ResumedInvocationSpec};
use super::store::RecordingCheckpointer;
use crate::check::{AssertionChecker, ensure};
use crate::failure::{CaseFailure, Outcome};
use crate::fields::LocatedNode;
use crate::invariants::InvariantEvidence;
use crate::observers::RUNNERS;
use crate::run::{InvocationResult, InvocationSpec};
use crate::scene::{CaseContext, InvocationOptions};

/// Plays the case, and returns the invariants that stand among the expectations.
///
/// # Errors
/// When the case asks for something that cannot be asked.
pub(crate) async fn run_checkpoint_case(
    spec: &CheckpointCaseSpec,
    scene: &CaseContext<'_>,
    evidence: &mut InvariantEvidence,
    checker: &mut AssertionChecker,
) -> Outcome<Vec<LocatedNode>> {
    for _ in 0..spec.others {
        let other = spec.first.clone().restarted_without_expectations();
        let (run, _) = scene.invoke_and_check(&other, InvocationOptions::default(), checker).await?;
        ensure(run.outcome_word() == "completed", || {
            format!("an invocation before it {}", run.outcome_word())
        })
        .map_err(|error| CaseFailure::build_error("populate_checkpointer_via_runs", error))?;
        scene.stage.mocks.forget_all_calls();
    }
    if spec.others > 0
        && let Some(store) = &scene.stage.checkpoints
    {
        store.forget_saves();
    }
    if let Some(wanted) = &spec.ambiguous {
        checker.check_result(&wanted.path, Err("the graph compiled".into()));
    }
    let store = scene.stage.checkpoints.as_deref();
    let store = store.ok_or_else(|| CaseFailure::reader_error("checkpointer", "there is none"))?;
    let (mut blocks, id) = match &spec.seeded {
        Some(record) => {
            // The invocation that left the record is none of the case's.
            reject_expectations(&spec.first)?;
            (Vec::new(), Some(store.seed_record(record).await?))
        }
        None => run_first_invocation(spec, (scene, store), evidence, checker).await?,
    };
    let record = match &id {
        Some(id) => store.load_record_json(id.as_str()).await?,
        None => None,
    };
    check_records(spec, (store, evidence.runs.first()), record.as_ref(), checker)?;
    evidence.saves = store.recorded_saves();
    evidence.record = record;
    if let Some(resume) = &spec.resume {
        let id = id.ok_or_else(|| CaseFailure::reader_error("resume", "there is nothing to go on from"))?;
        blocks.extend(resume_and_check((resume, spec), (scene, store), &id, evidence, checker).await?);
    }
    evidence.all_saves = store.recorded_saves();
    Ok(blocks)
}

/// Refuses expectations of an invocation that has no outcome.
fn reject_expectations(invocation: &InvocationSpec) -> Outcome<()> {
    match invocation.expected.first() {
        None => Ok(()),
        Some((_, it)) => {
            Err(CaseFailure::reader_error(&it.path, "is expected of an invocation that has no outcome"))
        }
    }
}

/// Runs the first invocation, to its end or to where it is given up.
async fn run_first_invocation(
    spec: &CheckpointCaseSpec,
    (scene, store): (&CaseContext<'_>, &RecordingCheckpointer),
    evidence: &mut InvariantEvidence,
    checker: &mut AssertionChecker,
) -> Outcome<(Vec<LocatedNode>, Option<InvocationId>)> {
    let aborts = scene.case.graph.abort_point();
    let crash = spec
        .crash
        .clone()
        .or_else(|| aborts.clone().map(|(node, index)| CrashPoint::AfterInstance { node, index }));
    store.set_crash_point(crash.clone());
    let mut invocation = spec.first.clone();
    // An invocation that is given up has no outcome; an aborted fan-out is reported in its place (pipeline-utilities
    // 052, 056).
    let aborted = aborts.and_then(|(node, _)| Some((node, invocation.take_expected("expected_error")?)));
    if crash.is_some() {
        reject_expectations(&invocation)?;
        invocation = invocation.without_expectations();
    }
    let how = InvocationOptions { is_first: true, given_up: crash.is_some().then_some(store), record: None };
    let (run, blocks) = scene.invoke_and_check(&invocation, how, checker).await?;
    if let Some(crash) = crash {
        let ended = || format!("the run {}, and was nowhere {crash}", run.outcome_word());
        checker.check_result("crash_injection", ensure(store.has_crashed(), ended));
    }
    if let Some((node, wanted)) = aborted {
        check_abort(checker, wanted, &node)?;
    }
    store.set_crash_point(None);
    let id = run.invocation_id().map(InvocationId::parse).transpose();
    let id = id.map_err(|error| CaseFailure::build_error("the first invocation", error.to_string()))?;
    evidence.runs.push(run);
    scene.stage.mocks.begin_next_invocation();
    Ok((blocks, id))
}

fn check_abort(checker: &mut AssertionChecker, wanted: LocatedNode, node: &str) -> Outcome<()> {
    let mut wanted = wanted.into_map_reader()?;
    checker.check_exact(&wanted.take_required("category")?, "node_exception");
    checker.check_exact(&wanted.take_required("raised_from")?, node);
    wanted.reject_remaining_keys()
}

fn check_records(
    spec: &CheckpointCaseSpec,
    (store, run): (&RecordingCheckpointer, Option<&InvocationResult>),
    record: Option<&Value>,
    checker: &mut AssertionChecker,
) -> Outcome<()> {
    let saves = store.recorded_saves();
    if let Some(wanted) = &spec.saved {
        wanted.check_record(checker, record)?;
    }
    if let Some(wanted) = &spec.latest {
        wanted.check_record(checker, saves.last().map(|save| &save.record))?;
    }
    if let Some(wanted) = &spec.every_save {
        wanted.check_record(checker, saves.first().map(|save| &save.record))?;
        for save in saves.iter().skip(1) {
            wanted.check_record(checker, Some(&save.record))?;
        }
    }
    if let Some((path, wanted)) = &spec.saves {
        let count = || format!("expected {} saves, found {}", wanted.len(), saves.len());
        checker.check_result(path, ensure(wanted.len() == saves.len(), count));
        let completed = completed_nodes(run, saves.len());
        for (at, (wanted, save)) in wanted.iter().zip(&saves).enumerate() {
            let visited = completed.get(at).map(String::as_str);
            let before = at.checked_sub(1).map(|before| &saves[before].record);
            wanted
                .check_occasion(checker, &CompletionSet::completed_between(before, &save.record, visited))?;
            wanted.check_record(checker, Some(&save.record))?;
        }
    }
    Ok(())
}

/// Returns the nodes that completed, in the order of the saves: by the events where the runner listens, else by the
/// bodies that ran. Empty where there is not one for each save.
fn completed_nodes(run: Option<&InvocationResult>, saves: usize) -> Vec<String> {
    let Some(run) = run else { return Vec::new() };
    let events = run.reel.events_taken_by(RUNNERS).filter(|event| event.phase == AttemptPhase::Completed);
    let events: Vec<String> = events.map(|event| event.node_name.to_string()).collect();
    let visits = run.reel.visits.iter().filter_map(|visit| visit.namespace.last().cloned()).collect();
    [events, visits].into_iter().find(|nodes: &Vec<String>| nodes.len() == saves).unwrap_or_default()
}

async fn resume_and_check(
    (resume, spec): (&ResumedInvocationSpec, &CheckpointCaseSpec),
    (scene, store): (&CaseContext<'_>, &RecordingCheckpointer),
    id: &InvocationId,
    evidence: &mut InvariantEvidence,
    checker: &mut AssertionChecker,
) -> Outcome<Vec<LocatedNode>> {
    if (resume.from == ResumeSource::Seeded) != spec.seeded.is_some() {
        return Err(CaseFailure::reader_error("resume", "there is no such record"));
    }
    store.modify_state(id, &resume.modified).await?;
    let mut invocation = resume.invocation.clone().resuming_from(id.clone());
    if resume.ambiguous.is_some() {
        invocation = invocation.without_expectations();
    }
    let record = evidence.record.clone();
    let how = InvocationOptions { record: record.as_ref(), ..InvocationOptions::default() };
    let (run, blocks) = scene.invoke_and_check(&invocation, how, checker).await?;
    if let Some(wanted) = &resume.ambiguous {
        check_ambiguity_error(checker, wanted, &run);
    }
    evidence.runs.push(run);
    Ok(resume.invariants.iter().cloned().chain(blocks).collect())
}

fn check_ambiguity_error(checker: &mut AssertionChecker, wanted: &LocatedNode, run: &InvocationResult) {
    match &run.ended {
        Err(error) => checker.check_exact(wanted, error.category()),
        Ok(_) => checker.check_result(&wanted.path, Err(format!("it {}", run.outcome_word()))),
    }
}
