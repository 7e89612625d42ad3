//! Expected span trees (conformance-adapter §5.8, `otel_spans`; the header of observability 001).

use std::collections::BTreeMap;

use serde_json::Value;
use singletree_telemetry::{SpanId, SpanStatus, TraceId, TraceSpan};

use super::attributes::{check_absent_attributes, check_attributes, check_payload_key};
use super::runtime::RunTelemetry;
use crate::adapt;
use crate::check::{AssertionChecker, ensure};
use crate::failure::Outcome;
use crate::fields::{LocatedNode, unknown_key};

/// Spans by their traces and parents, siblings in the order in which they began.
#[derive(Debug)]
pub(super) struct SpanForest<'a> {
    below: BTreeMap<(TraceId, Option<SpanId>), Vec<&'a TraceSpan>>,
    /// The traces, in the order in which they began.
    pub(super) traces: Vec<TraceId>,
}

impl<'a> SpanForest<'a> {
    pub(super) fn new(spans: &'a [TraceSpan]) -> Self {
        let mut sorted: Vec<&TraceSpan> = spans.iter().collect();
        sorted.sort_by_key(|span| span.order);
        let mut forest = Self { below: BTreeMap::new(), traces: Vec::new() };
        for span in sorted {
            if !forest.traces.contains(&span.trace_id) {
                forest.traces.push(span.trace_id);
            }
            forest.below.entry((span.trace_id, span.parent_id)).or_default().push(span);
        }
        forest
    }

