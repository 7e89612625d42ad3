//! Reading the records of a turn back into events.

use std::collections::HashMap;
use std::sync::Arc;

use singletree_engine::{
    AttemptEnd, AttemptPhase, ContainerConfig, Descriptor, EventError, GraphEvent, Identity,
    InvocationChange, InvocationEvent, LlmAttemptEvent, LlmCall, LlmFailure, LlmRequestRecord, NodeEvent,
    Snapshot, StateSchema, ToolCallEvent, ToolCallFailedEvent, ToolExecution, UnitChange, UnitEvent,
};
use singletree_env::Timestamp;
use singletree_llm::RetryReason;

use super::convert::{container_config, end_of_call, llm_output, prompt, runtime_config};
use super::entry::{CallPlace, EndEntry, Entry, LlmEntry, LlmOutputEntry, StoredPiece, ToolEntry};
use super::place::StoredPlace;
use super::texts::{ConversationTexts, ReferredMessages, TextFinder};

/// A piece as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnPiece {
    /// The time of the commit that stored it.
    pub at: Timestamp,
    /// The piece, as JSON.
    pub json: String,
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredTurnEnding {
    /// At the end of its graph.
    Completed,
    /// It waits for this signal.
    Suspended(String),
    /// With an error of this category.
    Failed(String),
}

/// The stored records of one turn, with data of the turn's row.
#[derive(Debug, Clone)]
pub struct StoredTurn {
    /// Who the invocation is.
    pub identity: Arc<Identity>,
    /// The display name of the invocation: the name of the agent.
    pub label: Option<Arc<str>>,
    /// Whether the turn goes on with an invocation that waited.
    pub resumed: bool,
    /// The pieces, in the order of their commits.
    pub pieces: Vec<TurnPiece>,
    /// When and how the turn ended, once it has.
    pub ending: Option<(Timestamp, StoredTurnEnding)>,
    /// The texts of its calls, where they are wanted.
    pub texts: Option<ConversationTexts>,
}

impl StoredTurn {
    /// Returns the events that the records are of.
    ///
    /// A node or inner run that one process began and, after its death, another one began again has one start event, the
    /// earlier one. A piece that cannot be read is left out.
    #[must_use]
    pub fn to_events(&self) -> Vec<GraphEvent> {
        let entries = self.read_entries();
        let last_attempts = find_last_attempts(&entries);
        let schema = Arc::new(StateSchema::new("stored", Vec::new()));
        // A state without fields needs no values.
        let Ok(no_state) = Snapshot::from_defaults_with(&schema, Vec::new()) else { return Vec::new() };
        let mut decoder = EntryDecoder {
            turn: self,
            last_attempts,
            no_state,
            events: Vec::new(),
            is_started: false,
            open: Vec::new(),
            carried: Vec::new(),
            next_number: 0,
            call_starts: HashMap::new(),
            has_failed_node: false,
            texts: self.texts.as_ref().map(|texts| TextFinder::new(texts, entries.iter().map(|(_, it)| it))),
        };
        for (index, (at, entry)) in entries.iter().enumerate() {
            decoder.add_entry(index, *at, entry);
        }
        decoder.add_ending();
        decoder.events
    }

    /// Returns which messages of the conversation the records refer to.
    #[must_use]
    pub fn referred_messages(&self) -> ReferredMessages {
        ReferredMessages::of_entries(self.read_entries().iter().map(|(_, entry)| entry))
    }

    /// Returns a piece which says only that the turn began, at the time of the piece; `node` is the name of the entry
    /// node.
    #[must_use]
    pub fn piece_of_start(node: &str) -> String {
        let piece = StoredPiece::Entries(vec![0], vec![Entry::Started(node.to_owned())]);
        // A number and a name: there is nothing in it that JSON cannot say.
        serde_json::to_string(&piece).unwrap_or_default()
    }

    /// Returns how many events were left out because the turn had too many.
    #[must_use]
    pub fn left_out_count(&self) -> u64 {
        let count = |(_, entry): (Timestamp, Entry)| match entry {
            Entry::LeftOut(count) => count,
            _ => 0,
        };
        // Hardly a turn has such an entry, and most pieces need not be read for it.
        let told = self.pieces.iter().filter(|piece| piece.json.contains("{\"x\":"));
        told.flat_map(|piece| read_piece(piece.at, &piece.json)).map(count).sum()
    }

