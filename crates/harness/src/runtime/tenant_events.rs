//! Events of a whole tenant: sessions that come and go, waits that begin and end, turns that end.
//!
//! They are for readers that show many sessions at once, such as a list of conversations with a badge. Nothing of it is
//! stored: a reader that was away for long, or whose server was started again, is told that it missed events and reads
//! the lists anew.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use singletree_durable::{Batch, BatchPrecondition, RowMutation, SessionId, TenantId, Timestamp};
use singletree_session::{ChatEvent, ChatEventKind, ChatTurnOutcome, SuspendedTurn, TurnId};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use crate::runtime::notice::PendingWaitSummary;
use crate::{Error, Result};

/// How many events of a tenant are kept for readers that come again, and how far a reader may be behind.
const BACKLOG: usize = 512;

/// For how many tenants events are kept at once. Beyond it, those of a tenant without readers go first.
const TENANTS: usize = 256;

/// How often a tenant is found without a reader, once a second, before it is not followed any more, where several processes
/// write the store: a reader that comes again within that time goes on.
const UNREAD_MAX: u32 = 60;

/// How many characters of an action's arguments a preview has.
const PREVIEW_CHARS: usize = 200;

/// Names a position in the events of a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TenantEventId {
    /// Which series of events: a start of the server begins another one.
    pub series: String,
    /// The sequence number.
    pub seq: u64,
}

impl fmt::Display for TenantEventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.series, self.seq)
    }
}

impl FromStr for TenantEventId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts = text.rsplit_once('.').and_then(|(series, seq)| Some((series, seq.parse().ok()?)));
        let (series, seq) = parts.ok_or_else(|| Error::EventUnknown { event: text.to_owned() })?;
        Ok(Self { series: series.to_owned(), seq })
    }
}

/// One event of a tenant.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveTenantEvent {
    /// Its id.
    pub id: TenantEventId,
    /// When it happened.
    pub at: Timestamp,
    /// The session; none of [`LiveTenantEventKind::Missed`].
    pub session: Option<SessionId>,
    /// Its kind, with the details.
    pub kind: LiveTenantEventKind,
}

/// The kinds of tenant events.
#[derive(Debug, Clone, PartialEq)]
pub enum LiveTenantEventKind {
    /// A session was made.
    SessionCreated {
        /// The agent that answers in it.
        agent: String,
    },
    /// A session was made as a copy of the beginning of another one.
    SessionForked {
        /// The other session.
        parent: SessionId,
        /// How many messages were copied.
        offset: u64,
    },
    /// A session was deleted.
    SessionDeleted,
    /// A turn suspended: its session waits for an answer.
    WaitBegan {
        /// The turn that suspended.
        turn: TurnId,
        /// The signal that it waits for.
        awaited: PendingWaitSummary,
        /// The beginning of the action's arguments as JSON. It is cut to length, so it is no basis for an approval.
        preview: Option<String>,
    },
    /// A wait ended.
    WaitEnded {
        /// The turn that its end started.
        turn: TurnId,
        /// Its number in the session.
        wait: u64,
        /// The signal's id.
        signal: String,
        /// How it ended: `consumed`, `expired` or `cancelled`.
        how: &'static str,
    },
    /// A turn ended.
    TurnEnded {
        /// The turn.
        turn: TurnId,
        /// How: `completed`, `suspended` or `errored`.
        outcome: &'static str,
        /// The category of the error, if it failed.
        category: Option<String>,
    },
    /// Events were lost for this reader, or it cannot be told which it has seen: it should read the lists anew.
    Missed,
}

/// How a batch changes whether its session exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SessionChange {
    Created { agent: String, at: Timestamp },
    Deleted { at: Timestamp },
}

impl SessionChange {
    /// Reads it off a batch. A session that nothing was said in and that only blobs were kept for did not exist.
    pub(crate) fn from_batch(batch: &Batch, at: Timestamp) -> Option<Self> {
        let is_new = batch.requires.contains(&BatchPrecondition::SessionAbsent);
        batch.puts.iter().find_map(|put| match put {
            RowMutation::Head(head) if is_new => Some(Self::Created { agent: head.agent.clone(), at }),
            RowMutation::Audit(row) if row.action == "session.deleted" => Some(Self::Deleted { at }),
            _ => None,
        })
    }
}

/// The event channels of all tenants that have or had readers.
#[derive(Debug, Default)]
pub(crate) struct TenantEventHub {
    /// Held for a moment, never across an await.
    state: Mutex<HubState>,
}

