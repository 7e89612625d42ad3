//! The spans of a turn as rows, each below the one that it is in, and as lines of text.

use std::collections::{BTreeMap, BTreeSet};

use std::time::Duration;

use singletree_durable::Timestamp;
use singletree_telemetry::{AttributeValue, SpanId, SpanStatus, SpanSubject, TraceSpan};

use super::text::{TextLine, TextTone, WITH_BARS, draw_bar, pad_to_columns};
use super::words;
use crate::label::{count_columns as width_of, to_visible_line, truncate_to_columns};

/// The most columns of a name, with its indentation.
const NAMES_MAX: usize = 34;

/// A span, as a row of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaterfallRow {
    /// How many spans are around it.
    pub depth: usize,
    /// The kind of its span.
    pub kind: WaterfallRowKind,
    /// The name of the agent, the node, the model or the tool, without characters that a reader cannot see.
    pub name: String,
    /// When it began.
    pub started_at: Timestamp,
    /// How long it took.
    pub took: Duration,
    /// Whether it failed.
    pub is_failed: bool,
    /// Its tokens, the number of a repeated attempt, the type of its error.
    pub note: String,
}

/// The kind of a row's span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaterfallRowKind {
    /// A turn of an agent.
    Turn,
    /// An attempt of a call of a model.
    Model,
    /// A tool.
    Tool,
    /// A node, or a run inside of one.
    Node,
}

impl WaterfallRowKind {
    /// Returns the word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Turn => "turn",
            Self::Model => "model",
            Self::Tool => "tool",
            Self::Node => "node",
        }
    }
}

/// The spans of one turn, as [`TurnTrace::render_spans`](singletree_harness::TurnTrace::render_spans) gives them: nodes, model
/// calls and tools, with their times, tokens and errors.
#[derive(Debug)]
pub struct WaterfallPicture<'a> {
    /// The spans in the order in which they are shown, each with the number of spans around it.
    rows: Vec<(usize, &'a TraceSpan)>,
}

impl<'a> WaterfallPicture<'a> {
    /// Makes a picture. A span whose parent is not among the spans is shown as one that is in none.
    #[must_use]
    pub fn new(spans: &'a [TraceSpan]) -> Self {
        let known: BTreeSet<SpanId> = spans.iter().map(|span| span.span_id).collect();
        let mut inner: BTreeMap<Option<SpanId>, Vec<&TraceSpan>> = BTreeMap::new();
        for span in spans {
            inner.entry(span.parent_id.filter(|parent| known.contains(parent))).or_default().push(span);
        }
        for siblings in inner.values_mut() {
            siblings.sort_by_key(|span| (span.started_at, span.order));
        }
        let mut rows = Vec::new();
        let mut stack: Vec<(usize, &TraceSpan)> = Vec::new();
        let push_inner = |stack: &mut Vec<_>, depth: usize, siblings: Option<Vec<&'a TraceSpan>>| {
            stack.extend(siblings.unwrap_or_default().into_iter().rev().map(|span| (depth, span)));
        };
        push_inner(&mut stack, 0, inner.remove(&None));
        while let Some((depth, span)) = stack.pop() {
            rows.push((depth, span));
            push_inner(&mut stack, depth + 1, inner.remove(&Some(span.span_id)));
        }
        Self { rows }
    }

    /// Returns its rows, in the order in which they are shown.
    #[must_use]
    pub fn to_rows(&self) -> Vec<WaterfallRow> {
        let row = |(depth, span): &(usize, &TraceSpan)| WaterfallRow {
            depth: *depth,
            kind: kind_of_row(span),
            name: to_visible_line(name_span(span)).into_owned(),
            started_at: span.started_at,
            took: span.ended_at.duration_since(span.started_at),
            is_failed: is_failed(span),
            note: describe_span(span),
        };
        self.rows.iter().map(row).collect()
    }

    /// Draws it as lines of text of at most so many columns; narrower than 40 is as 40.
    #[must_use]
    pub fn render_text_lines(&self, columns: usize) -> Vec<TextLine> {
        let columns = columns.max(40);
        let Some(begin) = self.rows.iter().map(|(_, span)| span.started_at).min() else { return Vec::new() };
        let end = self.rows.iter().map(|(_, span)| span.ended_at).max().unwrap_or(begin);
        let name_of = |depth: usize, span: &TraceSpan| {
            format!("{}{}", "  ".repeat(depth), to_visible_line(name_span(span)))
        };
        let names = self.rows.iter().map(|(depth, span)| width_of(&name_of(*depth, span)));
        let names = names.max().unwrap_or(0).min(NAMES_MAX);
        let took = |span: &TraceSpan| words::format_duration(span.ended_at.duration_since(span.started_at));
        let long = self.rows.iter().map(|(_, span)| width_of(&took(span))).max().unwrap_or(0);
        let line = |(depth, span): &(usize, &TraceSpan)| {
            let name = name_of(*depth, span);
            let name = pad_to_columns(&truncate_to_columns(&name, names), names);
            let bar = match columns >= WITH_BARS {
                true => {
                    format!("  {}", draw_bar((span.started_at, span.ended_at), (begin, end), bar_mark(span)))
                }
                false => String::new(),
            };
            let text = format!("  {name}  {:>long$}{bar}  {}", took(span), describe_span(span));
            let tone = if is_failed(span) { TextTone::Wrong } else { TextTone::Plain };
            TextLine { tone, text: truncate_to_columns(&text, columns).trim_end().to_owned() }
        };
        self.rows.iter().map(line).collect()
    }
}

