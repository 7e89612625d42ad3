//! One session as its clients saw it, beside its stored data.

use std::collections::BTreeMap;

use crate::end::AuditedOutcome;
use crate::history::{ClientOperation, HistoryEvent, HistoryRecord};
use crate::report::AuditReport;
use crate::rule::{AuditRule, RuleViolation};
use crate::stored::{AuditedWaitState, StoredSession, StoredTurn};

/// A call with its answer.
#[derive(Debug)]
pub(super) struct ObservedCall<'a> {
    pub(super) begun: u64,
    pub(super) deed: &'a ClientOperation,
    /// The name of its turn, and when it was known.
    pub(super) given: Option<(&'a str, u64)>,
    /// The answer: which turn, and how it ended.
    pub(super) told: Option<(Option<&'a str>, &'a AuditedOutcome)>,
    /// When it was answered.
    pub(super) over: Option<u64>,
    pub(super) gone: bool,
}

impl<'a> ObservedCall<'a> {
    /// Returns the name of its turn, as far as it was told that it was accepted.
    pub(super) fn accepted_turn(&self) -> Option<&'a str> {
        self.given.map(|(turn, _)| turn)
    }

    /// Checks whether the result of the call is unknown.
    pub(super) fn is_unknown(&self) -> bool {
        self.given.is_none() && self.told.is_none_or(|(turn, _)| turn.is_some())
    }
}

/// One session.
#[derive(Debug)]
pub(super) struct AuditedSession<'a> {
    session: &'a str,
    pub(super) stored: &'a StoredSession,
    pub(super) calls: BTreeMap<u64, ObservedCall<'a>>,
    pub(super) records: &'a [&'a HistoryRecord],
    pub(super) deaths: &'a [u64],
    by_id: BTreeMap<&'a str, &'a StoredTurn>,
    violations: Vec<RuleViolation>,
}

impl<'a> AuditedSession<'a> {
    pub(super) fn new(
        session: &'a str,
        records: &'a [&'a HistoryRecord],
        stored: &'a StoredSession,
        deaths: &'a [u64],
    ) -> Self {
        let by_id = stored.turns.iter().map(|turn| (turn.id.as_str(), turn)).collect();
        let (calls, violations) = (BTreeMap::new(), Vec::new());
        let mut view = Self { session, stored, calls, records, deaths, by_id, violations };
        for record in records {
            view.apply_record(record);
        }
        view
    }

    fn apply_record(&mut self, record: &'a HistoryRecord) {
        let (at, call) = match &record.what {
            HistoryEvent::Call { call, deed } => {
                let (begun, gone) = (record.at, false);
                let made = ObservedCall { begun, deed, given: None, told: None, over: None, gone };
                self.calls.insert(*call, made);
                return;
            }
            HistoryEvent::Event { .. } | HistoryEvent::Effect { .. } | HistoryEvent::Died => return,
            HistoryEvent::Given { call, .. }
            | HistoryEvent::Told { call, .. }
            | HistoryEvent::Done { call }
            | HistoryEvent::Gone { call } => (record.at, *call),
        };
        let Some(made) = self.calls.get_mut(&call) else {
            let why = format!("the log answers call {call}, which it does not make");
            return self.add_violation(AuditRule::Contradicted, why);
        };
        let mut two = None;
        match &record.what {
            HistoryEvent::Given { turn, .. } => made.given = Some((turn, at)),
            HistoryEvent::Told { turn, end, .. } => {
                let turn = turn.as_deref();
                two = made.given.map(|(it, _)| it).filter(|it| Some(*it) != turn).map(|it| (it, turn));
                // A turn whose acceptance was in doubt was not given (D20).
                let doubtful = matches!(end, AuditedOutcome::Errored { recorded: false, .. });
                made.given = made.given.or(turn.filter(|_| !doubtful).map(|turn| (turn, at)));
                (made.told, made.over) = (Some((turn, end)), Some(at));
            }
            HistoryEvent::Gone { .. } => made.gone = true,
            HistoryEvent::Done { .. } => made.over = Some(at),
            HistoryEvent::Call { .. }
            | HistoryEvent::Event { .. }
            | HistoryEvent::Effect { .. }
            | HistoryEvent::Died => {}
        }
        if let Some((given, told)) = two {
            let told = told.unwrap_or("none");
            self.add_violation(
                AuditRule::Contradicted,
                format!("call {call} was given turn {given} and told of turn {told}"),
            );
        }
    }

    pub(super) fn add_violation(&mut self, rule: AuditRule, why: String) {
        // One line, whatever the messages are.
        let why = why.replace(['\n', '\r'], " ");
        self.violations.push(RuleViolation { rule, session: self.session.to_owned(), why });
    }

    pub(super) fn stored_turn(&self, id: &str) -> Option<&'a StoredTurn> {
        self.by_id.get(id).copied()
    }

    /// Checks whether the turn of a call that began at this time may have been deleted since.
    pub(super) fn may_be_deleted(&self, begun: u64) -> bool {
        self.deletion_calls().any(|delete| delete.over.is_none_or(|over| over > begun))
    }

    /// Checks whether a turn that was accepted by this time has been deleted since.
    pub(super) fn is_deleted(&self, given: u64) -> bool {
        self.deletion_calls().any(|delete| delete.over.is_some() && delete.begun > given)
    }

    fn deletion_calls(&self) -> impl Iterator<Item = &ObservedCall<'a>> {
        self.calls.values().filter(|call| *call.deed == ClientOperation::Delete)
    }

    /// Tells whether a wait is pending.
    pub(super) fn has_pending_wait(&self) -> bool {
        self.stored.waits.iter().any(|wait| wait.state == AuditedWaitState::Pending)
    }

    pub(super) fn into_report(self) -> AuditReport {
        let count = |passes: fn(&ObservedCall<'_>) -> bool| {
            self.calls.values().filter(|call| passes(call)).count() as u64
        };
        let effects =
            self.records.iter().filter(|record| matches!(record.what, HistoryEvent::Effect { .. })).count()
                as u64;
        AuditReport {
            sessions: 1,
            calls: self.calls.len() as u64,
            given: count(|it| it.given.is_some()),
            told: count(|it| it.told.is_some()),
            stored: self.stored.turns.len() as u64,
            effects,
            violations: self.violations,
        }
    }
}
