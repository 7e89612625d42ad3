//! Making records of events as they happen.

use std::sync::Arc;

use serde_json::{Map, Value};
use singletree_engine::{
    AttemptEnd, AttemptPhase, ContainerConfig, EventError, EventSource, GraphEvent, InvocationChange,
    LlmAttemptEvent, LlmFailure, LlmOutput, LlmRequestRecord, NodeEvent, ToolExecution, UnitChange,
    UnitEvent,
};
use singletree_env::Timestamp;
use singletree_llm::RetryReason;

use super::decode::read_piece;
use super::entry::{
    ContainerEntry, EndEntry, Entry, ErrorEntry, LlmEntry, LlmErrorEntry, LlmOutputEntry, NodeEntry,
    PromptEntry, StoredPiece, ToolEntry, UnitEntry,
};
use super::place::StoredPlace;

/// The bounds of the records of one turn in one process (INV-12).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecorderLimits {
    /// How many bytes the records of a turn may have. Beyond it only the ends of recorded nodes and inner runs are added,
    /// some 20 bytes each, and one entry with the number of events that were left out.
    pub turn_bytes: usize,
}

impl Default for RecorderLimits {
    fn default() -> Self {
        Self { turn_bytes: 256 * 1024 }
    }
}

/// How many bytes of a name that others choose are recorded, such as that of a tool that a model asks for.
const NAME_BYTES: usize = 256;

/// How many tool calls of one answer are recorded.
const TOOL_CALLS: usize = 64;

/// Makes the records of one turn while it runs.
///
/// It takes the events of the run one by one, in their order, and gives the records since the last commit as one piece.
/// Records stay here until they are known to be stored: the piece of a commit that failed is part of the next one.
///
/// A piece is stored for good with an event of the turn ([`Self::take_piece`]). A commit without such an event stores the
/// records since the last commit for a while ([`Self::take_interim_piece`]); the next piece for good has them again.
#[derive(Debug, Default)]
pub struct TurnRecorder {
    limits: RecorderLimits,
    /// The records that are stored for a while only.
    interim: Vec<PendingRecord>,
    /// The records that are not stored.
    pending: Vec<PendingRecord>,
    /// The numbers and places of open nodes and inner runs, in the order in which they began.
    open: Vec<(u32, StoredPlace)>,
    next_number: u32,
    bytes: usize,
    left_out: u64,
}

#[derive(Debug)]
struct PendingRecord {
    at: Timestamp,
    entry: Entry,
    json: String,
    /// Whether it says that something has ended.
    is_end: bool,
}

/// A piece that is about to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedPiece {
    /// The piece, as JSON.
    pub json: String,
    /// How many records of those that were stored for a while it has, and how many that were not stored.
    counts: (usize, usize),
    is_interim: bool,
}

