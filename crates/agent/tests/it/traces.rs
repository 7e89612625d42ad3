//! The traces of turns, rendered from the records that their commits stored: whole after a death at any write, never split or doubled.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use singletree_durable::MemoryStore;
use singletree_harness::{Chat, TurnTrace};
use singletree_store_testing::FailedWriteEffect;
use singletree_telemetry::{SpanId, SpanProfile, SpanSettings, SpanStatus, TraceId, TraceSpan};
use singletree_tools::Recovery;

use crate::crashes::{UNKNOWN, process, survivor_of_death_at};
use crate::probe::World;
use crate::rig::{SESSION, transcript};

/// Reads the traces of all turns of the session.
async fn traces(chat: &Chat) -> Vec<TurnTrace> {
    let page = chat.session(SESSION).turns(0, 100).await.unwrap();
    let mut traces = Vec::new();
    for turn in page.items {
        traces.push(chat.turn_trace(&turn.id).await.unwrap());
    }
    traces
}

/// Renders the spans of all turns, and checks that they are one trace for each invocation without a gap.
fn spans(traces: &[TurnTrace]) -> Vec<TraceSpan> {
    let mut spans = Vec::new();
    let mut of_invocation: HashMap<String, TraceId> = HashMap::new();
    for trace in traces {
        let settings = SpanSettings::new();
        let rendered = trace.render_spans(&settings);
        assert_eq!(rendered, trace.render_spans(&settings), "rendered again, it is the same");
        assert!(!trace.is_partial && !rendered.is_empty(), "{trace:?}");
        let invocation = trace.turn.invocation.to_string();
        for span in &rendered {
            assert_eq!(*of_invocation.entry(invocation.clone()).or_insert(span.trace_id), span.trace_id);
        }
        spans.extend(rendered);
    }
    let ids: BTreeSet<(TraceId, SpanId)> = spans.iter().map(|span| (span.trace_id, span.span_id)).collect();
    assert_eq!(ids.len(), spans.len(), "no id is used twice");
    for span in &spans {
        let is_known = span.parent_id.is_none_or(|parent| ids.contains(&(span.trace_id, parent)));
        assert!(is_known, "the parent of {} is missing", span.name);
        assert!(span.started_at <= span.ended_at, "{span:?}");
    }
    let roots = spans.iter().filter(|span| span.parent_id.is_none()).count();
    assert_eq!(roots, of_invocation.len(), "each trace has one root");
    spans
}

/// Counts the spans by the names on the way to them and by how they ended.
fn shape(spans: &[TraceSpan]) -> BTreeMap<String, usize> {
    let by_id: HashMap<_, _> = spans.iter().map(|span| (span.span_id, span)).collect();
    let mut shape = BTreeMap::new();
    for span in spans {
        let (mut path, mut at) = (vec![span.status.as_str().to_owned(), span.name.to_string()], span);
        while let Some(parent) = at.parent_id.and_then(|parent| by_id.get(&parent)) {
            path.push(parent.name.to_string());
            at = parent;
        }
        path.reverse();
        *shape.entry(path.join("/")).or_default() += 1;
    }
    shape
}

fn lost_tools(spans: &[TraceSpan]) -> usize {
    let lost = |span: &&TraceSpan| matches!(&span.status, SpanStatus::Error { description } if description.as_deref() == Some("process_lost"));
    spans.iter().filter(lost).count()
}

// A turn with two tools, one of which a person approves: the process dies at every write, and another one goes on.
#[tokio::test]
async fn a_death_at_any_write_leaves_the_trace_that_there_is_without_it() {
    for (text, recovery) in [
        ("say hello", Recovery::Rerun),
        ("mixed", Recovery::Rerun),
        ("sends", Recovery::Rerun),
        ("mixed", Recovery::Report),
        ("sends", Recovery::Report),
    ] {
        let whole = process(MemoryStore::new(), (&World::default(), recovery), text, || true).await;
        let expected = shape(&spans(&traces(&whole).await));
        for land in [FailedWriteEffect::Before, FailedWriteEffect::After] {
            let mut n = 1;
            while let Some((chat, _)) = survivor_of_death_at(n, land, text, recovery).await {
                let spans = spans(&traces(&chat).await);
                let doubts = transcript(&chat).await.iter().filter(|line| *line == UNKNOWN).count();
                let at = format!("{text}, {recovery:?} dies at {n}, {land:?}");
                assert_eq!(lost_tools(&spans), doubts, "{at}");
                let mut found = shape(&spans);
                if doubts > 0 {
                    // The execution in doubt is told as lost, in place of the one that there would have been.
                    found = found
                        .into_iter()
                        .map(|(path, count)| (path.replace("/ERROR", "/OK"), count))
                        .fold(BTreeMap::new(), |mut all, (path, count)| {
                            *all.entry(path).or_default() += count;
                            all
                        });
                }
                assert_eq!(found, expected, "{at}");
                n += 1;
            }
            assert!(n > 2, "{text}: the sweep has looked at something");
        }
    }
}

#[tokio::test]
async fn a_trace_tells_the_model_calls_and_the_tools_of_an_invocation_that_waited() {
    let chat = process(MemoryStore::new(), (&World::default(), Recovery::Rerun), "sends", || true).await;
    let traces = traces(&chat).await;
    let settings = SpanSettings::new().profile(SpanProfile::GenAi);
    let spans: Vec<_> = traces.iter().flat_map(|trace| trace.render_spans(&settings)).collect();
    let mut named: Vec<_> =
        spans.iter().map(|span| format!("{} {}", span.name, span.status.as_str())).collect();
    named.sort();
    let tools = named.iter().filter(|name| name.starts_with("execute_tool ")).count();
    let models = named.iter().filter(|name| name.starts_with("chat ")).count();
    assert_eq!((tools, models), (3, 2), "{named:#?}");
}