#[derive(Debug, Default)]
struct HubState {
    tenants: HashMap<TenantId, TenantChannel>,
    /// How many channels were made: each has a series of its own.
    made: u64,
}

#[derive(Debug)]
struct TenantChannel {
    series: String,
    next: u64,
    /// The last events, the newest last.
    kept: VecDeque<Arc<LiveTenantEvent>>,
    readers: broadcast::Sender<Arc<LiveTenantEvent>>,
    /// Whether the commits of all processes are read for it; of no meaning where one process writes the store.
    is_followed: bool,
    /// How often it was found without a reader.
    unread: u32,
}

impl TenantChannel {
    fn new(series: String) -> Self {
        let readers = broadcast::Sender::new(BACKLOG);
        Self { series, next: 0, kept: VecDeque::new(), readers, is_followed: false, unread: 0 }
    }

    fn event_id(&self, seq: u64) -> TenantEventId {
        TenantEventId { series: self.series.clone(), seq }
    }

    fn publish_event(&mut self, at: Timestamp, session: Option<&SessionId>, kind: LiveTenantEventKind) {
        let (id, session) = (self.event_id(self.next), session.cloned());
        let event = Arc::new(LiveTenantEvent { id, at, session, kind });
        self.next += 1;
        if self.kept.len() == BACKLOG {
            self.kept.pop_front();
        }
        self.kept.push_back(event.clone());
        // Without readers the send fails, which is no error here.
        drop(self.readers.send(event));
    }

    /// Returns the events after a position; nothing when they are not kept.
    fn events_since(&self, after: &TenantEventId) -> Option<VecDeque<Arc<LiveTenantEvent>>> {
        let oldest = self.next - self.kept.len() as u64;
        let is_kept = after.series == self.series && after.seq < self.next && after.seq + 1 >= oldest;
        is_kept.then(|| self.kept.iter().filter(|item| item.id.seq > after.seq).cloned().collect())
    }
}

impl TenantEventHub {
    fn lock_state(&self) -> MutexGuard<'_, HubState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the readers of a tenant about a commit that has landed.
    pub(crate) fn publish_commit(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        change: Option<SessionChange>,
        events: &[ChatEvent],
    ) {
        if !self.lock_state().tenants.contains_key(tenant) {
            return;
        }
        let told = events.iter().flat_map(|event| {
            LiveTenantEventKind::from_chat_event(event).into_iter().map(|kind| (event.at, kind))
        });
        self.publish_events(tenant, session, change, told.collect());
    }

    /// As [`TenantEventHub::publish_commit`], with the tenant's events instead of the session's.
    pub(crate) fn publish_events(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        change: Option<SessionChange>,
        mut told: Vec<(Timestamp, LiveTenantEventKind)>,
    ) {
        let mut state = self.lock_state();
        let Some(channel) = state.tenants.get_mut(tenant) else { return };
        let is_forked = |(_, kind): &(_, _)| matches!(kind, LiveTenantEventKind::SessionForked { .. });
        let forked = told.iter().position(is_forked).map(|at| told.remove(at).1);
        let made = match change {
            Some(SessionChange::Created { agent, at }) => {
                Some((at, forked.unwrap_or(LiveTenantEventKind::SessionCreated { agent })))
            }
            Some(SessionChange::Deleted { at }) => Some((at, LiveTenantEventKind::SessionDeleted)),
            None => None,
        };
        for (at, kind) in made.into_iter().chain(told) {
            channel.publish_event(at, Some(session), kind);
        }
    }

    /// Returns the tenants that have readers, or had them a short time ago.
    pub(crate) fn followed_tenants(&self) -> BTreeSet<TenantId> {
        self.lock_state().tenants.keys().cloned().collect()
    }

    /// Notes that the commits for a tenant are read from now on. Where they were read before, some may have been missed: its
    /// readers are told.
    pub(crate) fn note_followed(&self, tenant: &TenantId, at: Timestamp) {
        let mut state = self.lock_state();
        let Some(channel) = state.tenants.get_mut(tenant) else { return };
        if std::mem::replace(&mut channel.is_followed, true) {
            channel.publish_event(at, None, LiveTenantEventKind::Missed);
        }
    }

    /// Tells the readers of a tenant that something was missed.
    pub(crate) fn publish_gap(&self, tenant: &TenantId, at: Timestamp) {
        if let Some(channel) = self.lock_state().tenants.get_mut(tenant) {
            channel.publish_event(at, None, LiveTenantEventKind::Missed);
        }
    }

