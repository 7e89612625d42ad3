//! Listening to a session: the log first, then live events, without gaps and without repeats (D9).

mod course;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_core::Stream;
use futures_util::stream::unfold;
use singletree_durable::{EventRow, SessionKey, TurnRow, TurnRowQuery};
use singletree_session::{ChatEvent, ChatEventId, TurnId};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use crate::api::chat::Chat;
use crate::api::listen_scope::{ListenPosition, ListenedTurn};
use crate::api::read_ahead::ReadAhead;
use crate::api::replay::EventReplay;
use crate::api::shown_pieces::ShownPieces;
use crate::api::state_so_far::StateSoFar;
use crate::runtime::loaded_session::LoadedSession;
use crate::runtime::readers::ReaderPosition;
use crate::{Error, Result};

/// How many events are read from the log at once.
const PAGE: u64 = 128;

/// After how much silence a listener looks into the log, where other processes may write it.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(1);

/// One listener.
pub(crate) struct EventListener {
    chat: Chat,
    loaded: Arc<LoadedSession>,
    begin: ListenPosition,
    live: LiveEvents,
    /// The sequence number of the next durable event to look at.
    next: u64,
    /// The last durable event that was looked at.
    seen: Option<u64>,
    /// Keeps the log from the first event on that was not handed out.
    bookmark: ReaderPosition,
    /// Whether it is known that nothing is missing where listening begins.
    settled: bool,
    ready: VecDeque<ChatEvent>,
    /// Whether the log has to be read before live events are handed out.
    behind: bool,
    /// How many acquisitions of the session there were when the log was read: its next owner goes on with turns that others
    /// have accepted.
    acquisitions: u64,
    failed: bool,
    /// The only turn that is wanted, when only one is.
    only: Option<ListenedTurn>,
    /// The pieces that were handed out.
    shown: ShownPieces,
    /// The last event of how far a turn is that was handed out. One that was read from memory may come again, as may
    /// those before it.
    announced: Option<ChatEvent>,
    /// The state of the turn that runs, to be handed out when the durable events before it were.
    so_far: Option<StateSoFar>,
    /// The durable events behind which provisional ones may still come.
    read_ahead: ReadAhead,
    /// The last turn that is known to have been open where listening began, or later: its end comes to this listener.
    known_open: Option<TurnId>,
}

/// The live events of one listener.
pub(crate) type LiveEvents = Receiver<Arc<ChatEvent>>;

impl EventListener {
    /// Listens from now on. Events that are committed while the log is read arrive twice and are handed out once.
    ///
    /// # Errors
    /// `chat_subscriptions_full`.
    pub(crate) fn open_at_position(
        chat: Chat,
        loaded: Arc<LoadedSession>,
        begin: ListenPosition,
        only: Option<ListenedTurn>,
    ) -> Result<Self> {
        let live = loaded.feed.subscribe_to_events();
        Self::with_live_events(chat, loaded, (begin, live, true), only)
    }

    /// As [`EventListener::open_at_position`], for a listener that has heard everything since `begin`.
    pub(crate) fn resume_with_events(
        chat: Chat,
        loaded: Arc<LoadedSession>,
        (begin, live): (ListenPosition, LiveEvents),
        only: ListenedTurn,
    ) -> Result<Self> {
        Self::with_live_events(chat, loaded, (begin, live, false), Some(only))
    }

    fn with_live_events(
        chat: Chat,
        loaded: Arc<LoadedSession>,
        (begin, live, behind): (ListenPosition, LiveEvents, bool),
        only: Option<ListenedTurn>,
    ) -> Result<Self> {
        let next = match begin {
            ListenPosition::Oldest => 0,
            ListenPosition::After(seq) => seq.saturating_add(1),
            ListenPosition::At(seq) => seq,
        };
        let max = chat.inner.limits.subscriptions;
        let bookmark = loaded.readers.add_reader(next, max).ok_or(Error::SubscriptionsFull { max })?;
        let acquisitions = loaded.feed.acquired_log().count;
        let read_ahead = ReadAhead::new(chat.inner.limits.feed_backlog);
        Ok(Self {
            chat,
            loaded,
            begin,
            live,
            next,
            seen: None,
            bookmark,
            settled: false,
            ready: VecDeque::new(),
            behind,
            acquisitions,
            failed: false,
            only,
            shown: ShownPieces::default(),
            announced: None,
            so_far: None,
            read_ahead,
            known_open: None,
        })
    }

