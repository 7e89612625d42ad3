//! The rules of a commit: what every batch has to require for the rows that it writes, and which rows go together,
//! whatever the batch is for.
//!
//! Within one process the lease and the order of writes keep most requirements from ever refusing a batch, so that no
//! outcome shows when one is left out. These rules look at each batch as it arrives at the data.

use futures_util::FutureExt;
use singletree_durable::{
    Batch, BatchPrecondition, Counters, EarlySignalRow, Error, Journal, MemoryStore, Result, RowMutation,
    StoredTurnStatus, StoredWaitStatus, TurnRow, WaitRow,
};

use crate::plant::BatchRequirements;

/// How the memory store says that a batch needs a session.
const NO_SESSION: &str = "the session exists";

/// Returns the rules that a batch breaks, one line each. To be called before the batch is applied.
pub(super) fn find_broken_rules(batch: &Batch, data: &MemoryStore) -> Vec<String> {
    // The memory store has its answer at once.
    let Some(Ok(counters)) = data.read_counters(&batch.key).now_or_never() else { return Vec::new() };
    let kept = data.read_early_signals(&batch.key).now_or_never().and_then(Result::ok).unwrap_or_default();
    let rules = CommitRules { batch, counters, kept };
    let mut missing: Vec<String> =
        batch.puts.iter().filter_map(|put| rules.find_missing_requirement(put)).collect();
    missing.extend(rules.find_uncounted_numbers());
    missing.extend(rules.find_missing_effects());
    missing
}

/// Returns why a batch was refused that no writer can mean: not for one of its requirements, and not because the commit
/// failed that was to make its session.
pub(super) fn find_malformed_batch(batch: &BatchRequirements, answer: &Result<()>) -> Option<String> {
    let Err(Error::Refused { requirement }) = answer else { return None };
    let is_required = batch.requires().iter().any(|require| format!("{require:?}") == *requirement);
    let makes_session = batch.requires().contains(&BatchPrecondition::SessionAbsent);
    let is_meant = is_required || (requirement == NO_SESSION && !makes_session);
    (!is_meant)
        .then(|| format!("commit {}: no batch may be refused for this: {requirement}", batch.purpose()))
}

struct CommitRules<'a> {
    batch: &'a Batch,
    /// The next free numbers before it: rows of lower numbers are stored, or were.
    counters: Counters,
    /// The early signals that are kept before it.
    kept: Vec<EarlySignalRow>,
}