    /// Forgets the tenants that were found without a reader [`UNREAD_MAX`] times in a row. Returns whether any are left.
    pub(crate) fn drop_unread_tenants(&self) -> bool {
        let mut state = self.lock_state();
        state.tenants.retain(|_, channel| {
            channel.unread = if channel.readers.receiver_count() > 0 { 0 } else { channel.unread + 1 };
            channel.unread < UNREAD_MAX
        });
        !state.tenants.is_empty()
    }

    pub(crate) fn open_reader(
        &self,
        tenant: &TenantId,
        prefix: &str,
        after: Option<&TenantEventId>,
        at: Timestamp,
    ) -> TenantEvents {
        let mut state = self.lock_state();
        if !state.tenants.contains_key(tenant) {
            if state.tenants.len() >= TENANTS {
                state.tenants.retain(|_, channel| channel.readers.receiver_count() > 0);
            }
            state.made += 1;
            let series = format!("{prefix}.{}", state.made);
            state.tenants.insert(tenant.clone(), TenantChannel::new(series));
        }
        let channel = state.tenants.get_mut(tenant).expect("it was added");
        channel.unread = 0;
        let live = channel.readers.subscribe();
        let backlog = match after {
            None => VecDeque::new(),
            Some(after) => channel.events_since(after).unwrap_or_else(|| {
                // A series without events has no position yet: with the old one a reader that comes again loses none.
                let id =
                    channel.next.checked_sub(1).map_or_else(|| after.clone(), |seq| channel.event_id(seq));
                let kind = LiveTenantEventKind::Missed;
                VecDeque::from([Arc::new(LiveTenantEvent { id, at, session: None, kind })])
            }),
        };
        TenantEvents { backlog, live, lagged: false }
    }
}

impl LiveTenantEventKind {
    /// Returns its name, as it is sent.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::SessionCreated { .. } => "session.created",
            Self::SessionForked { .. } => "session.forked",
            Self::SessionDeleted => "session.deleted",
            Self::WaitBegan { .. } => "wait.began",
            Self::WaitEnded { .. } => "wait.ended",
            Self::TurnEnded { .. } => "turn.ended",
            Self::Missed => "events.missed",
        }
    }

    /// Returns the events of the tenant that follow from an event of a session.
    pub(crate) fn from_chat_event(event: &ChatEvent) -> Vec<Self> {
        let turn = event.turn.clone();
        if let ChatEventKind::SessionForked { parent, offset } = &event.what {
            return vec![Self::SessionForked { parent: parent.clone(), offset: *offset }];
        }
        if let ChatEventKind::SignalReceived { wait, signal, how, .. } = &event.what {
            let ended = Self::WaitEnded { turn, wait: *wait, signal: signal.clone(), how };
            return if *how == "refused" { Vec::new() } else { vec![ended] };
        }
        let Some(outcome) = event.what.outcome() else { return Vec::new() };
        let (word, category, began) = match outcome.as_ref() {
            ChatTurnOutcome::Completed(_) => return vec![Self::completed_turn(turn)],
            ChatTurnOutcome::Suspended(suspended) => {
                let awaited =
                    PendingWaitSummary::from_descriptor(&suspended.signal_descriptor, &suspended.wait);
                let preview = preview_arguments(suspended);
                ("suspended", None, Some(Self::WaitBegan { turn: turn.clone(), awaited, preview }))
            }
            ChatTurnOutcome::Errored(errored) => ("errored", Some(errored.error_category.clone()), None),
        };
        began.into_iter().chain([Self::TurnEnded { turn, outcome: word, category }]).collect()
    }
}

impl LiveTenantEventKind {
    /// Returns the event of a turn that has completed.
    pub(crate) fn completed_turn(turn: TurnId) -> Self {
        Self::TurnEnded { turn, outcome: "completed", category: None }
    }
}