impl TurnRecorder {
    /// Makes a recorder with these limits.
    #[must_use]
    pub fn new(limits: RecorderLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Records an event, if something is kept of its kind.
    pub fn record_event(&mut self, event: &GraphEvent) {
        match event {
            GraphEvent::Node(event) => self.record_node(event),
            GraphEvent::Unit(event) => self.record_unit(event),
            GraphEvent::Invocation(event) => {
                // The end of the run is that of the turn.
                if let InvocationChange::Started { entry_node, .. } = &event.change {
                    self.open.clear();
                    self.next_number = 0;
                    self.push(event.at, Entry::Started(clip(entry_node)));
                }
            }
            GraphEvent::LlmAttempt(event) => {
                if let Some(entry) = self.unless_full(|recorder| recorder.llm_entry(event)) {
                    self.push_end(event.at, Entry::Llm(Box::new(entry)));
                }
            }
            GraphEvent::ToolCall(event) => {
                self.record_tool(&event.execution, (event.started_at, event.at), None);
            }
            GraphEvent::ToolCallFailed(event) => {
                let error_type = event.error_type.as_deref();
                self.record_tool(&event.execution, (event.started_at, event.at), Some(error_type));
            }
            _ => {}
        }
    }

    /// Returns how many bytes the records have that were made so far.
    #[must_use]
    pub fn recorded_bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// Returns the records that are not stored for good yet, for a commit at this time with an event. Without `all` there
    /// is a piece only once a node, an inner run or a call has ended: beginnings alone wait for a later commit.
    #[must_use]
    pub fn take_piece(&mut self, now: Timestamp, all: bool) -> Option<RecordedPiece> {
        if all && self.left_out > 0 {
            let at = self.pending.last().map_or(now, |record| record.at);
            let left_out = std::mem::take(&mut self.left_out);
            self.push(at, Entry::LeftOut(left_out));
        }
        let counts = (self.interim.len(), self.pending.len());
        let is_due = all || self.has_pending_end() || !self.interim.is_empty();
        if counts == (0, 0) || !is_due {
            return None;
        }
        let records: Vec<&PendingRecord> = self.interim.iter().chain(&self.pending).collect();
        Some(RecordedPiece { json: write_piece(&records, now), counts, is_interim: false })
    }

    /// Returns the records for a commit at this time without an event: those that are not stored, or all that are not
    /// stored for good, where the commit drops those that were stored for a while.
    #[must_use]
    pub fn take_interim_piece(&self, now: Timestamp, drops_earlier: bool) -> Option<RecordedPiece> {
        let counts = (if drops_earlier { self.interim.len() } else { 0 }, self.pending.len());
        if counts.0 == 0 && !self.has_pending_end() {
            return None;
        }
        let records: Vec<&PendingRecord> = self.interim.iter().take(counts.0).chain(&self.pending).collect();
        Some(RecordedPiece { json: write_piece(&records, now), counts, is_interim: true })
    }

    /// Takes over the records that another process stored for a while, by the time of its commit.
    pub fn restore_interim_piece(&mut self, at: Timestamp, piece: &str) {
        for (at, entry) in read_piece(at, piece) {
            let Ok(json) = serde_json::to_string(&entry) else { continue };
            self.bytes += json.len();
            self.interim.push(PendingRecord { at, entry, json, is_end: true });
        }
    }

    fn has_pending_end(&self) -> bool {
        self.pending.iter().any(|record| record.is_end)
    }

    /// Notes that a piece is stored.
    pub fn mark_stored(&mut self, piece: &RecordedPiece) {
        let (interim, pending) = piece.counts;
        let stored = self.pending.drain(..pending.min(self.pending.len()));
        if piece.is_interim {
            self.interim.extend(stored);
        } else {
            drop(stored);
            self.interim.drain(..interim.min(self.interim.len()));
        }
    }

    fn push(&mut self, at: Timestamp, entry: Entry) {
        self.push_record(at, entry, false);
    }

    fn push_end(&mut self, at: Timestamp, entry: Entry) {
        self.push_record(at, entry, true);
    }

    fn push_record(&mut self, at: Timestamp, entry: Entry, is_end: bool) {
        // Names, numbers and truth values: there is nothing in it that JSON cannot say.
        let Ok(json) = serde_json::to_string(&entry) else { return };
        self.bytes += json.len();
        self.pending.push(PendingRecord { at, entry, json, is_end });
    }

    /// Makes an entry unless the turn has as many records as it may have.
    fn unless_full<T>(&mut self, entry: impl FnOnce(&Self) -> T) -> Option<T> {
        if self.bytes < self.limits.turn_bytes {
            return Some(entry(self));
        }
        self.left_out += 1;
        None
    }

    fn open(&mut self, at: Timestamp, place: StoredPlace, entry: impl FnOnce(StoredPlace) -> Entry) {
        let Some(entry) = self.unless_full(|_| entry(place.clone())) else { return };
        self.open.push((self.next_number, place));
        self.next_number += 1;
        self.push(at, entry);
    }

    fn close(
        &mut self,
        at: Timestamp,
        place: &StoredPlace,
        error: Option<&EventError>,
        signal: Option<&str>,
    ) {
        let Some(index) = self.open.iter().rposition(|(_, open)| open.is_at(place)) else { return };
        let is_last = index + 1 == self.open.len();
        let (number, _) = self.open.remove(index);
        let error = error.map(|error| {
            let precise = (error.derived_category != error.category).then(|| clip(&error.derived_category));
            ErrorEntry(clip(&error.category), precise)
        });
        let of = (!is_last).then_some(number);
        let entry = match (of, &error, signal) {
            (None, None, None) => Entry::Ended,
            _ => Entry::EndedAt(Box::new(EndEntry { of, error, signal: signal.map(clip) })),
        };
        self.push_end(at, entry);
    }

    fn record_node(&mut self, event: &NodeEvent) {
        let place = StoredPlace::new(&event.namespace, &event.lineage, Some(event.step), event.attempt_index);
        if event.phase == AttemptPhase::Started {
            let container = event.container.as_ref().map(container_entry);
            return self.open(event.at, place, |place| match container {
                None if place.is_outermost_node() => Entry::Node(event.step, clip(&event.node_name)),
                container => Entry::NodeAt(Box::new(NodeEntry { place, container })),
            });
        }
        let error = match &event.end {
            Some(AttemptEnd::Failed(error)) => Some(error),
            Some(AttemptEnd::Merged(_)) | None => None,
        };
        let signal = event.descriptor.as_ref().map(|descriptor| descriptor.signal_id.as_str());
        self.close(event.at, &place, error, signal);
    }

    fn record_unit(&mut self, event: &UnitEvent) {
        let place = StoredPlace::new(&event.namespace, &event.lineage, Some(event.step), event.attempt_index);
        match &event.change {
            UnitChange::Entered { graph_name, entry_node } => {
                let (graph_name, entry_node) =
                    (graph_name.as_deref().map(clip), entry_node.as_deref().map(clip));
                self.open(event.at, place, |place| {
                    Entry::Unit(Box::new(UnitEntry { place, graph_name, entry_node }))
                });
            }
            UnitChange::Completed => self.close(event.at, &place, None, None),
            UnitChange::Failed(error) => self.close(event.at, &place, Some(error), None),
        }
    }

    fn record_tool(
        &mut self,
        execution: &ToolExecution,
        times: (Timestamp, Timestamp),
        failed: Option<Option<&str>>,
    ) {
        let entry = self.unless_full(|recorder| {
            let (of, place) = recorder.place_of_call(&execution.source);
            ToolEntry {
                took: millis_between(times),
                id: clip_call_id(&execution.source, &execution.call_id),
                of,
                place,
                name: clip(&execution.tool_name),
                tool_call_id: execution.tool_call_id.as_deref().map(clip),
                is_failed: failed.is_some(),
                error_type: failed.flatten().map(clip),
            }
        });
        if let Some(entry) = entry {
            self.push_end(times.1, Entry::Tool(Box::new(entry)));
        }
    }

    fn llm_entry(&self, event: &LlmAttemptEvent) -> LlmEntry {
        let call = &event.call;
        let (output, error) = match &event.outcome {
            Ok(output) => (Some(output.as_ref()), None),
            Err(failure) => (failure.output.as_ref(), Some(failure.as_ref())),
        };
        let (of, place) = self.place_of_call(&call.source);
        LlmEntry {
            took: millis_between((event.started_at, event.at)),
            id: clip_call_id(&call.source, &call.call_id),
            of,
            place,
            system: clip(&call.provider),
            model: clip(&call.model),
            attempt: event.llm_attempt_index,
            is_reask: event.retry_reason == Some(RetryReason::Reask),
            error: error.map(llm_error_entry),
            output: output.map(llm_output_entry),
            params: kept_params(&event.request),
            history: event.request.conversation().map(|range| (range.skipped, range.first, range.count)),
            prompt: event.request.active_prompt().map(|prompt| {
                Box::new(PromptEntry {
                    name: clip(&prompt.name),
                    version: clip(&prompt.version),
                    label: clip(&prompt.label),
                    template_hash: clip(&prompt.template_hash),
                    rendered_hash: clip(&prompt.rendered_hash),
                    group_name: prompt.group_name.as_deref().map(clip),
                    budget: prompt
                        .token_budget
                        .map(|budget| (budget.input_max_tokens, budget.total_max_tokens)),
                })
            }),
        }
    }

    /// Returns the number of the open node or inner run that made a call, where it is not the one opened last; the place
    /// of a call that none of them made.
    fn place_of_call(&self, source: &EventSource) -> (Option<u32>, Option<StoredPlace>) {
        let place = StoredPlace::new(&source.namespace, &source.lineage, source.step, source.attempt_index);
        let Some(index) = self.open.iter().rposition(|(_, open)| *open == place) else {
            return (None, Some(place));
        };
        (Some(self.open[index].0).filter(|_| index + 1 != self.open.len()), None)
    }
}

fn millis_between((from, to): (Timestamp, Timestamp)) -> i64 {
    to.as_millis().saturating_sub(from.as_millis())
}

/// Returns the name of a call without that of its invocation.
fn clip_call_id(source: &EventSource, call_id: &str) -> String {
    let prefix = format!("{}:", source.identity.invocation_id);
    clip(call_id.strip_prefix(&prefix).unwrap_or(call_id))
}

/// Writes records as the piece of a commit at this time.
fn write_piece(records: &[&PendingRecord], now: Timestamp) -> String {
    if let Some(json) = write_one_node_piece(records, now) {
        return json;
    }
    let mut deltas = Vec::with_capacity(records.len());
    let mut last = None;
    for record in records {
        let at = record.at.as_millis();
        deltas.push(match last.replace(at) {
            None => now.as_millis().saturating_sub(at),
            Some(before) => at.saturating_sub(before),
        });
    }
    let entries: Vec<&str> = records.iter().map(|record| record.json.as_str()).collect();
    let deltas: Vec<String> = deltas.iter().map(ToString::to_string).collect();
    format!("[[{}],[{}]]", deltas.join(","), entries.join(","))
}

/// Returns the short form of records, if they are those of a run of one node.
fn write_one_node_piece(records: &[&PendingRecord], now: Timestamp) -> Option<String> {
    let [start, node, end] = records else { return None };
    match (&start.entry, &node.entry, &end.entry) {
        (Entry::Started(name), Entry::Node(0, same), Entry::Ended) if name == same && start.at == node.at => {
            let (began, ended) = (start.at.as_millis(), end.at.as_millis());
            let (before, took) = (now.as_millis().saturating_sub(began), ended.saturating_sub(began));
            serde_json::to_string(&StoredPiece::OneNode(name.clone(), before, took)).ok()
        }
        _ => None,
    }
}

fn container_entry(config: &ContainerConfig) -> ContainerEntry {
    match config {
        ContainerConfig::FanOut(config) => {
            ContainerEntry::FanOut(config.item_count, config.concurrency, config.error_policy)
        }
        ContainerConfig::Branches(config) => ContainerEntry::Branches(
            config.branch_names.iter().map(|name| name.as_ref().to_owned()).collect(),
            config.branch_count,
            config.error_policy,
        ),
    }
}

fn llm_error_entry(failure: &LlmFailure) -> LlmErrorEntry {
    LlmErrorEntry(clip(&failure.error_category), failure.error_type.as_deref().map(clip))
}

fn llm_output_entry(output: &LlmOutput) -> LlmOutputEntry {
    let usage = &output.usage;
    let calls = output.output_tool_calls.as_deref().unwrap_or_default();
    LlmOutputEntry {
        finish_reason: output.finish_reason,
        usage: [
            usage.prompt_tokens,
            usage.completion_tokens,
            usage.total_tokens,
            usage.cached_tokens,
            usage.cache_creation_tokens,
        ],
        response_id: output.response_id.as_deref().map(clip),
        response_model: output.response_model.as_deref().map(clip),
        tool_calls: calls.iter().take(TOOL_CALLS).map(|call| (clip(&call.name), clip(&call.id))).collect(),
    }
}

/// Returns the sampling parameters of a request but for its stop sequences, which are text.
fn kept_params(request: &Arc<LlmRequestRecord>) -> Map<String, Value> {
    let mut params = request.request_params();
    params.remove("stop_sequences");
    params
}

fn clip(name: &(impl AsRef<str> + ?Sized)) -> String {
    let name = name.as_ref();
    name[..name.floor_char_boundary(NAME_BYTES)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_what_its_entries_are() {
        let mut recorder = TurnRecorder::new(RecorderLimits::default());
        recorder.push(Timestamp::from_millis(7), Entry::Started("a".into()));
        recorder.push_end(Timestamp::from_millis(9), Entry::Ended);
        let piece = recorder.take_piece(Timestamp::from_millis(12), false).unwrap();
        let read = StoredPiece::from_json(&piece.json).unwrap();
        assert_eq!(read, StoredPiece::Entries(vec![5, 2], vec![Entry::Started("a".into()), Entry::Ended]));
        assert_eq!(recorder.take_piece(Timestamp::from_millis(12), false), Some(piece.clone()));
        recorder.mark_stored(&piece);
        assert_eq!(recorder.take_piece(Timestamp::from_millis(12), true), None);
    }

    #[test]
    fn what_is_stored_for_a_while_is_stored_again_for_good_by_whoever_goes_on() {
        let mut recorder = TurnRecorder::new(RecorderLimits::default());
        let at = Timestamp::from_millis;
        recorder.push(at(1), Entry::Started("a".into()));
        assert_eq!(recorder.take_interim_piece(at(2), false), None, "nothing has ended");
        recorder.push_end(at(2), Entry::Ended);
        let first = recorder.take_interim_piece(at(5), false).unwrap();
        recorder.mark_stored(&first);
        assert_eq!(recorder.take_interim_piece(at(6), false), None);
        recorder.push_end(at(7), Entry::Ended);
        let second = recorder.take_interim_piece(at(8), false).unwrap();
        let all = recorder.take_interim_piece(at(8), true).unwrap();
        recorder.mark_stored(&second);
        let mut other = TurnRecorder::new(RecorderLimits::default());
        other.restore_interim_piece(at(5), &first.json);
        other.restore_interim_piece(at(8), &second.json);
        for recorder in [&mut recorder, &mut other] {
            let piece = recorder.take_piece(at(8), false).unwrap();
            assert_eq!((&piece.json, piece.json.as_str()), (&all.json, r#"[[7,1,5],[{"s":"a"},"e","e"]]"#));
            recorder.mark_stored(&piece);
            assert_eq!(recorder.take_piece(at(9), true), None);
        }
    }

    #[test]
    fn a_run_of_one_node_is_short_where_it_says_no_less() {
        let piece = |records: [(i64, Entry); 3]| {
            let mut recorder = TurnRecorder::new(RecorderLimits::default());
            for (at, entry) in records {
                recorder.push_record(Timestamp::from_millis(at), entry, true);
            }
            recorder.take_piece(Timestamp::from_millis(12), false).unwrap().json
        };
        let (started, node) = (Entry::Started("a".into()), Entry::Node(0, "a".into()));
        let short = piece([(7, started.clone()), (7, node.clone()), (9, Entry::Ended)]);
        assert_eq!(short, r#"["a",5,2]"#);
        assert_eq!(piece([(7, started.clone()), (7, node.clone()), (7, Entry::Ended)]), r#"["a",5]"#);
        let at_once = StoredPiece::from_json(r#"["a",5]"#).unwrap();
        assert_eq!(StoredPiece::OneNode("a".into(), 5, 0), at_once);
        for longer in [
            [(6, started.clone()), (7, node.clone()), (9, Entry::Ended)],
            [(7, started.clone()), (7, Entry::Node(1, "a".into())), (9, Entry::Ended)],
            [(7, Entry::Started("b".into())), (7, node), (9, Entry::Ended)],
        ] {
            assert!(piece(longer).starts_with("[["));
        }
    }
}