/// Returns the name to show: that of the agent, the node, the model or the tool.
fn name_span(span: &TraceSpan) -> &str {
    match &span.subject {
        SpanSubject::Invocation { label: Some(agent), .. } => agent,
        SpanSubject::Llm(call) => &call.model,
        SpanSubject::Tool(execution) => &execution.tool_name,
        _ => &span.name,
    }
}

fn kind_of_row(span: &TraceSpan) -> WaterfallRowKind {
    match span.subject {
        SpanSubject::Invocation { .. } => WaterfallRowKind::Turn,
        SpanSubject::Llm(_) => WaterfallRowKind::Model,
        SpanSubject::Tool(_) => WaterfallRowKind::Tool,
        _ => WaterfallRowKind::Node,
    }
}

fn is_failed(span: &TraceSpan) -> bool {
    matches!(span.status, SpanStatus::Error { .. })
}

/// Returns the note behind a span: tokens, the number of a repeated attempt, the type of an error.
fn describe_span(span: &TraceSpan) -> String {
    let number = |name: &str| match span.attributes.get(name) {
        Some(AttributeValue::Int(number)) => Some(*number),
        _ => None,
    };
    let text = |name: &str| match span.attributes.get(name) {
        Some(AttributeValue::Text(text)) => Some(to_visible_line(text).into_owned()),
        _ => None,
    };
    let mut parts = Vec::new();
    let tokens = [number("gen_ai.usage.input_tokens"), number("gen_ai.usage.output_tokens")];
    if let [Some(prompt), Some(completion)] = tokens {
        parts.push(format!("{prompt} + {completion} tokens"));
    }
    let attempts = ["openarmature.llm.attempt_index", "openarmature.node.attempt_index"];
    if let Some(attempt) = attempts.iter().find_map(|name| number(name)).filter(|attempt| *attempt > 0) {
        parts.push(format!("attempt {}", attempt + 1));
    }
    if let SpanStatus::Error { description } = &span.status {
        let described = description.as_deref().map(|it| to_visible_line(it).into_owned());
        parts.push(text("error.type").or(described).unwrap_or_else(|| "failed".to_owned()));
    }
    parts.join(" \u{b7} ")
}

/// Returns the character that bars of a span consist of.
fn bar_mark(span: &TraceSpan) -> char {
    match span.subject {
        SpanSubject::Llm(_) => '\u{2588}',
        SpanSubject::Tool(_) => '\u{2593}',
        _ => '\u{2591}',
    }
}