    fn read_entries(&self) -> Vec<(Timestamp, Entry)> {
        self.pieces.iter().flat_map(|piece| read_piece(piece.at, &piece.json)).collect()
    }
}

/// Returns the entries of the piece of a commit at this time, with their times; none when it cannot be read.
pub(crate) fn read_piece(at: Timestamp, piece: &str) -> Vec<(Timestamp, Entry)> {
    let (deltas, stored) = match StoredPiece::from_json(piece) {
        Ok(StoredPiece::Entries(deltas, stored)) => (deltas, stored),
        Ok(StoredPiece::OneNode(name, before, took)) => {
            let node = Entry::Node(0, name.clone());
            (vec![before, 0, took], vec![Entry::Started(name), node, Entry::Ended])
        }
        Err(_) => return Vec::new(),
    };
    let mut at = at.as_millis();
    let timed = deltas.into_iter().zip(stored).enumerate().map(|(index, (delta, entry))| {
        at = if index == 0 { at.saturating_sub(delta) } else { at.saturating_add(delta) };
        (Timestamp::from_millis(at), entry)
    });
    timed.collect()
}

/// Returns the index of the last attempt of each model call.
fn find_last_attempts(entries: &[(Timestamp, Entry)]) -> HashMap<String, usize> {
    let attempt = |(index, (_, entry)): (usize, &(Timestamp, Entry))| match entry {
        Entry::Llm(llm) => Some((llm.id.clone(), index)),
        _ => None,
    };
    entries.iter().enumerate().filter_map(attempt).collect()
}

/// Something that has begun.
#[derive(Clone)]
struct OpenPlace {
    number: u32,
    place: StoredPlace,
    container: Option<ContainerConfig>,
    is_unit: bool,
}

struct EntryDecoder<'a> {
    turn: &'a StoredTurn,
    last_attempts: HashMap<String, usize>,
    no_state: Snapshot,
    events: Vec<GraphEvent>,
    is_started: bool,
    open: Vec<OpenPlace>,
    /// Nodes and inner runs that a dead process had begun, and that have not begun again yet.
    carried: Vec<OpenPlace>,
    next_number: u32,
    /// When each model call began.
    call_starts: HashMap<String, Timestamp>,
    has_failed_node: bool,
    texts: Option<TextFinder<'a>>,
}

