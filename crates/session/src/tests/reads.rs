//! All orders in which reads of a session begin and end beside its commits, up to a length: what a session state holds
//! while no commit is on its way is what the store holds. Callers of the runtime do not come in all of these orders
//! today; the state must not rely on that.

use singletree_durable::SessionRow;
use singletree_graph::FieldContent;

use super::*;
use crate::codec::stored::{FieldStorage, StoredField, StoredFields};

/// The steps that a sequence is made of.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// The state is to be read; the rows are those of this moment.
    BeginRead,
    EndRead,
    /// The fields are to be read.
    BeginFields,
    EndFields,
    SendSave,
    /// An early signal is kept.
    SendSignal,
    SendDeletion,
    /// The store takes the oldest commit that it has not.
    Land,
    /// The oldest commit is answered; refused, if the store has not taken it.
    Answer,
}

const STEPS: [Step; 9] = [
    Step::BeginRead,
    Step::EndRead,
    Step::BeginFields,
    Step::EndFields,
    Step::SendSave,
    Step::SendSignal,
    Step::SendDeletion,
    Step::Land,
    Step::Answer,
];

/// A session as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stored {
    /// None, or the version that its newest commit has made, which is also in its field.
    version: Option<u64>,
    /// The number of early signals that are kept.
    signals: u64,
}

const NOTHING: Stored = Stored { version: None, signals: 0 };

struct Sent {
    /// What it requires, and what it makes of it.
    change: (Stored, Stored),
    is_stored: bool,
}

impl Sent {
    fn deletes(&self) -> bool {
        self.change.1 == NOTHING
    }
}

struct Orders {
    state: SessionState<Caller>,
    stored: Stored,
    /// The stored version once everything that was sent has landed.
    expected: Stored,
    next_version: u64,
    sent: Vec<Sent>,
    reading: Option<(u64, Stored)>,
    reading_fields: Option<(u64, Stored)>,
    held_fields: u64,
}

fn fields(stored: Stored) -> StoredFields {
    let field = |version| StoredField {
        name: "field".into(),
        slot: FieldContent::One(Item::from_json(serde_json::json!(version))),
        kept: FieldStorage::Value,
        bytes: version,
    };
    stored.version.map(field).into_iter().collect()
}

fn signals(from: u64, to: u64) -> Vec<EarlySignalRow> {
    (from..to).map(|no| early_signal(&no.to_string(), 0)).collect()
}

fn snapshot(of: Stored) -> SessionSnapshot {
    let counters = Counters::default();
    let row = |version| SessionRow { key: batch([]).key, head: head(version), fields: Vec::new(), counters };
    SessionSnapshot { session: of.version.map(row), mail: signals(0, of.signals), ..stored(None) }
}

impl Orders {
    fn new() -> Self {
        let (mut state, first) =
            (SessionState::new(&Arc::default()), Stored { version: Some(1), signals: 0 });
        state.hold_session(acquired(snapshot(first)), 0, true);
        Self {
            state,
            stored: first,
            expected: first,
            next_version: 2,
            sent: Vec::new(),
            reading: None,
            reading_fields: None,
            held_fields: 0,
        }
    }

    /// Takes a step; returns false where it makes no sense now.
    fn take(&mut self, step: Step) -> bool {
        // A read begins while nothing is on its way, as the runtime does it.
        let may_read = !self.state.has_commits_in_flight();
        match step {
            Step::BeginRead if may_read && self.reading.is_none() => {
                self.reading = Some((self.state.change_count(), self.stored));
            }
            Step::EndRead => {
                let Some((before, seen)) = self.reading.take() else { return false };
                if self.state.load_snapshot(snapshot(seen), before, true) {
                    self.expected = self.stored;
                }
            }
            Step::BeginFields if may_read && self.state.is_known() && self.reading_fields.is_none() => {
                self.reading_fields = Some((self.state.change_count(), self.stored));
            }
            Step::EndFields => {
                let Some((before, seen)) = self.reading_fields.take() else { return false };
                self.state.hold_fields_read(fields(seen), before);
            }
            // A deletion holds the session's turn, and no signal is kept beside it.
            Step::SendSave | Step::SendSignal
                if !self.sent.iter().any(Sent::deletes) && self.sent.len() < 2 =>
            {
                self.send(step);
            }
            Step::SendDeletion if self.sent.is_empty() => self.send(step),
            Step::Land => return self.land(),
            Step::Answer if !self.sent.is_empty() => self.answer(),
            _ => return false,
        }
        true
    }

