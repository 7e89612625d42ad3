//! Everything that a story shows to other readers than people: requests to the model, calls of tools, outcomes, state,
//! rows.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use singletree_durable::{DocumentStore, FencingToken, Journal, SessionKey, TurnRowQuery, WaitRowQuery};
use singletree_durable::{ItemRange, JsonDocument, TenantId};
use singletree_harness::{ChatTurnOutcome, ErroredTurn};
use singletree_llm::{ChatMessage, Request, canonical_json};
use singletree_test_store::TestStore;

/// One thing that was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Seen {
    /// A request to the model, as canonical JSON.
    Request(String),
    /// A call of a tool, or a pause before a call of the model was made again.
    Deed(String),
    /// How a turn ended: which way it came, and the rest.
    Outcome { path: String, rest: String },
    /// The state of the session: its messages, and the rest.
    State { messages: String, rest: String },
    /// An artifact, or something else that was said about the story.
    Fact(String),
    /// A row of the store.
    Row(String),
}

/// Everything that was seen, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Record(Arc<Mutex<Vec<Seen>>>);

impl Record {
    pub(crate) fn note(&self, seen: Seen) {
        self.0.lock().unwrap().push(seen);
    }

    pub(crate) fn all(&self) -> Vec<Seen> {
        self.0.lock().unwrap().clone()
    }
}

/// Finds the first difference between two records.
pub(crate) fn compare(reference: &[Seen], other: &[Seen]) -> Result<(), String> {
    for (at, (expected, found)) in reference.iter().zip(other).enumerate() {
        if expected != found {
            return Err(format!("difference at {at}:\n  expected {expected:?}\n  found    {found:?}"));
        }
    }
    if reference.len() != other.len() {
        let more = reference.get(other.len()).or_else(|| other.get(reference.len()));
        return Err(format!("{} and {} things were seen: {more:?}", reference.len(), other.len()));
    }
    Ok(())
}

/// Writes a request: everything that a provider would send.
pub(crate) fn request(request: &Request) -> Seen {
    let tools: Vec<Value> =
        request.tools.iter().map(|it| json!([it.name(), it.description(), it.parameters()])).collect();
    let (choice, config) = (format!("{:?}", request.tool_choice), format!("{:?}", request.config));
    let written = json!({ "messages": request.messages, "tools": tools, "choice": choice, "config": config });
    Seen::Request(canonical_json(&written))
}

fn messages(messages: &[Arc<ChatMessage>]) -> Value {
    json!(messages)
}

/// Writes an outcome.
pub(crate) fn outcome(outcome: &ChatTurnOutcome) -> Seen {
    let (path, rest) = match outcome {
        ChatTurnOutcome::Completed(it) => {
            (it.path.as_str(), json!(["completed", it.turn, messages(&it.replies)]))
        }
        ChatTurnOutcome::Suspended(it) => {
            let (signal, wait) = (&it.signal_descriptor, &it.wait);
            let wait = json!([wait.no, wait.action, wait.deadline, wait.payload_schema]);
            let rest = json!([
                "suspended",
                it.turn,
                messages(&it.pending_messages),
                signal.signal_id,
                signal.metadata,
                wait
            ]);
            (it.path.as_str(), rest)
        }
        ChatTurnOutcome::Errored(it) => ("", errored(it)),
    };
    Seen::Outcome { path: path.to_owned(), rest: canonical_json(&rest) }
}

fn errored(it: &ErroredTurn) -> Value {
    json!([
        "errored",
        it.turn,
        it.error_bucket,
        it.error_category,
        it.reply,
        it.diagnostic,
        it.retry_safe,
        it.recorded
    ])
}

/// Reads every row of a session.
pub(crate) async fn rows(store: &TestStore, key: &SessionKey) -> Vec<Seen> {
    let mut rows = Vec::new();
    let mut row = |it: String| rows.push(Seen::Row(it));
    row(format!("{:?}", store.read_session(key).await.unwrap()));
    let turns = store.read_turns(key, &TurnRowQuery::From { no: 0, limit: 10_000 }).await.unwrap();
    let mut invocations: Vec<_> = turns.iter().map(|it| it.invocation.clone()).collect();
    invocations.dedup();
    let fences: BTreeSet<FencingToken> = turns.iter().map(|turn| turn.fence).collect();
    for mut turn in turns {
        // In a database, other sessions and other processes count on from the same number.
        turn.fence = FencingToken(fences.range(..=turn.fence).count() as u64);
        let mut records = store.read_turn_records(key, turn.no).await.unwrap();
        // Records for telemetry hold the times of the run, here and in the bodies of events.
        for record in records.iter_mut().filter(|record| record.name.starts_with("singletree.telemetry.")) {
            record.body = JsonDocument::from_text("[]");
        }
        row(format!("{turn:?} {records:?}"));
    }
    for invocation in invocations {
        let waits = WaitRowQuery::Invocation(key.tenant.clone(), invocation.clone());
        row(format!("{:?}", store.read_waits(&waits).await.unwrap()));
        row(format!("{:?}", store.read_position(key, &invocation).await.unwrap()));
    }
    for item in store.read_items(key, &ItemRange::Numbers { from: 0, to: 10_000 }).await.unwrap() {
        row(format!("{item:?}"));
    }
    for mut event in store.read_events(key, 0, 10_000).await.unwrap() {
        event.body = event.body.map(|body| {
            let mut body: Value = body.decode().unwrap();
            body.as_object_mut().unwrap().remove("t");
            JsonDocument::from(&body)
        });
        row(format!("{event:?}"));
    }
    for artifact in store.read_documents(&TenantId::single(), "artifact", None, 1_000).await.unwrap() {
        row(format!("{artifact:?}"));
    }
    row(format!("{:?}", store.audited_actions()));
    rows
}