    /// Returns the events as a stream.
    pub(crate) fn into_stream(self) -> impl Stream<Item = Result<ChatEvent>> + Send + use<> {
        Box::pin(unfold(
            self,
            |mut events| async move { events.next_event().await.map(|event| (event, events)) },
        ))
    }

    async fn next_event(&mut self) -> Option<Result<ChatEvent>> {
        loop {
            if self.failed {
                return None;
            }
            if let Some(event) = self.ready.pop_front() {
                if let Some(id) = &event.id {
                    self.bookmark.move_to_event(id.seq + 1);
                }
                return Some(Ok(event));
            }
            let step = match self.so_far.take_if(|state| state.after <= self.next) {
                Some(state) => self.hand_out_state(state).await,
                None if self.behind => self.read_log_page().await,
                None => self.receive_live_event().await,
            };
            if let Err(error) = step {
                self.failed = true;
                return Some(Err(error));
            }
        }
    }

    /// Makes sure that no event is missing where listening begins. From then on the bookmark keeps later events from
    /// removal.
    pub(crate) async fn ensure_no_gap(&mut self) -> Result<()> {
        if self.settled {
            return Ok(());
        }
        let loaded = self.loaded.clone();
        // Whatever is being forgotten right now was chosen before this listener came.
        let _kept = loaded.forgetting.read().await;
        match self.seen.map_or(self.begin, ListenPosition::After) {
            ListenPosition::Oldest => {
                if let Some(no) = self.only.as_ref().and_then(|only| only.no) {
                    let numbers = self
                        .chat
                        .inner
                        .await_store_read(self.chat.inner.journal.read_counters(&loaded.key))
                        .await?;
                    self.next = self
                        .chat
                        .find_first_event(&loaded.key, numbers.events, no)
                        .await?
                        .unwrap_or(self.next);
                }
            }
            ListenPosition::At(seq) => {
                if !self.chat.has_logged_event(&loaded, seq).await? {
                    return Err(self.chat.events_expired_error(&loaded).await?);
                }
            }
            ListenPosition::After(seq) => {
                if !self.chat.has_logged_event(&loaded, seq).await? {
                    self.chat.check_events_after(&loaded, seq).await?;
                }
            }
        }
        self.settled = true;
        Ok(())
    }

    /// Reads a page of the log.
    async fn read_log_page(&mut self) -> Result<()> {
        self.so_far = None;
        self.acquisitions = self.loaded.feed.acquired_log().count;
        let (chat, loaded) = (self.chat.clone(), self.loaded.clone());
        let inner = &chat.inner;
        // Another process may have deleted the session, and this one holds the next session of its name.
        if inner.journal.has_other_writers()
            && let Some(seen) = self.seen
            && !chat.has_logged_event(&loaded, seen).await?
        {
            return Err(self.deleted_error());
        }
        self.ensure_no_gap().await?;
        let rows = inner.await_store_read(inner.journal.read_events(&loaded.key, self.next, PAGE)).await?;
        self.behind = rows.len() as u64 == PAGE;
        self.replay_rows(rows).await?;
        if self.behind {
            return Ok(());
        }
        if let Some(only) = self.only.as_ref().filter(|only| !only.begun) {
            if only.over {
                return Err(chat.events_expired_error(&loaded).await?);
            }
            // It begins with an event of the log: it was deleted, with its session, before this listener saw any of it.
            self.ensure_turn_exists(only).await?;
        }
        // Who comes late gets the text so far in one piece.
        let Some(stream) = loaded.running_stream() else { return Ok(()) };
        if self.read_course_before(stream.turn_id()).await? {
            return Ok(());
        }
        let state = StateSoFar::take(&loaded.feed, &stream);
        if self.was_acquired_anew() {
            self.behind = true;
            return Ok(());
        }
        self.so_far = Some(state);
        Ok(())
    }

    /// Hands out the state of the turn that runs.
    async fn hand_out_state(&mut self, state: StateSoFar) -> Result<()> {
        let activity = state.activity.filter(|event| self.announced.as_ref() != Some(event));
        let shown = state.taken.into_iter().chain(state.thinking).chain(state.text);
        for event in activity.into_iter().chain(shown) {
            if !self.read_ahead.has_overtaken(&event) && self.shown.take_event(&event) {
                self.push_wanted_event(event).await?;
            }
        }
        Ok(())
    }

