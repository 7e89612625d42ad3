//! A correct history: the answers that clients received in one session, and the stored data of that session.

use serde_json::json;
use singletree_audit::{
    AuditReport, AuditedOutcome, AuditedTurnKind, AuditedWaitState, ClientOperation, HistoryEvent,
    HistoryRecord, StoredEvent, StoredMessage, StoredSession, StoredTurn, StoredWait, audit_sessions,
};
use singletree_llm::Role;

/// The clients' log and the stored data of one session.
pub(crate) struct Case {
    pub(crate) log: Vec<HistoryRecord>,
    pub(crate) stored: StoredSession,
}

impl Case {
    pub(crate) fn note(&mut self, what: HistoryEvent) {
        let at = self.log.len() as u64;
        self.log.push(HistoryRecord { at, session: "s".into(), what });
    }

    pub(crate) fn call(&mut self, call: u64, deed: ClientOperation) {
        self.note(HistoryEvent::Call { call, deed });
    }

    pub(crate) fn given(&mut self, call: u64, turn: &str) {
        self.note(HistoryEvent::Given { call, turn: turn.into() });
    }

    pub(crate) fn told(&mut self, call: u64, turn: &str) {
        let stored = self.stored.turns.iter().find(|it| it.id == turn).unwrap();
        let end = stored.end.clone().unwrap();
        self.note(HistoryEvent::Told { call, turn: Some(turn.into()), end });
    }

    pub(crate) fn audit(&self) -> AuditReport {
        audit_sessions(&self.log, std::slice::from_ref(&self.stored))
    }

    pub(crate) fn record(&mut self, passes: impl Fn(&HistoryEvent) -> bool) -> &mut HistoryRecord {
        self.log.iter_mut().find(|it| passes(&it.what)).unwrap()
    }

    /// Forgets the answers to a call.
    pub(crate) fn unanswer(&mut self, of: u64) {
        self.log.retain(
            |it| !matches!(&it.what, HistoryEvent::Given { call, .. } | HistoryEvent::Told { call, .. } if *call == of),
        );
    }

    pub(crate) fn turn(&mut self, id: &str) -> &mut StoredTurn {
        self.stored.turns.iter_mut().find(|it| it.id == id).unwrap()
    }

    /// Removes everything that is stored of a turn.
    pub(crate) fn forget(&mut self, id: &str) {
        let no = self.turn(id).no;
        self.stored.turns.retain(|it| it.no != no);
        self.stored.messages.retain(|it| it.turn != Some(no));
        self.stored.events.retain(|it| it.turn != no);
    }
}

pub(crate) fn send(text: &str, key: Option<&str>) -> ClientOperation {
    ClientOperation::Send { text: text.into(), key: key.map(Into::into) }
}

pub(crate) fn completed(replies: &[&str]) -> AuditedOutcome {
    AuditedOutcome::Completed { replies: replies.iter().map(|it| (*it).to_owned()).collect() }
}

pub(crate) fn errored(category: &str) -> AuditedOutcome {
    AuditedOutcome::Errored { category: category.into(), retry_safe: false, recorded: true }
}

pub(crate) fn turn(no: u64, id: &str, text: Option<&str>, end: AuditedOutcome) -> StoredTurn {
    let invocation = id.split('.').next().unwrap().to_owned();
    let (sort, wait) =
        if text.is_some() { (AuditedTurnKind::Message, None) } else { (AuditedTurnKind::Resume, Some(0)) };
    StoredTurn {
        no,
        id: id.into(),
        invocation,
        sort,
        text: text.map(Into::into),
        over_history: false,
        wait,
        end: Some(end),
    }
}

pub(crate) fn message(turn: u64, brief: &str) -> StoredMessage {
    let (role, own) = match brief.split_once(':').unwrap().0 {
        "user" => (Role::User, true),
        "tool" => (Role::Tool, false),
        _ => (Role::Assistant, false),
    };
    let (calls, answers) = (Vec::new(), None);
    StoredMessage { turn: Some(turn), own, taken_by: None, role, brief: brief.into(), calls, answers }
}

/// Returns the stored data that matches [`good`].
pub(crate) fn stored() -> StoredSession {
    let suspended =
        AuditedOutcome::Suspended { signal: "ok".into(), wait: 0, pending: vec!["assistant:ask".into()] };
    let turns = vec![
        turn(0, "a", Some("m1"), completed(&["assistant:r1"])),
        turn(1, "b", Some("m2"), completed(&["assistant:r2"])),
        turn(2, "c", Some("m3"), completed(&["assistant:r3"])),
        turn(3, "d", Some("m4"), suspended),
        turn(4, "d.1", None, completed(&["assistant:done"])),
        turn(5, "e", Some("m5"), errored("chat_turn_cancelled")),
    ];
    let call = StoredMessage { calls: vec!["c1".into()], ..message(5, "assistant: (c1)") };
    let closed = StoredMessage { answers: Some("c1".into()), ..message(5, "tool:{} (for c1)") };
    let messages = [
        (0, "user:m1"),
        (0, "assistant:r1"),
        (1, "user:m2"),
        (1, "assistant:r2"),
        (2, "user:m3"),
        (2, "assistant:r3"),
        (3, "user:m4"),
        (3, "assistant:ask"),
        (4, "assistant:done"),
        (5, "user:m5"),
    ];
    let messages = messages.map(|(turn, brief)| message(turn, brief)).into_iter().chain([call, closed]);
    let ends = ["completed", "completed", "completed", "suspended", "completed", "errored"];
    let events =
        (0..).zip(ends).map(|(no, end)| StoredEvent { seq: no, turn: no, kind: format!("turn.{end}") });
    StoredSession {
        session: "s".into(),
        turns,
        messages: messages.collect(),
        inherited: 0,
        waits: vec![StoredWait {
            no: 0,
            invocation: "d".into(),
            signal: "ok".into(),
            state: AuditedWaitState::Consumed,
            ended_by: Some(4),
            answer: Some(json!({ "approved": true })),
            by: None,
        }],
        events: events.collect(),
    }
}

/// Two plain turns at once, a keyed one that was sent twice, one that suspends and is answered twice, one with a tool
/// that is cancelled, and one that was refused.
pub(crate) fn good() -> Case {
    let mut case = Case { log: Vec::new(), stored: stored() };
    case.call(0, send("m2", None));
    case.call(1, send("m1", None));
    case.given(0, "b");
    case.told(1, "a");
    case.told(0, "b");
    case.call(2, send("m3", Some("k")));
    case.note(HistoryEvent::Gone { call: 2 });
    case.note(HistoryEvent::Effect { key: "x".into() });
    case.note(HistoryEvent::Died);
    case.note(HistoryEvent::Effect { key: "x".into() });
    case.call(3, send("m3", Some("k")));
    case.told(3, "c");
    case.call(4, send("m4", None));
    case.given(4, "d");
    case.told(4, "d");
    for call in [5, 6] {
        let payload = json!({ "approved": true });
        case.call(call, ClientOperation::Answer { signal: "ok".into(), payload });
    }
    case.given(6, "d.1");
    case.told(5, "d.1");
    case.told(6, "d.1");
    case.call(7, send("m5", None));
    case.given(7, "e");
    case.call(8, ClientOperation::Cancel { turn: "e".into() });
    case.told(8, "e");
    case.told(7, "e");
    case.call(9, send("m6", None));
    case.note(HistoryEvent::Told { call: 9, turn: None, end: errored("chat_queue_full") });
    case.note(HistoryEvent::Event { seq: 3, turn: "d".into(), kind: "turn.suspended".into() });
    case
}
