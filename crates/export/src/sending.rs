//! Sends the spans of turns, in halves where a receiver refuses them together.

use std::ops::Range;

use singletree_durable::DocumentKey;
use singletree_telemetry::{SpanReceiver, SpanRefusal, TraceSpan};

/// The rendered turns of one tenant, in the order in which they ended.
#[derive(Debug, Default)]
pub(crate) struct RenderedTurns {
    /// The note of each turn, and the end of its spans.
    turns: Vec<(DocumentKey, usize)>,
    spans: Vec<TraceSpan>,
}

impl RenderedTurns {
    pub(crate) fn add_turn(&mut self, note: DocumentKey, spans: Vec<TraceSpan>) {
        self.spans.extend(spans);
        self.turns.push((note, self.spans.len()));
    }

    pub(crate) fn span_count(&self) -> usize {
        self.spans.len()
    }

    /// Returns the spans of turns that follow one another.
    fn spans_of(&self, turns: &Range<usize>) -> &[TraceSpan] {
        let start = turns.start.checked_sub(1).map_or(0, |before| self.turns[before].1);
        let end = turns.end.checked_sub(1).map_or(0, |last| self.turns[last].1);
        &self.spans[start..end]
    }

    fn notes_of(&self, turns: Range<usize>) -> impl Iterator<Item = DocumentKey> {
        self.turns[turns].iter().map(|(note, _)| note.clone())
    }
}

/// The result of sending turns.
#[derive(Debug, Default)]
pub(crate) struct SendReport {
    /// The notes of those that were taken.
    pub(crate) taken: Vec<DocumentKey>,
    pub(crate) taken_spans: usize,
    /// How many spans of them the receiver dropped, and why.
    pub(crate) rejected_spans: u64,
    pub(crate) message: Option<String>,
    /// The notes of those that were refused for good, and why.
    pub(crate) refused: Vec<DocumentKey>,
    pub(crate) refusal: Option<SpanRefusal>,
    /// Why the others were not taken.
    pub(crate) not_taken: Option<SpanRefusal>,
}

/// Sends turns. Where the receiver refuses the spans of several, halves of them are sent, down to the turn that it refuses.
pub(crate) async fn send_turns(receiver: &dyn SpanReceiver, rendered: &RenderedTurns) -> SendReport {
    let mut report = SendReport::default();
    // The next part is the last one: turns are sent in their order.
    let (mut parts, mut next) = (Vec::new(), Some(0..rendered.turns.len()));
    while let Some(part) = next.take().or_else(|| parts.pop()) {
        let spans = rendered.spans_of(&part);
        if spans.is_empty() {
            report.taken.extend(rendered.notes_of(part));
            continue;
        }
        match receiver.send_spans(spans).await {
            Ok(receipt) => {
                report.taken_spans += spans.len();
                report.rejected_spans += receipt.rejected.min(spans.len() as u64);
                report.message = receipt.message.or(report.message);
                report.taken.extend(rendered.notes_of(part));
            }
            Err(SpanRefusal::Content { .. }) if part.len() > 1 => {
                let middle = part.start + part.len() / 2;
                parts.extend([middle..part.end, part.start..middle]);
            }
            Err(refusal @ SpanRefusal::Content { .. }) => {
                report.refused.extend(rendered.notes_of(part));
                report.refusal = Some(refusal);
            }
            Err(refusal) => {
                report.not_taken = Some(refusal);
                break;
            }
        }
    }
    report
}
