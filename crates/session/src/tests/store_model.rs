//! A plain model of a store: it checks the preconditions of a batch, takes all of its rows or none, and asserts what
//! must hold of them whatever happens.

use std::collections::{BTreeMap, BTreeSet};

use singletree_durable::{BatchPrecondition, EarlySignalRow};

use super::*;

/// The rows of one session that are not history. Turns that have ended are forgotten, so that a step costs the same
/// however long the run is.
#[derive(Debug, Default)]
pub(super) struct StoreModel {
    pub(super) head: Option<SessionHead>,
    pub(super) numbers: Counters,
    pub(super) open: BTreeMap<u64, TurnRow>,
    pub(super) pending: Option<WaitRow>,
    pub(super) mail: Vec<EarlySignalRow>,
    /// The number of turns that have ended, by their status.
    pub(super) ended: BTreeMap<String, u64>,
}

impl StoreModel {
    /// Takes a batch, or refuses it whole.
    pub(super) fn apply(&mut self, batch: &Batch) -> bool {
        let is_made = batch.puts.iter().any(|put| matches!(put, RowMutation::Head(_)));
        let is_there = self.head.is_some() || is_made;
        let writes_turn = batch.puts.iter().any(|put| matches!(put, RowMutation::Turn(_)));
        if !batch.requires.iter().all(|require| self.holds(require)) || (writes_turn && !is_there) {
            return false;
        }
        let mut consumed = BTreeSet::new();
        for put in &batch.puts {
            match put {
                RowMutation::Head(head) => self.head = Some(head.clone()),
                RowMutation::Counters(numbers) => self.numbers = self.numbers.max(*numbers),
                RowMutation::Turn(row) => self.write_turn(row),
                RowMutation::Wait(row) => self.write_wait(row, &mut consumed),
                RowMutation::Mail(row) => {
                    self.mail.retain(|kept| kept.signal != row.signal);
                    self.mail.push(row.clone());
                }
                RowMutation::DropMail(signal) => self.mail.retain(|kept| kept.signal != *signal),
                RowMutation::Delete => {
                    assert!(self.open.is_empty(), "a deletion loses turns: {:?}", self.open);
                    (self.head, self.pending) = (None, None);
                    self.mail.clear();
                }
                _ => {}
            }
        }
        self.check_suspension(batch);
        true
    }

    fn holds(&self, require: &BatchPrecondition) -> bool {
        match require {
            BatchPrecondition::SessionAbsent => self.head.is_none(),
            BatchPrecondition::SessionVersion(version) => {
                self.head.as_ref().is_some_and(|head| head.version == *version)
            }
            BatchPrecondition::Turn { no, status } => {
                self.open.get(no).is_some_and(|row| row.status == *status)
            }
            BatchPrecondition::Wait { no, .. } => {
                self.pending.as_ref().is_some_and(|pending| pending.no == *no)
            }
            BatchPrecondition::MailAbsent(signal) => self.mail.iter().all(|kept| kept.signal != *signal),
            BatchPrecondition::KeyFree(_) => true,
            other => panic!("{other:?} is not modelled"),
        }
    }

    /// INV-2: a turn's number is given once, and its outcome is written once.
    fn write_turn(&mut self, row: &TurnRow) {
        let is_new = !self.open.contains_key(&row.no);
        assert!(!is_new || row.no < self.numbers.turns + 64, "the numbers run away: {row:?}");
        if row.status == StoredTurnStatus::Accepted {
            assert!(row.outcome.is_none());
            self.open.insert(row.no, row.clone());
            return;
        }
        assert!(row.outcome.is_some() && row.ended_at.is_some(), "{row:?}");
        assert!(!is_new || row.kind == StoredTurnKind::Close, "a turn ends that was not open: {row:?}");
        self.open.remove(&row.no);
        *self.ended.entry(format!("{:?}", row.status)).or_default() += 1;
    }

    /// INV-7: a wait begins while none is pending, and ends once.
    fn write_wait(&mut self, row: &WaitRow, consumed: &mut BTreeSet<u64>) {
        assert!(consumed.insert(row.no), "wait {} is written twice", row.no);
        if row.status == StoredWaitStatus::Pending {
            assert!(self.pending.is_none(), "{row:?} begins beside {:?}", self.pending);
            self.pending = Some(row.clone());
            return;
        }
        assert!(row.ended_by.is_some() && row.ended_at.is_some(), "{row:?}");
        match self.pending.take() {
            Some(pending) => assert_eq!(pending.no, row.no, "another wait ends"),
            // An early signal has ended it in the commit that begins it.
            None => assert_eq!(row.status, StoredWaitStatus::Consumed, "{row:?}"),
        }
    }

    /// INV-8: a suspended invocation has a pending wait or a turn that resumes it.
    fn check_suspension(&self, batch: &Batch) {
        let suspended = batch.puts.iter().find_map(|put| match put {
            RowMutation::Turn(row) if row.status == StoredTurnStatus::Suspended => Some(row),
            _ => None,
        });
        if let Some(row) = suspended {
            let waits = self.pending.as_ref().is_some_and(|wait| wait.invocation == row.invocation);
            let resumes = self
                .open
                .values()
                .any(|open| open.kind == StoredTurnKind::Resume && open.invocation == row.invocation);
            assert!(waits != resumes, "{row:?} is in limbo");
        }
    }

    /// Returns everything that a process reads when it loads the session.
    pub(super) fn snapshot(&self) -> SessionSnapshot {
        let row = |head: &SessionHead| singletree_durable::SessionRow {
            key: batch([]).key,
            head: head.clone(),
            fields: Vec::new(),
            counters: self.numbers,
        };
        SessionSnapshot {
            session: self.head.as_ref().map(row),
            numbers: self.numbers,
            pending: self.pending.iter().cloned().collect(),
            mail: self.mail.clone(),
            open: self.open.values().cloned().collect(),
            paused: None,
        }
    }
}
