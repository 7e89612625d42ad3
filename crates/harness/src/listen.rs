//! Listening to a session: the log first, then what happens, without a gap and without a repeat (D9).

use std::collections::VecDeque;
use std::sync::Arc;

use futures_core::Stream;
use futures_util::stream::unfold;
use serde_json::Value;
use singletree_durable::{EventRow, ItemRange, Json, SessionId, SessionKey, TurnQuery, TurnRow};
use singletree_engine::Item;
use singletree_llm::ChatMessage;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use crate::chat::Chat;
use crate::event::{ChatEvent, ChatEventKind, EventId, kind};
use crate::hot::{Hot, Listener};
use crate::record::{TurnRowExt, message, read_outcome};
use crate::stored::corrupt;
use crate::turn_id::MessageId;
use crate::{Error, Result, outcome::ChatTurnOutcome};

/// How many events are read from the log at once.
const PAGE: u64 = 128;

/// One listener.
pub(crate) struct Events {
    chat: Chat,
    hot: Arc<Hot>,
    live: Live,
    /// The sequence number of the next durable event to hand out.
    next: u64,
    ready: VecDeque<ChatEvent>,
    /// Whether the log has to be read before what happens is handed out.
    behind: bool,
    failed: bool,
    /// The only turn that is wanted from the log, when only one is.
    turn: Option<u64>,
    /// The last piece of the text so far that was handed out in one: the pieces up to it come again one by one.
    shown: Option<(MessageId, u32, u64)>,
}

/// Where listening begins.
#[derive(Debug, Default)]
pub(crate) struct Begin {
    /// The first event of the log that is wanted.
    pub(crate) next: u64,
    /// The only turn that is wanted, when only one is.
    pub(crate) turn: Option<u64>,
    /// What has been heard since that event, when somebody has listened already.
    pub(crate) live: Option<Live>,
}

/// What one listener hears.
pub(crate) type Live = Receiver<Arc<ChatEvent>>;

impl Events {
    /// Listens from an event of the log on.
    pub(crate) fn open(
        chat: Chat,
        key: SessionKey,
        begin: Begin,
    ) -> impl Stream<Item = Result<ChatEvent>> + Send + use<> {
        let hot = chat.house.hot(&key);
        // Listening begins before the log is read: what happens in between is seen twice and handed out once.
        let Begin { next, turn, live } = begin;
        let behind = live.is_none();
        let live = live.unwrap_or_else(|| hot.feed.listen());
        let events =
            Self { chat, hot, live, next, ready: VecDeque::new(), behind, failed: false, turn, shown: None };
        Box::pin(unfold(events, |mut events| async move { events.next().await.map(|it| (it, events)) }))
    }

    async fn next(&mut self) -> Option<Result<ChatEvent>> {
        loop {
            if self.failed {
                return None;
            }
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            let step = if self.behind { self.catch_up().await } else { self.listen().await };
            match step {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    self.failed = true;
                    return Some(Err(error));
                }
            }
        }
    }

    /// Reads a page of the log.
    async fn catch_up(&mut self) -> Result<bool> {
        let house = &self.chat.house;
        let rows = house.read(house.journal.events(&self.hot.key, self.next, PAGE)).await?;
        self.behind = rows.len() as u64 == PAGE;
        let mut reader = Reader { chat: &self.chat, key: &self.hot.key, turn: None };
        for row in rows {
            self.next = row.seq + 1;
            if self.turn.is_none_or(|it| it == row.turn) {
                self.ready.push_back(reader.event(row).await?);
            }
        }
        if !self.behind {
            // Who comes late gets the text so far in one piece.
            let stream = self.hot.desk().running.as_ref().and_then(|it| it.stream.clone());
            let so_far = stream.and_then(|it| it.so_far());
            if let Some(ChatEventKind::Delta { id, run, n, .. }) = so_far.as_ref().map(|it| &it.what) {
                self.shown = Some((id.clone(), *run, *n));
            }
            self.ready.extend(so_far);
        }
        Ok(true)
    }

    /// Tells whether a piece was part of the text so far.
    fn has_shown(&self, what: &ChatEventKind) -> bool {
        match (what, &self.shown) {
            (ChatEventKind::Delta { id, run, n, .. }, Some((message, in_run, up_to))) => {
                id == message && (run, n) <= (in_run, up_to)
            }
            _ => false,
        }
    }

    /// Waits for what happens next.
    async fn listen(&mut self) -> Result<bool> {
        match self.live.recv().await {
            Ok(event) => {
                match &event.id {
                    None if self.has_shown(&event.what) => {}
                    None => self.ready.push_back(event.as_ref().clone()),
                    Some(id) if id.seq == self.next => {
                        self.next += 1;
                        self.ready.push_back(event.as_ref().clone());
                    }
                    // Seen already, in the log.
                    Some(id) if id.seq < self.next => {}
                    Some(_) => self.behind = true,
                }
                Ok(true)
            }
            Err(RecvError::Lagged(_)) => {
                self.behind = true;
                Ok(true)
            }
            Err(RecvError::Closed) => Ok(false),
        }
    }
}