impl EntryDecoder<'_> {
    fn add_entry(&mut self, index: usize, at: Timestamp, entry: &Entry) {
        match entry {
            Entry::Started(node) => self.add_start(at, node),
            Entry::Node(step, name) => self.open(at, StoredPlace::of_outermost_node(name, *step), None, None),
            Entry::NodeAt(node) => {
                let container = node.container.as_ref().map(|it| container_config(it, &node.place));
                self.open(at, node.place.clone(), container, None);
            }
            Entry::Unit(unit) => {
                let change = UnitChange::Entered {
                    graph_name: unit.graph_name.as_deref().map(Into::into),
                    entry_node: unit.entry_node.as_deref().map(Into::into),
                };
                self.open(at, unit.place.clone(), None, Some(change));
            }
            Entry::Ended => self.close(at, &EndEntry::default()),
            Entry::EndedAt(end) => self.close(at, end),
            Entry::Llm(llm) => self.add_llm(index, at, llm),
            Entry::Tool(tool) => self.add_tool(at, tool),
            Entry::LeftOut(_) => {}
        }
    }

    fn add_start(&mut self, at: Timestamp, node: &str) {
        self.carried.append(&mut self.open);
        self.next_number = 0;
        if std::mem::replace(&mut self.is_started, true) {
            return;
        }
        let change = InvocationChange::Started {
            entry_node: node.into(),
            label: self.turn.label.clone(),
            resumed: self.turn.resumed,
            state: None,
        };
        self.push_invocation(at, change);
    }

    fn push_invocation(&mut self, at: Timestamp, change: InvocationChange) {
        self.events.push(GraphEvent::Invocation(InvocationEvent {
            identity: self.turn.identity.clone(),
            at,
            caller_invocation_metadata: None,
            change,
        }));
    }

    fn open(
        &mut self,
        at: Timestamp,
        place: StoredPlace,
        container: Option<ContainerConfig>,
        unit: Option<UnitChange>,
    ) {
        let opened = OpenPlace { number: self.next_number, place, container, is_unit: unit.is_some() };
        self.next_number += 1;
        self.open.push(opened.clone());
        let same = |other: &OpenPlace| other.is_unit == opened.is_unit && other.place == opened.place;
        if let Some(index) = self.carried.iter().position(same) {
            self.carried.remove(index);
            return;
        }
        self.events.push(match unit {
            Some(change) => self.unit_event(at, &opened.place, change),
            None => self.node_event(at, &opened, AttemptPhase::Started, (None, None)),
        });
    }

    fn close(&mut self, at: Timestamp, end: &EndEntry) {
        let index = match end.of {
            None => self.open.len().checked_sub(1),
            Some(number) => self.open.iter().position(|open| open.number == number),
        };
        let Some(index) = index else { return };
        let closed = self.open.remove(index);
        let error = end.error.as_ref().map(|error| EventError {
            category: error.0.clone().into(),
            derived_category: error.1.clone().unwrap_or_else(|| error.0.clone()),
            message: String::new(),
        });
        if closed.is_unit {
            let change = error.map_or(UnitChange::Completed, UnitChange::Failed);
            self.events.push(self.unit_event(at, &closed.place, change));
            return;
        }
        self.has_failed_node |= error.is_some();
        let (phase, how) = match (&end.signal, error) {
            (Some(signal), _) => (AttemptPhase::Suspended, (None, Some(signal.clone()))),
            (None, Some(error)) => (AttemptPhase::Completed, (Some(AttemptEnd::Failed(error)), None)),
            (None, None) => {
                (AttemptPhase::Completed, (Some(AttemptEnd::Merged(self.no_state.clone())), None))
            }
        };
        self.events.push(self.node_event(at, &closed, phase, how));
    }

    fn node_event(
        &self,
        at: Timestamp,
        open: &OpenPlace,
        phase: AttemptPhase,
        (end, signal): (Option<AttemptEnd>, Option<String>),
    ) -> GraphEvent {
        GraphEvent::Node(NodeEvent {
            identity: self.turn.identity.clone(),
            at,
            phase,
            node_name: open.place.node_name(),
            namespace: open.place.namespace.clone().into(),
            step: open.place.step.unwrap_or_default(),
            pre_state: self.no_state.clone(),
            end,
            descriptor: signal.map(|signal_id| Descriptor { signal_id, metadata: None }),
            parent_states: Arc::new([]),
            attempt_index: open.place.attempt,
            lineage: open.place.node_lineage(),
            container: open.container.clone(),
            caller_invocation_metadata: None,
        })
    }

    fn unit_event(&self, at: Timestamp, place: &StoredPlace, change: UnitChange) -> GraphEvent {
        GraphEvent::Unit(UnitEvent {
            identity: self.turn.identity.clone(),
            at,
            node_name: place.node_name(),
            namespace: place.namespace.clone().into(),
            lineage: place.node_lineage(),
            attempt_index: place.attempt,
            step: place.step.unwrap_or_default(),
            caller_invocation_metadata: None,
            change,
        })
    }

    /// Returns the place at which a call was made.
    fn place_of_call(&self, call: CallPlace<'_>) -> StoredPlace {
        let open = match call.of {
            None => self.open.last(),
            Some(number) => self.open.iter().find(|open| open.number == number),
        };
        let place = call.place.cloned().or_else(|| open.map(|open| open.place.clone()));
        // A damaged piece: the call is put below the invocation.
        place.unwrap_or_else(|| StoredPlace::of_outermost_node("", 0))
    }

    fn name_call(&self, call: CallPlace<'_>) -> Arc<str> {
        format!("{}:{}", self.turn.identity.invocation_id, call.id).into()
    }

    fn add_llm(&mut self, index: usize, at: Timestamp, entry: &LlmEntry) {
        let source = self.place_of_call(entry.call()).to_source(&self.turn.identity);
        let request = LlmRequestRecord::without_messages(
            runtime_config(&entry.params),
            entry.prompt.as_deref().map(prompt),
        );
        let messages = self.texts.as_ref().map(|texts| texts.request_messages(entry)).unwrap_or_default();
        let request = request.with_messages(messages);
        let (system, model) = (entry.system.as_str().into(), entry.model.as_str().into());
        let name = self.name_call(entry.call());
        let call = Arc::new(LlmCall::from_record(source, (system, model), name, request.clone()));
        let started_at = Timestamp::from_millis(at.as_millis().saturating_sub(entry.took));
        let began = *self.call_starts.entry(entry.id.clone()).or_insert(started_at);
        let mut output = entry.output.as_ref().map(llm_output);
        let answer = self.texts.as_mut().and_then(|texts| texts.find_answer(index, entry));
        if let Some((output, (text, calls))) = output.as_mut().zip(answer) {
            output.output_content = Some(text).filter(|text| !text.is_empty());
            output.output_tool_calls = Some(calls).filter(|calls| !calls.is_empty());
        }
        let outcome = match &entry.error {
            Some(error) => Err(Arc::new(LlmFailure {
                error_category: error.0.clone().into(),
                error_type: error.1.clone(),
                error_message: String::new(),
                output,
            })),
            // An attempt has failed or has an answer.
            None => Ok(Arc::new(output.unwrap_or_else(|| llm_output(&LlmOutputEntry::of_nothing())))),
        };
        let reason = match (entry.attempt, entry.is_reask) {
            (0, _) => None,
            (_, true) => Some(RetryReason::Reask),
            (_, false) => Some(RetryReason::Transient),
        };
        self.events.push(GraphEvent::LlmAttempt(LlmAttemptEvent {
            call: call.clone(),
            request: Arc::new(request),
            llm_attempt_index: entry.attempt,
            retry_reason: reason,
            started_at,
            at,
            latency_ms: None,
            caller_invocation_metadata: None,
            outcome: outcome.clone(),
        }));
        if self.last_attempts.get(&entry.id) == Some(&index) {
            self.events.push(end_of_call(call, (began, at), outcome));
        }
    }

    fn add_tool(&mut self, at: Timestamp, entry: &ToolEntry) {
        let place = self.place_of_call(entry.call());
        // A tool of another loop than the conversation's has its calls elsewhere.
        let texts = self.texts.as_ref().filter(|_| place.is_in_outermost_graph());
        let (arguments, result) = texts.map(|texts| texts.find_tool_call(entry)).unwrap_or_default();
        let execution = Arc::new(ToolExecution {
            source: place.to_source(&self.turn.identity),
            call_id: self.name_call(entry.call()),
            tool_name: entry.name.clone(),
            tool_call_id: entry.tool_call_id.clone(),
            arguments,
        });
        let started_at = Timestamp::from_millis(at.as_millis().saturating_sub(entry.took));
        self.events.push(if entry.is_failed {
            GraphEvent::ToolCallFailed(ToolCallFailedEvent {
                execution,
                started_at,
                at,
                latency_ms: None,
                caller_invocation_metadata: None,
                error_type: entry.error_type.clone(),
                error_message: String::new(),
            })
        } else {
            GraphEvent::ToolCall(ToolCallEvent {
                execution,
                started_at,
                at,
                latency_ms: None,
                caller_invocation_metadata: None,
                result: result.unwrap_or_default(),
            })
        });
    }

    /// Ends the invocation as the turn ended. The nodes that wait are those that had not ended when that was recorded.
    fn add_ending(&mut self) {
        let Some((at, ending)) = &self.turn.ending else { return };
        if !self.is_started {
            return;
        }
        let change = match ending {
            StoredTurnEnding::Completed => InvocationChange::Completed(self.no_state.clone()),
            StoredTurnEnding::Suspended(signal) => {
                self.carried.clear();
                while let Some(open) = self.open.last() {
                    if open.is_unit {
                        // An inner run has no end of its own then.
                        self.open.pop();
                        continue;
                    }
                    let end = EndEntry { signal: Some(signal.clone()), ..EndEntry::default() };
                    self.close(*at, &end);
                }
                InvocationChange::Suspended(Descriptor { signal_id: signal.clone(), metadata: None })
            }
            StoredTurnEnding::Failed(category) => InvocationChange::Failed {
                error: EventError {
                    category: category.clone().into(),
                    derived_category: category.clone(),
                    message: String::new(),
                },
                at_boundary: !self.has_failed_node,
                state: None,
            },
        };
        self.push_invocation(*at, change);
    }
}