    /// Hands out those events of the log that are wanted; when they are too large, the rest of the log is left for later.
    async fn replay_rows(&mut self, rows: Vec<EventRow>) -> Result<()> {
        let (chat, loaded) = (self.chat.clone(), self.loaded.clone());
        let mut replay = EventReplay::new(&chat, &loaded.key);
        for row in rows {
            // Ready events stay in memory until they are taken; the rest of the log is read after that.
            if replay.message_bytes() >= chat.inner.limits.page_bytes {
                self.behind = true;
                break;
            }
            let (seq, turn) = (row.seq, row.turn);
            if self.only.as_ref().and_then(|only| only.no).is_none_or(|value| value == turn) {
                let event = replay.replay_event(row).await?;
                self.read_ahead.note_event(&event);
                self.push_wanted_event(event).await?;
            }
            self.mark_event_seen(seq);
        }
        Ok(())
    }

    /// Notes that a durable event was looked at.
    fn mark_event_seen(&mut self, seq: u64) {
        self.next = seq + 1;
        self.seen = Some(seq);
        if self.ready.is_empty() {
            self.bookmark.move_to_event(self.next);
        }
    }

    /// Hands out an event, if it is wanted.
    async fn push_wanted_event(&mut self, event: ChatEvent) -> Result<()> {
        if event.id.is_some() {
            self.known_open = Some(event.turn.clone());
        }
        if let Some(only) = self.only.as_mut() {
            if only.id != event.turn {
                return Ok(());
            }
            let begins = event.what.begins_turn();
            if event.id.is_some() && !begins && !only.begun {
                // Its beginning is not kept any more.
                return Err(self.chat.events_expired_error(&self.loaded).await?);
            }
            only.begun |= begins;
        }
        if event.what.is_activity() {
            self.announced = Some(event.clone());
        }
        self.ready.push_back(event);
        Ok(())
    }

    /// Takes a provisional event; true when it is not to be handed out: it was part of the state so far that a late listener
    /// was given, was overtaken by the log, or is a piece behind others that were missed.
    fn is_out_of_place(&mut self, event: &ChatEvent) -> bool {
        if self.read_ahead.has_overtaken(event) {
            return true;
        }
        if !event.what.is_activity() {
            return !self.shown.take_event(event);
        }
        let coming = self.so_far.as_ref().and_then(|state| state.activity.as_ref());
        let told = coming.or(self.announced.as_ref()).filter(|told| told.turn == event.turn);
        told.is_some_and(|told| event.at < told.at || event == told)
    }

    /// Waits for the next live event. Where other processes may write the log, it is looked at when nothing is heard for a
    /// while: the session may be another process's by now.
    async fn receive_live_event(&mut self) -> Result<()> {
        let received = if self.chat.inner.journal.has_other_writers() {
            let timer = self.chat.inner.env.timer.clone();
            match timer.run_with_timeout(LOOK_EVERY, self.live.recv()).await {
                Ok(received) => received,
                // A store that cannot be read now is looked at again.
                Err(_) => match self.look_into_log().await {
                    Err(error) if error.is_unavailable() => return Ok(()),
                    looked => return looked,
                },
            }
        } else {
            self.live.recv().await
        };
        match received {
            Ok(_) if self.was_acquired_anew() => self.behind = true,
            Ok(event) => match &event.id {
                None if self.may_have_ended_before(&event.turn).await? || self.is_out_of_place(&event) => {}
                None => self.push_wanted_event(event.as_ref().clone()).await?,
                Some(id) if id.seq == self.next => {
                    // The live events before it are behind this listener, but not a state that it has taken.
                    if self.so_far.is_none() {
                        self.read_ahead.clear();
                    }
                    self.read_ahead.note_event(&event);
                    self.push_wanted_event(event.as_ref().clone()).await?;
                    self.mark_event_seen(id.seq);
                }
                // Seen already, in the log.
                Some(id) if id.seq < self.next => {}
                Some(_) => self.behind = true,
            },
            Err(RecvError::Lagged(_)) => self.behind = true,
            Err(RecvError::Closed) => return self.handle_session_deletion().await,
        }
        Ok(())
    }

    /// Tells whether this process has acquired the session since the log was read, and others have written it before.
    fn was_acquired_anew(&self) -> bool {
        let acquired = self.loaded.feed.acquired_log();
        acquired.count != self.acquisitions && acquired.end > self.next
    }