/// Turns rows back into events.
struct Reader<'a> {
    chat: &'a Chat,
    key: &'a SessionKey,
    turn: Option<TurnRow>,
}

impl Reader<'_> {
    async fn event(&mut self, row: EventRow) -> Result<ChatEvent> {
        let house = &self.chat.house;
        let turn = self.turn(row.turn).await?;
        let id = EventId { epoch: house.epoch.as_ref().to_owned(), seq: row.seq };
        let what = self.what(&row, &turn).await?;
        Ok(ChatEvent { id: Some(id), session: self.key.session.clone(), turn: turn.id(), at: row.at, what })
    }

    async fn turn(&mut self, no: u64) -> Result<TurnRow> {
        // Ended or not, a turn's row says what its events need; an outcome is looked for when one is told.
        if let Some(turn) = self.turn.as_ref().filter(|it| it.no == no && it.outcome.is_some()) {
            return Ok(turn.clone());
        }
        let rows = self.chat.house.read(self.chat.house.journal.turns(self.key, &TurnQuery::No(no))).await?;
        let turn = rows.into_iter().next().ok_or_else(|| corrupt(format!("turn {no} is missing"), None))?;
        self.turn = Some(turn.clone());
        Ok(turn)
    }

    async fn what(&self, row: &EventRow, turn: &TurnRow) -> Result<ChatEventKind> {
        let unreadable = |it: serde_json::Error| corrupt(format!("event {}", row.seq), Some(it.into()));
        let body: Value = row.body.as_ref().map_or(Ok(Value::Null), Json::decode).map_err(unreadable)?;
        let text = |name: &str| body[name].as_str().map(str::to_owned);
        Ok(match row.kind.as_str() {
            kind::ACCEPTED => {
                let message = match row.item {
                    Some(no) => Some(self.item(no).await?.0),
                    None => None,
                };
                ChatEventKind::TurnAccepted { message }
            }
            kind::APPENDED => {
                let no = row.item.ok_or_else(|| corrupt(format!("event {} names no item", row.seq), None))?;
                let (message, side) = self.item(no).await?;
                let id = MessageId { turn: turn.id(), k: body["k"].as_u64().unwrap_or_default() };
                ChatEventKind::MessageAppended { id, message, side }
            }
            kind::SUSPENDED => ChatEventKind::TurnSuspended { outcome: self.outcome(turn).await? },
            kind::COMPLETED => ChatEventKind::TurnCompleted { outcome: self.outcome(turn).await? },
            kind::ERRORED => ChatEventKind::TurnErrored { outcome: self.outcome(turn).await? },
            kind::SIGNAL => ChatEventKind::SignalReceived {
                wait: body["wait"].as_u64().unwrap_or_default(),
                signal: text("signal").unwrap_or_default(),
                how: match body["how"].as_str() {
                    Some("expired") => "expired",
                    Some("cancelled") => "cancelled",
                    Some("refused") => "refused",
                    _ => "consumed",
                },
                from: text("from"),
            },
            kind::FORKED => {
                let parent = SessionId::parse(text("parent").unwrap_or_default());
                let parent = parent.map_err(|it| corrupt("a fork's parent".into(), Some(it.into())))?;
                ChatEventKind::SessionForked { parent, offset: body["offset"].as_u64().unwrap_or_default() }
            }
            other => {
                return Err(corrupt(format!("event {} is of the unknown kind '{other}'", row.seq), None));
            }
        })
    }

    async fn item(&self, no: u64) -> Result<(Arc<ChatMessage>, Option<Value>)> {
        let range = ItemRange::Numbers { from: no, to: no + 1 };
        let rows = self.chat.house.read(self.chat.house.journal.items(self.key, &range)).await?;
        let row = rows.into_iter().next().ok_or_else(|| corrupt(format!("item {no} is missing"), None))?;
        let side = row.side.as_ref().map(Json::decode).transpose();
        let side = side.map_err(|it| corrupt(format!("the side record of item {no}"), Some(it.into())))?;
        Ok((message(&Item::from_text(row.body.as_str()))?, side))
    }

    async fn outcome(&self, turn: &TurnRow) -> Result<Arc<ChatTurnOutcome>> {
        let house = &self.chat.house;
        let outcome = house.limited(read_outcome(house.journal.as_ref(), self.key, turn)).await?;
        outcome.map(Arc::new).ok_or_else(|| corrupt(format!("turn {} has no outcome", turn.no), None))
    }
}