impl CommitRules<'_> {
    fn find_missing_requirement(&self, put: &RowMutation) -> Option<String> {
        let (has_it, row, wanted) = match put {
            RowMutation::Head(_) | RowMutation::Field(_) | RowMutation::DropField(_) => (
                self.requires_session(),
                "the session's state".to_owned(),
                "its version, or that there is none",
            ),
            RowMutation::Inherit { from, .. } => {
                let has_it = self.requires(
                    |require| matches!(require, BatchPrecondition::Source { session, .. } if session == from),
                );
                (has_it, format!("items of session {from}"), "its creation time and version")
            }
            RowMutation::Turn(row) => return self.find_missing_turn_requirement(row),
            RowMutation::Wait(row) if row.no >= self.counters.waits => {
                (self.requires_turn(row.turn), format!("wait {}", row.no), "the status of its turn")
            }
            RowMutation::Wait(row) => {
                let has_it = self.requires(|require| {
                    *require == BatchPrecondition::Wait { no: row.no, status: StoredWaitStatus::Pending }
                });
                (has_it, format!("the end of wait {}", row.no), "that it is pending")
            }
            RowMutation::Record(row) => (
                self.requires_turn(row.turn),
                format!("a record of turn {}", row.turn),
                "the status of the turn",
            ),
            RowMutation::DropRecords { turn } => {
                (self.requires_turn(*turn), format!("the end of the records of turn {turn}"), "its status")
            }
            RowMutation::Position(row) => (
                self.requires_turn(row.turn),
                format!("the position of turn {}", row.turn),
                "the status of the turn",
            ),
            RowMutation::FreeKey { turn } => {
                let wanted = BatchPrecondition::Turn { no: *turn, status: StoredTurnStatus::Errored };
                (
                    self.requires(|require| *require == wanted),
                    format!("the key of turn {turn}"),
                    "that it failed",
                )
            }
            RowMutation::Mail(row) => {
                // One that is sent again is written again as it is; one that is too old is replaced.
                let is_replaced = self.batch.puts.contains(&RowMutation::DropMail(row.signal.clone()))
                    || self.kept.contains(row);
                let wanted = BatchPrecondition::MailAbsent(row.signal.clone());
                let has_it = is_replaced || self.requires(|require| *require == wanted);
                (has_it, format!("early signal {}", row.signal), "that none is kept")
            }
            _ => return None,
        };
        (!has_it).then(|| self.describe(&format!("{row}, without requiring {wanted}")))
    }

    /// A turn that is stored was read before: its status is required, or that of the wait which it ends. A new one takes
    /// its key from nobody, and repeats another only while nothing came after that.
    fn find_missing_turn_requirement(&self, row: &TurnRow) -> Option<String> {
        let wanted = if row.no < self.counters.turns {
            (!self.requires_turn(row.no)).then_some("its status")
        } else if row.key.as_ref().is_some_and(|key| !self.makes_key_free(key)) {
            Some("that its key is free")
        } else if row.retries.is_some_and(|retried| !self.requires_retry(retried)) {
            Some("that the turn which it repeats failed and is the newest")
        } else if row.wait.is_some_and(|wait| !self.ends_wait(wait)) {
            Some("that the wait which it answers is pending")
        } else {
            None
        };
        wanted.map(|wanted| self.describe(&format!("turn {}, without requiring {wanted}", row.no)))
    }

    fn makes_key_free(&self, key: &str) -> bool {
        self.requires(|require| matches!(require, BatchPrecondition::KeyFree(free) if free == key))
            || self.batch.puts.iter().any(|put| matches!(put, RowMutation::FreeKey { .. }))
    }

    fn requires_retry(&self, retried: u64) -> bool {
        self.requires(|require| *require == BatchPrecondition::NewestTurn(retried))
            && self.requires(|require| {
                *require == BatchPrecondition::Turn { no: retried, status: StoredTurnStatus::Errored }
            })
    }

    fn ends_wait(&self, wait: u64) -> bool {
        self.batch.puts.iter().any(|put| matches!(put, RowMutation::Wait(row) if row.no == wait))
    }

    /// Tells whether the turn is new in this batch, or its status is required.
    fn requires_turn(&self, wanted: u64) -> bool {
        self.requires(|require| matches!(require, BatchPrecondition::Turn { no, .. } if *no == wanted))
            || self
                .batch
                .puts
                .iter()
                .any(|put| matches!(put, RowMutation::Turn(row) if row.no == wanted && row.wait.is_some()))
    }

    fn requires_session(&self) -> bool {
        self.requires(|require| {
            matches!(require, BatchPrecondition::SessionVersion(_) | BatchPrecondition::SessionAbsent)
        })
    }

    fn requires(&self, is_wanted: impl Fn(&BatchPrecondition) -> bool) -> bool {
        self.batch.requires.iter().any(is_wanted)
    }

    /// Finds numbers that would be given again: they are not below the session's counters when the batch has landed.
    fn find_uncounted_numbers(&self) -> Option<String> {
        let counted = self.batch.puts.iter().fold(self.counters, |counted, put| match put {
            RowMutation::Counters(counters) => counted.max(*counters),
            _ => counted,
        });
        let used =
            self.batch.puts.iter().fold(Counters::default(), |used, put| used.max(count_numbers_of(put)));
        (used.max(counted) != counted).then(|| {
            self.describe(&format!("numbers below {used:?} are used, and the counters are {counted:?}"))
        })
    }

    /// Finds rows that a batch has or that go with others: the version rises with the state, a deletion is recorded, a
    /// signal that is taken is kept no longer, and a fork has the field of the items that it copies and says where they
    /// come from.
    fn find_missing_effects(&self) -> Vec<String> {
        let mut missing = Vec::new();
        if self.batch.puts.is_empty() {
            missing.push(self.describe("nothing is written"));
        }
        let has = |is_wanted: fn(&RowMutation) -> bool| self.batch.puts.iter().any(is_wanted);
        let writes_state = has(|put| matches!(put, RowMutation::Field(_) | RowMutation::DropField(_)));
        if writes_state && !has(|put| matches!(put, RowMutation::Head(_))) {
            missing.push(self.describe("the state is written, and its version does not rise"));
        }
        let is_of_nobody = self.requires(|require| *require == BatchPrecondition::SessionAbsent);
        let deletes = has(|put| matches!(put, RowMutation::Delete)) && !is_of_nobody;
        if deletes && !has(|put| matches!(put, RowMutation::Audit(_))) {
            missing.push(self.describe("a session is deleted without an audit row"));
        }
        for put in &self.batch.puts {
            if let RowMutation::Wait(row) = put
                && self.is_taken_signal(row)
                && !self.batch.puts.contains(&RowMutation::DropMail(row.signal.clone()))
            {
                missing.push(self.describe(&format!("wait {} takes an early signal, which stays", row.no)));
            }
            let RowMutation::Inherit { field, len, .. } = put else { continue };
            if !has(|put| matches!(put, RowMutation::Event(_))) {
                missing.push(self.describe("a session is forked without an event"));
            }
            let is_field = |put: &RowMutation| matches!(put, RowMutation::Field(row) if row.name == *field);
            if *len > 0 && !self.batch.puts.iter().any(is_field) {
                missing
                    .push(self.describe(&format!("items of list {field:?} are copied, without the field")));
            }
        }
        missing
    }

    /// Tells whether a wait begins with the batch and is ended at once by a signal that is kept.
    fn is_taken_signal(&self, row: &WaitRow) -> bool {
        let is_new = row.no >= self.counters.waits && row.status == StoredWaitStatus::Consumed;
        is_new && self.kept.iter().any(|kept| kept.signal == row.signal)
    }

    fn describe(&self, what: &str) -> String {
        format!("commit in {}/{}: {what}", self.batch.key.tenant, self.batch.key.session)
    }
}

/// Returns the lowest counters that are above the numbers of a row.
fn count_numbers_of(put: &RowMutation) -> Counters {
    let none = Counters::default();
    match put {
        RowMutation::Turn(row) => Counters { turns: row.no + 1, ..none },
        RowMutation::Item(row) => Counters { items: row.no + 1, ..none },
        RowMutation::Event(row) => Counters { events: row.seq + 1, ..none },
        RowMutation::Wait(row) => Counters { waits: row.no + 1, ..none },
        _ => none,
    }
}