    /// Reads what another process may have written. The last event that was seen is read again: when it is not there, the
    /// session was deleted.
    async fn look_into_log(&mut self) -> Result<()> {
        let (chat, loaded) = (self.chat.clone(), self.loaded.clone());
        let inner = &chat.inner;
        let from = self.seen.unwrap_or(self.next);
        let rows = inner.await_store_read(inner.journal.read_events(&loaded.key, from, PAGE)).await?;
        if self.seen.is_some_and(|seen| rows.first().is_none_or(|row| row.seq != seen)) {
            return self.handle_session_deletion().await;
        }
        if let Some(only) = self.only.as_ref().filter(|_| rows.is_empty()) {
            return self.ensure_turn_exists(only).await;
        }
        self.behind = rows.len() as u64 == PAGE;
        let new = rows.into_iter().filter(|row| self.seen.is_none_or(|seen| row.seq > seen));
        self.replay_rows(new.collect()).await
    }

    /// Handles the deletion of the session. A listener that has seen none of its events, or only events of its
    /// successor, continues with the next session of this name; any other listener gets an error.
    async fn handle_session_deletion(&mut self) -> Result<()> {
        let seen = match (self.seen, self.begin) {
            (Some(seq), _) | (None, ListenPosition::After(seq)) => Some(seq),
            (None, ListenPosition::Oldest | ListenPosition::At(_)) => None,
        };
        if let Some(seq) = seen
            && !self.chat.has_logged_event(&self.loaded, seq).await?
        {
            return Err(self.deleted_error());
        }
        self.live = self.loaded.feed.subscribe_to_events();
        self.behind = true;
        match &self.only {
            Some(only) => self.ensure_turn_exists(only).await,
            None => Ok(()),
        }
    }

    async fn read_turn_row(&self, turn: &TurnId) -> Result<Option<TurnRow>> {
        let (inner, query) = (&self.chat.inner, TurnRowQuery::Invocation(turn.invocation.clone()));
        let rows = inner.await_store_read(inner.journal.read_turns(&self.loaded.key, &query)).await?;
        Ok(rows.into_iter().find(|row| row.ordinal == turn.ordinal))
    }

    /// Checks that the turn that is wanted was not deleted with its session: no session of the same name has it, so that
    /// nothing would ever be heard of it.
    async fn ensure_turn_exists(&self, only: &ListenedTurn) -> Result<()> {
        match self.read_turn_row(&only.id).await? {
            Some(_) => Ok(()),
            None => Err(self.deleted_error()),
        }
    }

    fn deleted_error(&self) -> Error {
        Error::SessionUnknown { session: self.loaded.key.session.to_string() }
    }
}

impl Chat {
    /// Finds the number of the first event of a turn, before an event. None when it is not kept.
    pub(crate) async fn find_first_event(
        &self,
        key: &SessionKey,
        before: u64,
        turn: u64,
    ) -> Result<Option<u64>> {
        let first = self.inner.find_first_event(key, before, turn).await?;
        Ok(first.map(|first| first.seq))
    }

    /// Tells whether the log holds an event.
    async fn has_logged_event(&self, loaded: &LoadedSession, seq: u64) -> Result<bool> {
        let rows = self.inner.await_store_read(self.inner.journal.read_events(&loaded.key, seq, 1)).await?;
        Ok(rows.first().is_some_and(|rows| rows.seq == seq))
    }

    /// Checks that the events after an event, which is itself not kept, are kept.
    async fn check_events_after(&self, loaded: &LoadedSession, seq: u64) -> Result<()> {
        let id = |seq| ChatEventId { epoch: self.inner.epoch.as_ref().to_owned(), seq };
        self.inner.ensure_loaded(loaded).await?;
        if seq >= loaded.lock_state().next_numbers().events {
            return Err(Error::EventUnknown { event: id(seq).to_string() });
        }
        let oldest = self.find_oldest_event(loaded).await?;
        if seq.saturating_add(1) < oldest.seq {
            return Err(Error::EventsExpired { oldest: oldest.to_string() });
        }
        Ok(())
    }

    async fn events_expired_error(&self, loaded: &LoadedSession) -> Result<Error> {
        Ok(Error::EventsExpired { oldest: self.find_oldest_event(loaded).await?.to_string() })
    }

    /// Returns the id of the oldest event that is kept, or of the next one when none is.
    pub(crate) async fn find_oldest_event(&self, loaded: &LoadedSession) -> Result<ChatEventId> {
        let rows = self.inner.await_store_read(self.inner.journal.read_events(&loaded.key, 0, 1)).await?;
        let seq = match rows.first() {
            Some(row) => row.seq,
            None => {
                self.inner.ensure_loaded(loaded).await?;
                loaded.lock_state().next_numbers().events
            }
        };
        Ok(ChatEventId { epoch: self.inner.epoch.as_ref().to_owned(), seq })
    }
}