    fn send(&mut self, step: Step) {
        let required = self.expected;
        let (put, made) = match step {
            Step::SendSignal => {
                let signal = signals(required.signals, required.signals + 1).remove(0);
                (RowMutation::Mail(signal), Stored { signals: required.signals + 1, ..required })
            }
            Step::SendDeletion => (RowMutation::Delete, NOTHING),
            _ => {
                let version = self.next_version;
                (RowMutation::Head(head(version)), Stored { version: Some(version), ..required })
            }
        };
        let counters = self.state.next_numbers();
        assert!(self.state.begin_commit(&batch([put]), counters, true));
        if matches!(step, Step::SendDeletion) {
            self.state.begin_deletion();
        }
        self.expected = made;
        self.next_version += 1;
        self.sent.push(Sent { change: (required, made), is_stored: false });
    }

    fn land(&mut self) -> bool {
        let Some(sent) = self.sent.iter_mut().find(|sent| !sent.is_stored) else { return false };
        let (required, made) = sent.change;
        if required != self.stored {
            return false;
        }
        (sent.is_stored, self.stored) = (true, made);
        true
    }

    fn answer(&mut self) {
        let Sent { change: (required, made), is_stored } = self.sent.remove(0);
        if is_stored {
            let saved = made.version.filter(|version| required.version != Some(*version));
            let session = saved.map(|version| (head(version), Some(fields(made))));
            let invalidates = saved.is_some();
            self.state.commit_landed(LandedChange { invalidates, session, ..LandedChange::default() });
        } else {
            self.state.commit_failed();
            self.expected = self.stored;
        }
        self.state.commit_settled();
    }

    fn check(&mut self, steps: &[Step]) {
        if !self.sent.is_empty() || !self.state.is_known() {
            return;
        }
        let version = self.state.session_head().map(|head| head.version);
        let held = Stored { version, signals: self.state.early_signals().len() as u64 };
        assert_eq!(held, self.stored, "after {steps:?}");
        if let Some(held) = self.state.held_fields() {
            let held = held.first().map(|field| field.bytes);
            assert_eq!(held, self.stored.version, "the fields, after {steps:?}");
            self.held_fields += 1;
        }
    }
}

// INV-3: C3 of docs/findings.md, and every order near it.
#[test]
fn reads_and_commits_in_any_order_leave_what_is_stored() {
    let length = if cfg!(debug_assertions) { 6 } else { 8 };
    let (mut orders, mut held_fields) = (0, 0);
    let mut chosen = vec![0; length];
    loop {
        let steps: Vec<Step> = chosen.iter().map(|at| STEPS[*at]).collect();
        let mut world = Orders::new();
        // Where a step makes no sense, all orders that go on from it are left out.
        let useless = steps.iter().enumerate().find(|(at, step)| {
            let is_useless = !world.take(**step);
            world.check(&steps[..=*at]);
            is_useless
        });
        let last = useless.map_or(length - 1, |(at, _)| at);
        orders += u64::from(useless.is_none());
        held_fields += world.held_fields;
        let Some(at) = (0..=last).rev().find(|at| chosen[*at] + 1 < STEPS.len()) else { break };
        chosen[at] += 1;
        chosen[at + 1..].fill(0);
    }
    assert!(orders > 1_000 && held_fields > 1_000, "{orders} {held_fields}");
}
