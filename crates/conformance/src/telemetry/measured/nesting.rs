//! How spans of attempts, instances, branches and calls lie in each other (observability §4.3, §5.4, §5.7, §6).

use std::collections::BTreeSet;

use singletree::engine::{AttemptPhase, ContainerConfig};
use singletree_telemetry::{SpanStatus, SpanSubject, TraceSpan};

use super::super::expect::attribute;
use super::super::span_tree::SpanForest;
use super::super::view::{Holds, TelemetryRow, TelemetryView, node_events, root_spans};
use crate::check::ensure;

pub(super) const ROWS: &[TelemetryRow] = &[
    ("all_attempt_spans_error", attempts_failed),
    ("same_named_inner_spans_disambiguated_by_dispatch_parent", namesakes_have_their_branches),
    ("dispatch_spans_close_before_node_span", branches_end_before_their_node),
    ("callable_branch_renders_one_span_keyed_by_branch_name", branches_are_named_spans),
    ("callable_branch_span_has_no_inner_node_spans", branches_have_no_inner_spans),
    ("when_skipped_branch_emits_no_span", skipped_branches_have_no_span),
    ("branch_count_is_dispatched_count_not_declared", branch_count_is_of_dispatched),
    ("no_inner_spans_dropped_under_concurrent_nesting", every_attempt_has_a_span),
    ("llm_span_parents_under_own_lineage_calling_node", calls_are_below_their_node),
    ("orphan_llm_span_parents_under_innermost_fan_out_instance", call_is_below_its_instance),
    ("orphan_llm_span_not_under_work_branch_dispatch_span", call_is_below_its_instance),
    ("orphan_llm_span_not_under_node_or_invocation", call_is_below_its_instance),
    ("orphan_llm_span_sibling_of_guard_node_span", call_is_beside_its_node),
];

/// Returns the spans below the invocation, and the names among them.
pub(super) fn attempt_spans<'a>(view: &TelemetryView<'a>) -> Result<Vec<&'a TraceSpan>, String> {
    let recorded = view.last()?;
    let forest = SpanForest::new(&recorded.spans);
    let root = root_spans(recorded).into_iter().next().ok_or("there is no span")?;
    let children = forest.children(root).to_vec();
    let names: BTreeSet<_> = children.iter().map(|span| span.name.as_ref()).collect();
    ensure(names.len() == 1, || format!("the spans are of {names:?}"))?;
    Ok(children)
}

fn attempts_failed(view: &TelemetryView<'_>) -> Holds {
    let attempts = attempt_spans(view)?;
    let all = attempts.iter().all(|span| matches!(span.status, SpanStatus::Error { .. }));
    ensure(all, || "an attempt did not fail".into())
}

fn spans_of<'a>(
    view: &TelemetryView<'a>,
    is: fn(&SpanSubject) -> bool,
) -> Result<Vec<&'a TraceSpan>, String> {
    let found: Vec<_> = view.spans()?.iter().filter(|span| is(&span.subject)).collect();
    if found.is_empty() { Err("there is no such span".into()) } else { Ok(found) }
}

pub(super) fn branch_spans<'a>(view: &TelemetryView<'a>) -> Result<Vec<&'a TraceSpan>, String> {
    spans_of(view, |subject| matches!(subject, SpanSubject::Branch))
}

pub(super) fn instance_spans<'a>(view: &TelemetryView<'a>) -> Result<Vec<&'a TraceSpan>, String> {
    spans_of(view, |subject| matches!(subject, SpanSubject::Instance))
}

pub(super) fn node_spans<'a>(view: &TelemetryView<'a>) -> Result<Vec<&'a TraceSpan>, String> {
    spans_of(view, |subject| matches!(subject, SpanSubject::Node))
}

fn parent_of<'a>(view: &TelemetryView<'a>, span: &TraceSpan) -> Result<&'a TraceSpan, String> {
    let is_parent =
        |other: &&TraceSpan| other.trace_id == span.trace_id && Some(other.span_id) == span.parent_id;
    view.spans()?.iter().find(is_parent).ok_or_else(|| format!("'{}' has no parent", span.name))
}

/// Spans of one name that lie in several branches each have the span of their branch around them.
fn namesakes_have_their_branches(view: &TelemetryView<'_>) -> Holds {
    let nodes = node_spans(view)?;
    let inner = nodes.iter().filter(|span| attribute(span, "openarmature.node.branch_name").is_some());
    let mut parents = BTreeSet::new();
    let mut names = BTreeSet::new();
    for span in inner {
        let parent = parent_of(view, span)?;
        ensure(matches!(parent.subject, SpanSubject::Branch), || format!("'{}' is in no branch", span.name))?;
        let branch = attribute(span, "openarmature.node.branch_name");
        ensure(branch.is_some_and(|name| name == parent.name.as_ref()), || "it is in another branch".into())?;
        names.insert(span.name.clone());
        parents.insert(parent.span_id);
    }
    ensure(names.len() == 1 && parents.len() > 1, || format!("{names:?} in {} branches", parents.len()))
}