/// A subscription to the outcomes of resumed turns; ends when it is dropped.
#[must_use]
pub struct Subscribed {
    hot: Arc<Hot>,
    id: u64,
}

impl std::fmt::Debug for Subscribed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Subscribed({})", self.hot.key.session)
    }
}

impl Drop for Subscribed {
    fn drop(&mut self) {
        self.hot.desk().listeners.retain(|(id, _)| *id != self.id);
    }
}

impl Chat {
    /// Calls back with the outcome of each turn that resumes a suspended one, exactly once each, until the subscription is
    /// dropped (harness-chat §8.2, D5). The turn that suspended is not told.
    ///
    /// The callback runs in the task of the session and delays its next turn; let it hand over and return.
    ///
    /// # Errors
    /// `harness_session_id_unresolved`.
    pub fn subscribe(
        &self,
        session_id: &str,
        callback: impl Fn(Arc<ChatTurnOutcome>) + Send + Sync + 'static,
    ) -> Result<Subscribed> {
        let hot = self.house.hot(&self.key(session_id)?);
        let callback: Listener = Arc::new(callback);
        let id = {
            let mut desk = hot.desk();
            let id = desk.next_listener;
            desk.next_listener += 1;
            desk.listeners.push((id, callback));
            id
        };
        Ok(Subscribed { hot, id })
    }

    /// Returns the events of a session from after one on, or from the beginning, and then what happens (D9): no gap, no
    /// repeat, across restarts. Deltas and tool activity come only while they happen; who comes late gets the text so far.
    ///
    /// # Errors
    /// `harness_session_id_unresolved`, `chat_events_expired` for an id of another log; in the stream `store_unavailable`
    /// and its kin, as the last item.
    ///
    /// # Cancellation
    /// Dropping the stream changes nothing.
    pub fn events(
        &self,
        session_id: &str,
        after: Option<EventId>,
    ) -> Result<impl Stream<Item = Result<ChatEvent>> + Send + use<>> {
        let key = self.key(session_id)?;
        let next = match after {
            Some(after) if *after.epoch != *self.house.epoch => {
                let oldest = EventId { epoch: self.house.epoch.as_ref().to_owned(), seq: 0 };
                return Err(Error::EventsExpired { oldest: oldest.to_string() });
            }
            after => after.map_or(0, |it| it.seq + 1),
        };
        Ok(Events::open(self.clone(), key, Begin { next, turn: None, live: None }))
    }
}
