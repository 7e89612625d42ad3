//! The spans of a turn as lines of text.

use singletree_draw::{TextTone, WaterfallPicture};
use singletree_durable::Timestamp;
use singletree_engine::NodeLineage;
use singletree_telemetry::{AttributeValue, Attributes, SpanId, SpanStatus, SpanSubject, TraceId, TraceSpan};

/// A span of a node, with the number of the span around it.
fn span(id: u8, parent: Option<u8>, name: &str, (from, to): (i64, i64)) -> TraceSpan {
    let span_id = |id: u8| SpanId([id; 8]);
    TraceSpan {
        trace_id: TraceId([1; 16]),
        span_id: span_id(id),
        parent_id: parent.map(span_id),
        trace_state: None,
        name: name.into(),
        namespace: [].into(),
        lineage: NodeLineage::new([]),
        started_at: Timestamp::from_millis(from),
        ended_at: Timestamp::from_millis(to),
        order: u64::from(id),
        status: SpanStatus::Ok,
        attributes: Attributes::default(),
        exception: None,
        links: Vec::new(),
        subject: SpanSubject::Node,
    }
}

fn lines(spans: &[TraceSpan], columns: usize) -> Vec<String> {
    WaterfallPicture::new(spans).render_text_lines(columns).into_iter().map(|line| line.text).collect()
}

#[test]
fn each_span_is_below_the_one_that_it_is_in_in_the_order_of_their_beginnings() {
    let mut spans = vec![
        // In the order of their ends, as they are rendered.
        span(3, Some(1), "later", (1_060, 1_080)),
        span(4, Some(2), "inner", (1_020, 1_040)),
        span(2, Some(1), "earlier", (1_020, 1_050)),
        span(1, Some(9), "outer", (1_000, 1_100)),
    ];
    spans[1].status = SpanStatus::Error { description: Some("node_exception".into()) };
    spans[1].attributes.insert("openarmature.node.attempt_index".into(), AttributeValue::Int(1));
    let expected = [
        "  outer      100 ms",
        "    earlier   30 ms",
        "      inner   20 ms  attempt 2 \u{b7} node_exception",
        "    later     20 ms",
    ];
    assert_eq!(lines(&spans, 80), expected);
    let wide = lines(&spans, 100);
    assert_eq!(wide[0], format!("  outer      100 ms  {}", "\u{2591}".repeat(24)));
    assert_eq!(wide[3], format!("    later     20 ms  {}{}", " ".repeat(13), "\u{2591}".repeat(6)));
    let tones = WaterfallPicture::new(&spans).render_text_lines(80).into_iter().map(|line| line.tone);
    assert_eq!(
        tones.collect::<Vec<_>>(),
        [TextTone::Plain, TextTone::Plain, TextTone::Wrong, TextTone::Plain]
    );
}

#[test]
fn no_name_breaks_a_line_and_none_is_wider_than_the_terminal() {
    assert_eq!(lines(&[], 80), Vec::<String>::new());
    let mut deep: Vec<TraceSpan> =
        (1..=60).map(|id| span(id, id.checked_sub(1), "a\u{1b}[2J\nb", (0, i64::MAX))).collect();
    deep[0].parent_id = None;
    for columns in [0, 40, 91, 92, 200] {
        let lines = lines(&deep, columns);
        assert_eq!(lines.len(), 60);
        for line in lines {
            assert!(line.chars().count() <= columns.max(40), "{line}");
            assert!(!line.chars().any(char::is_control), "{line}");
        }
    }
}