/// Spans are recorded in the order in which they end.
fn branches_end_before_their_node(view: &TelemetryView<'_>) -> Holds {
    let spans = view.spans()?;
    let place = |span: &TraceSpan| spans.iter().position(|other| other.span_id == span.span_id);
    for branch in branch_spans(view)? {
        let node = parent_of(view, branch)?;
        ensure(place(branch) < place(node), || format!("'{}' ends after its node", branch.name))?;
    }
    Ok(())
}

fn branches_are_named_spans(view: &TelemetryView<'_>) -> Holds {
    let branches = branch_spans(view)?;
    let named = branches.iter().all(|span| {
        attribute(span, "openarmature.node.branch_name").is_some_and(|name| name == span.name.as_ref())
    });
    let names: BTreeSet<_> = branches.iter().map(|span| span.name.clone()).collect();
    ensure(named && names.len() == branches.len(), || format!("the branches are {names:?}"))
}

fn branches_have_no_inner_spans(view: &TelemetryView<'_>) -> Holds {
    let forest = SpanForest::new(view.spans()?);
    let empty = branch_spans(view)?.iter().all(|branch| forest.children(branch).is_empty());
    ensure(empty, || "a branch has spans inside".into())
}

fn skipped_branches_have_no_span(view: &TelemetryView<'_>) -> Holds {
    let conditional = &view.evidence.conditional;
    ensure(!conditional.is_empty(), || "no branch has a condition".into())?;
    let spans = branch_spans(view)?;
    let shown = conditional.iter().find(|name| spans.iter().any(|span| *span.name == ***name));
    ensure(shown.is_none(), || format!("{shown:?} has a span"))
}

fn branch_count_is_of_dispatched(view: &TelemetryView<'_>) -> Holds {
    let branches = branch_spans(view)?;
    let node = parent_of(view, branches[0])?;
    let told = attribute(node, "openarmature.parallel_branches.branch_count");
    let declared = node_events(&view.last()?.events).find_map(|event| match &event.container {
        Some(ContainerConfig::Branches(config)) => Some(config.branch_names.len()),
        _ => None,
    });
    let declared = declared.ok_or("no node has branches")?;
    let same = told.as_ref().and_then(|count| count.as_u64()) == u64::try_from(branches.len()).ok();
    ensure(same && branches.len() < declared, || {
        format!("{told:?} is told, {} are there, {declared} are declared", branches.len())
    })
}

/// Each attempt of a node that began has a span, and no two of them are the same.
fn every_attempt_has_a_span(view: &TelemetryView<'_>) -> Holds {
    let recorded = view.last()?;
    let begun = node_events(&recorded.events).filter(|event| event.phase == AttemptPhase::Started).count();
    let nodes = node_spans(view)?;
    let ids: BTreeSet<_> = recorded.spans.iter().map(|span| (span.trace_id, span.span_id)).collect();
    ensure(nodes.len() == begun && ids.len() == recorded.spans.len(), || {
        format!("{begun} attempts, {} spans, {} ids", nodes.len(), ids.len())
    })
}

fn calls_are_below_their_node(view: &TelemetryView<'_>) -> Holds {
    let calls = view.llm_spans()?;
    ensure(!calls.is_empty(), || "there is no call".into())?;
    for call in calls {
        let parent = parent_of(view, call)?;
        let own = matches!(parent.subject, SpanSubject::Node)
            && parent.namespace == call.namespace
            && parent.lineage == call.lineage;
        ensure(own, || format!("a call is below '{}'", parent.name))?;
    }
    Ok(())
}

/// A call beside its node lies in the innermost instance around that node.
fn call_is_below_its_instance(view: &TelemetryView<'_>) -> Holds {
    for call in view.llm_spans()? {
        let parent = parent_of(view, call)?;
        let depth = call.namespace.len() - 1;
        let own = matches!(parent.subject, SpanSubject::Instance)
            && parent.namespace[..] == call.namespace[..depth]
            && parent.lineage.boundaries() == &call.lineage.boundaries()[..depth];
        ensure(own, || format!("the call is below '{}'", parent.name))?;
    }
    ensure(!view.llm_spans()?.is_empty(), || "there is no call".into())
}

fn call_is_beside_its_node(view: &TelemetryView<'_>) -> Holds {
    let forest = SpanForest::new(view.spans()?);
    for call in view.llm_spans()? {
        let siblings = forest.children(parent_of(view, call)?);
        let beside = siblings
            .iter()
            .any(|span| matches!(span.subject, SpanSubject::Node) && span.namespace == call.namespace);
        ensure(beside, || "the node of the call is elsewhere".into())?;
    }
    ensure(!view.llm_spans()?.is_empty(), || "there is no call".into())
}
