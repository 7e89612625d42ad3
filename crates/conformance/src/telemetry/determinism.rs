//! Comparing the spans of invocations with the same input (observability §10).

use serde_json::{Value, json};
use singletree_telemetry::TraceSpan;

use super::expect::attribute;
use super::runtime::RunTelemetry;
use super::span_tree::SpanForest;
use super::vocabulary::SPAN_ATTRIBUTES;
use crate::check::{AssertionChecker, ensure};
use crate::failure::Outcome;
use crate::fields::LocatedNode;

/// What can be compared.
const PARTS: &[&str] =
    &["span_tree_structure", "span_names", "span_status", "span_attributes_excluding_ignored"];

/// Attributes that are derived of times, as fixtures name the family.
const TIMINGS: &str = "openarmature.timing.*";

/// Asserts that invocations made the same spans.
///
/// # Errors
/// When the fixture block has an unknown key or value.
pub(super) fn check_determinism(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    runs: &[&RunTelemetry],
) -> Outcome<()> {
    let mut block = spot.into_map_reader()?;
    let (pair, ignored) = (block.take_required("compare_runs")?, block.take_required("ignore_attributes")?);
    let (parts, equal) = (block.take_required("compare")?, block.take_required("require_equal")?);
    block.reject_remaining_keys()?;
    let numbers = pair.clone().into_items()?;
    let numbers = numbers.iter().map(LocatedNode::as_integer).collect::<Outcome<Vec<_>>>()?;
    let run_at = |at: &i64| usize::try_from(*at).ok().and_then(|at| runs.get(at));
    let compared = match numbers.as_slice() {
        [one, other] if one < other => run_at(one).zip(run_at(other)),
        _ => None,
    };
    checker.check_result(&pair.path, ensure(compared.is_some(), || "are no two invocations in order".into()));
    let path = ignored.path.clone();
    let ignored = ignored.into_distinct_texts()?;
    for name in &ignored {
        let known = name == TIMINGS || SPAN_ATTRIBUTES.contains(&name.as_str());
        checker.check_result(&path, ensure(known, || format!("no span has an attribute '{name}'")));
    }
    let path = parts.path.clone();
    let parts = parts.into_distinct_texts()?;
    for part in &parts {
        let known = PARTS.contains(&part.as_str());
        checker.check_result(&path, ensure(known, || format!("'{part}' cannot be compared")));
    }
    let same = compared.map_or(Err("nothing is compared".into()), |(one, other)| {
        let (one, other) = (describe_run(one, &parts, &ignored), describe_run(other, &parts, &ignored));
        ensure(one == other, || format!("{one} differs from {other}"))
    });
    checker.check_truth(&equal, same);
    Ok(())
}

fn describe_run(run: &RunTelemetry, parts: &[String], ignored: &[String]) -> Value {
    let forest = SpanForest::new(&run.spans);
    let roots = forest.traces.iter().flat_map(|trace| forest.roots(*trace));
    roots.map(|root| describe_span(root, &forest, parts, ignored)).collect()
}

fn describe_span(span: &TraceSpan, forest: &SpanForest<'_>, parts: &[String], ignored: &[String]) -> Value {
    let compares = |part: &str| parts.iter().any(|named| named == part);
    let mut described = json!({});
    if compares("span_tree_structure") {
        let children = forest.children(span).iter();
        described["children"] = children.map(|child| describe_span(child, forest, parts, ignored)).collect();
    }
    if compares("span_names") {
        described["name"] = span.name.as_ref().into();
    }
    if compares("span_status") {
        described["status"] = span.status.as_str().into();
    }
    if compares("span_attributes_excluding_ignored") {
        let names = span.attributes.keys().filter(|name| !ignored.iter().any(|it| it == *name));
        let told = names.map(|name| json!([name, attribute(span, name)]));
        described["attributes"] = told.collect();
    }
    described
}