    /// Returns the spans at the root of a trace.
    pub(super) fn roots(&self, trace: TraceId) -> &[&'a TraceSpan] {
        self.below.get(&(trace, None)).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the spans below a span.
    pub(super) fn children(&self, span: &TraceSpan) -> &[&'a TraceSpan] {
        self.below.get(&(span.trace_id, Some(span.span_id))).map(Vec::as_slice).unwrap_or_default()
    }
}

/// Asserts the tree of an invocation that has one trace.
///
/// # Errors
/// When the fixture block has an unknown key or value.
pub(super) fn check_span_tree(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    run: &RunTelemetry,
) -> Outcome<()> {
    let forest = SpanForest::new(&run.spans);
    let count = forest.traces.len();
    checker.check_result(&spot.path, ensure(count == 1, || format!("there are {count} traces")));
    let Some(trace) = forest.traces.first() else { return Ok(()) };
    check_span_list(checker, spot, (&forest, run), forest.roots(*trace))
}

/// Asserts a tree whose root is written alone (`otel_spans`).
///
/// # Errors
/// When the fixture block has an unknown key or value.
pub(super) fn check_single_root(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    run: &RunTelemetry,
) -> Outcome<()> {
    let forest = SpanForest::new(&run.spans);
    let roots = forest.traces.first().map(|trace| forest.roots(*trace)).unwrap_or_default();
    match (forest.traces.len(), roots) {
        (1, [root]) => check_span(checker, spot, (&forest, run), root),
        _ => {
            checker.check_result(&spot.path, Err(format!("there are {} traces", forest.traces.len())));
            Ok(())
        }
    }
}

/// Asserts all traces, in the order in which they began: the invocation's own first.
///
/// # Errors
/// When the fixture block has an unknown key or value.
pub(super) fn check_traces(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    run: &RunTelemetry,
) -> Outcome<()> {
    let forest = SpanForest::new(&run.spans);
    let path = spot.path.clone();
    let wanted = spot.into_items()?;
    let (count, found) = (wanted.len(), forest.traces.len());
    checker.check_result(&path, ensure(count == found, || format!("expected {count} traces, found {found}")));
    for (spot, trace) in wanted.into_iter().zip(&forest.traces) {
        let mut block = spot.into_map_reader()?;
        if let Some(id) = block.take_value("trace_id") {
            checker.check_exact(&id, trace.to_string());
        }
        check_span_list(checker, block.take_required("span_tree")?, (&forest, run), forest.roots(*trace))?;
        block.reject_remaining_keys()?;
    }
    Ok(())
}

/// Asserts the invocation's own trace, beside detached ones.
///
/// # Errors
/// When the fixture block has an unknown key or value.
pub(super) fn check_parent_trace(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    run: &RunTelemetry,
) -> Outcome<()> {
    let forest = SpanForest::new(&run.spans);
    let mut block = spot.into_map_reader()?;
    let tree = block.take_required("span_tree")?;
    block.reject_remaining_keys()?;
    let roots = forest.traces.first().map(|trace| forest.roots(*trace)).unwrap_or_default();
    check_span_list(checker, tree, (&forest, run), roots)
}

/// Asserts siblings. A list names all of them, unless it is one of those that `adapt` knows.
fn check_span_list(
    checker: &mut AssertionChecker,
    list: LocatedNode,
    (forest, run): (&SpanForest<'_>, &RunTelemetry),
    actual: &[&TraceSpan],
) -> Outcome<()> {
    let path = list.path.clone();
    let wanted = list.into_items()?;
    let names = || actual.iter().map(|span| span.name.as_ref()).collect::<Vec<_>>();
    if adapt::is_complete_span_list(&wanted) || wanted.is_empty() {
        let same = wanted.len() == actual.len();
        checker.check_result(
            &path,
            ensure(same, || format!("expected {} spans, found {:?}", wanted.len(), names())),
        );
        for (spot, span) in wanted.into_iter().zip(actual) {
            check_span(checker, spot, (forest, run), span)?;
        }
        return Ok(());
    }
    let mut rest = actual.iter();
    for spot in wanted {
        let name = spot.node.get_entry("name").map(|name| name.to_json());
        let found = rest.find(|span| name.as_ref() == Some(&Value::from(span.name.as_ref())));
        match found {
            Some(span) => check_span(checker, spot, (forest, run), span)?,
            None => checker
                .check_result(&path, Err(format!("no span {name:?} in this order among {:?}", names()))),
        }
    }
    Ok(())
}

fn check_span(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    (forest, run): (&SpanForest<'_>, &RunTelemetry),
    span: &TraceSpan,
) -> Outcome<()> {
    let path = spot.path.clone();
    let mut wanted = spot.into_map_reader()?;
    checker.check_exact(&wanted.take_required("name")?, span.name.as_ref());
    while let Some((key, spot)) = wanted.take_next_entry() {
        match key.as_str() {
            "status" => checker.check_exact(&spot, span.status.as_str()),
            "status_description" => checker.check_exact(&spot, status_description(span)),
            "exception_recorded" => {
                let recorded = span.exception.is_some();
                checker.check_truth(&spot, ensure(recorded, || "no exception is recorded".into()));
            }
            "attributes" => check_attributes(checker, spot, &span.attributes)?,
            "attributes_absent" => check_absent_attributes(checker, spot, &span.attributes)?,
            "attributes_present" => {
                for name in spot.clone().into_distinct_texts()? {
                    let present = span.attributes.contains_key(name.as_str());
                    checker.check_result(&spot.path, ensure(present, || format!("'{name}' is not there")));
                }
            }
            "links" => check_links(checker, spot, span)?,
            "link_count" => checker.check_exact(&spot, span.links.len()),
            "children" => check_span_list(checker, spot, (forest, run), forest.children(span))?,
            _ if check_payload_key(checker, &key, &spot, (span, run))? => {}
            other => return Err(unknown_key(&path, other, spot.node.line)),
        }
    }
    Ok(())
}

fn status_description(span: &TraceSpan) -> Option<&str> {
    match &span.status {
        SpanStatus::Error { description } => description.as_deref(),
        SpanStatus::Unset | SpanStatus::Ok => None,
    }
}

fn check_links(checker: &mut AssertionChecker, spot: LocatedNode, span: &TraceSpan) -> Outcome<()> {
    let path = spot.path.clone();
    let wanted = spot.into_items()?;
    let (count, found) = (wanted.len(), span.links.len());
    checker.check_result(&path, ensure(count == found, || format!("expected {count} links, found {found}")));
    for (spot, link) in wanted.into_iter().zip(&span.links) {
        let mut wanted = spot.into_map_reader()?;
        checker.check_exact(&wanted.take_required("target_trace_id")?, link.trace_id.to_string());
        wanted.reject_remaining_keys()?;
    }
    Ok(())
}