/// Returns the beginning of the arguments of the action that waits.
fn preview_arguments(suspended: &SuspendedTurn) -> Option<String> {
    let arguments = suspended.signal_descriptor.metadata.as_ref()?.get("arguments")?;
    let text = match arguments {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match text.char_indices().nth(PREVIEW_CHARS) {
        Some((end, _)) => Some(format!("{}…", &text[..end])),
        None => Some(text),
    }
}

/// A reader of the events of a tenant.
#[derive(Debug)]
pub struct TenantEvents {
    backlog: VecDeque<Arc<LiveTenantEvent>>,
    live: broadcast::Receiver<Arc<LiveTenantEvent>>,
    /// Whether the next event comes behind a gap.
    lagged: bool,
}

impl TenantEvents {
    /// Waits for the next event; none once the chat is gone. A reader that is too slow is told by one
    /// [`LiveTenantEventKind::Missed`] that it lost some.
    ///
    /// # Cancellation
    /// Dropping the call loses nothing.
    pub async fn next_event(&mut self) -> Option<Arc<LiveTenantEvent>> {
        loop {
            if let Some(event) = self.backlog.pop_front() {
                return Some(event);
            }
            match self.live.recv().await {
                Ok(event) if self.lagged => {
                    self.lagged = false;
                    let (id, at) =
                        (TenantEventId { seq: event.id.seq.saturating_sub(1), ..event.id.clone() }, event.at);
                    self.backlog.push_back(event);
                    return Some(Arc::new(LiveTenantEvent {
                        id,
                        at,
                        session: None,
                        kind: LiveTenantEventKind::Missed,
                    }));
                }
                Ok(event) => return Some(event),
                Err(RecvError::Lagged(_)) => self.lagged = true,
                Err(RecvError::Closed) => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> SessionId {
        SessionId::parse("s").unwrap()
    }

    fn deleted(hub: &TenantEventHub) {
        let change = SessionChange::Deleted { at: Timestamp::from_millis(1) };
        hub.publish_commit(&TenantId::single(), &session(), Some(change), &[]);
    }

    fn open(hub: &TenantEventHub, after: Option<&TenantEventId>) -> TenantEvents {
        hub.open_reader(&TenantId::single(), "e.1", after, Timestamp::from_millis(2))
    }

    async fn next(events: &mut TenantEvents) -> (u64, &'static str) {
        let event = events.next_event().await.unwrap();
        (event.id.seq, event.kind.as_str())
    }

    #[tokio::test]
    async fn a_reader_that_comes_again_goes_on_and_one_that_cannot_is_told() {
        let hub = TenantEventHub::default();
        deleted(&hub);
        let mut first = open(&hub, None);
        for _ in 0..3 {
            deleted(&hub);
        }
        let id = first.next_event().await.unwrap().id.clone();
        assert_eq!((id.seq, id.to_string().parse::<TenantEventId>().unwrap()), (0, id.clone()));
        drop(first);
        let mut again = open(&hub, Some(&id));
        assert_eq!([next(&mut again).await.0, next(&mut again).await.0], [1, 2]);
        let newer = TenantEventId { seq: 3, ..id.clone() };
        let other = TenantEventId { series: "e.2.1".into(), seq: 0 };
        for unknown in [newer, other] {
            assert_eq!(next(&mut open(&hub, Some(&unknown))).await, (2, "events.missed"));
        }
        for _ in 0..BACKLOG {
            deleted(&hub);
        }
        let mut late = open(&hub, Some(&id));
        assert_eq!(next(&mut late).await, (BACKLOG as u64 + 2, "events.missed"));
        deleted(&hub);
        assert_eq!(next(&mut late).await.0, BACKLOG as u64 + 3);
    }

    #[tokio::test]
    async fn the_first_event_of_a_series_is_not_lost_behind_a_gap() {
        let hub = TenantEventHub::default();
        let other = TenantEventId { series: "e.0.1".into(), seq: 7 };
        let missed = open(&hub, Some(&other)).next_event().await.unwrap();
        deleted(&hub);
        assert_eq!(next(&mut open(&hub, Some(&missed.id))).await, (0, "events.missed"));
        deleted(&hub);
        let first = TenantEventId { series: "e.1.1".into(), seq: 0 };
        assert_eq!(next(&mut open(&hub, Some(&first))).await, (1, "session.deleted"));
    }

    #[tokio::test]
    async fn a_slow_reader_is_told_once_what_it_lost() {
        let hub = TenantEventHub::default();
        let mut events = open(&hub, None);
        for _ in 0..BACKLOG + 2 {
            deleted(&hub);
        }
        assert_eq!(next(&mut events).await, (1, "events.missed"));
        assert_eq!(next(&mut events).await, (2, "session.deleted"));
        assert_eq!(next(&mut events).await, (3, "session.deleted"));
    }

    #[test]
    fn tenants_without_readers_make_room() {
        let hub = TenantEventHub::default();
        let tenant = |n: usize| TenantId::parse(format!("t{n}")).unwrap();
        let stays = hub.open_reader(&tenant(0), "e", None, Timestamp::from_millis(0));
        for n in 1..=TENANTS {
            drop(hub.open_reader(&tenant(n), "e", None, Timestamp::from_millis(0)));
        }
        let state = hub.lock_state();
        assert_eq!(state.tenants.len(), 2);
        assert!(state.tenants.contains_key(&tenant(0)));
        drop((state, stays));
    }
}
