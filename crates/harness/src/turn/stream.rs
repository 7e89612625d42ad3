//! Output that a node of a chat graph may show while it works: deltas of a message, tool activity.
//!
//! Everything here is provisional: a view for people. The record is the value that the node returns. Losing this output
//! does no harm, since no decision reads it (compare INV-9). Only the code that ends a cancelled turn reads the shown
//! text (D10).

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use singletree_durable::{SessionId, Timestamp};
use singletree_engine::Clock;
use singletree_session::{
    ChatEvent, ChatEventKind, HistoryMarks, MessageId, OfferedMessage, SideRecords, TurnId, TurnRowExt,
    build_taken_side,
};

use crate::runtime::feed::EventBroadcast;
use crate::turn::activity_events::{ActivityEvents, TurnActivity};

/// The stream of one running turn. Nodes get it from their [`TurnContext`](crate::TurnContext).
#[derive(Clone)]
pub struct TurnStream(Arc<TurnStreamInner>);

struct TurnStreamInner {
    session: SessionId,
    turn: TurnId,
    /// How often the turn was run before; a piece of a higher run takes back those of a lower one.
    runs_before: u32,
    feed: EventBroadcast,
    clock: Arc<dyn Clock>,
    shown_bytes: usize,
    /// The side records that the nodes set for the messages that they make.
    sides: SideRecords,
    /// Guards the shown output; held for a moment, never across an await.
    shown: Mutex<ShownContent>,
}

/// The shown part of the message in progress.
#[derive(Debug, Clone, Default)]
struct ShownContent {
    /// The list position of the first message that the turn adds.
    first: u64,
    /// The list position of the first one after the user's own.
    boundary: u64,
    /// Before which list position all messages are recorded.
    recorded: u64,
    /// The messages that steer which the turn has taken since then, as they were told.
    taken: Vec<ChatEventKind>,
    message: Option<MessageInProgress>,
    attempts: u32,
    announced: ActivityEvents,
}

#[derive(Debug, Clone)]
struct MessageInProgress {
    position: u64,
    run: u32,
    next: u64,
    text: String,
    /// Whether more came than may be shown.
    is_full: bool,
    thinking: ShownThinking,
    /// Its side record when it began.
    side: Option<Value>,
    /// How many messages were before it that were not recorded.
    unrecorded: u64,
}

/// The part of a model's thinking that was shown.
#[derive(Debug, Clone, Default)]
struct ShownThinking {
    next: u64,
    text: String,
    /// Whether more came than may be shown.
    is_full: bool,
}

/// One message on its way.
#[derive(Debug)]
pub struct MessageStream<'a> {
    stream: &'a TurnStream,
    position: u64,
    run: u32,
}

impl TurnStream {
    pub(crate) fn new(
        session: SessionId,
        turn: TurnId,
        runs_before: u32,
        (feed, shown_bytes, sides): (EventBroadcast, usize, SideRecords),
        clock: Arc<dyn Clock>,
    ) -> Self {
        let shown = Mutex::default();
        // A run whose lease was lost may have the same number as this one: an orderly stop between them counts as no death.
        let runs_before = runs_before.max(if runs_before > 0 { feed.last_run_of_turn(&turn) } else { 0 });
        Self(Arc::new(TurnStreamInner { session, turn, runs_before, feed, clock, shown_bytes, sides, shown }))
    }

    fn lock_shown(&self) -> std::sync::MutexGuard<'_, ShownContent> {
        self.0.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets where the turn's messages stand.
    pub(crate) fn set_history_marks(&self, marks: HistoryMarks) {
        let mut shown = self.lock_shown();
        (shown.first, shown.boundary) = (marks.first, marks.boundary);
        shown.recorded = marks.announced.max(marks.boundary);
    }

    /// Returns where the first message stands that comes after the user's own.
    pub(crate) fn reply_boundary(&self) -> u64 {
        self.lock_shown().boundary
    }

    /// Returns the turn.
    #[must_use]
    pub fn turn_id(&self) -> &TurnId {
        &self.0.turn
    }

    /// Starts to show the message that will stand at this list position. Starting again at the same position takes back
    /// the text that was shown of it. Values that [`SideRecords::set_side_value`] has set for the message by now, such as its
    /// agent, are shown with each piece.
    #[must_use]
    pub fn begin_message(&self, position: u64) -> MessageStream<'_> {
        let side = self.0.sides.side_record_at(position);
        let mut shown = self.lock_shown();
        let again = shown.message.as_ref().is_some_and(|message| message.position == position);
        shown.attempts = if again { shown.attempts + 1 } else { 1 };
        let run = self.0.runs_before + shown.attempts;
        let unrecorded = position.saturating_sub(shown.recorded).saturating_sub(shown.taken.len() as u64);
        let (next, text, is_full, thinking) = (0, String::new(), false, ShownThinking::default());
        shown.message =
            Some(MessageInProgress { position, run, next, text, is_full, thinking, side, unrecorded });
        drop(shown);
        MessageStream { stream: self, position, run }
    }

    /// Tells that the turn runs from now on.
    pub(crate) fn show_turn_start(&self) {
        let restarts = self.0.runs_before > 0;
        self.publish_activity(if restarts {
            ChatEventKind::TurnRestarted
        } else {
            ChatEventKind::TurnStarted
        });
    }

    /// Shows that a call of the model failed and is made again after a wait: `attempt` is the number of the one that
    /// follows, counted from 1, so 2 at the first retry.
    pub fn show_retry_wait(&self, attempt: u32, wait: Duration, category: &str) {
        let now = self.0.clock.now();
        let until = now.saturating_add(wait);
        self.publish_activity(ChatEventKind::TurnRetrying { attempt, until, category: category.to_owned() });
    }

    /// Shows that the attempt begins that [`TurnStream::show_retry_wait`] announced.
    pub fn show_retry_start(&self) {
        let now = self.0.clock.now();
        self.lock_shown().announced.note_attempt_begun(now);
    }

    fn publish_activity(&self, what: ChatEventKind) {
        let mut shown = self.lock_shown();
        let event = self.build_event(what);
        shown.announced.note_event(&event);
        // Under the lock, so that the state that a late listener is given does not contradict the events that follow.
        self.0.feed.publish_event(event);
    }

    /// Returns the last event of the turn's activity.
    pub(crate) fn last_activity_event(&self) -> Option<ChatEvent> {
        self.lock_shown().announced.last_event().cloned()
    }

    pub(crate) fn current_activity(&self) -> Option<TurnActivity> {
        self.lock_shown().announced.current_activity()
    }

    /// Shows that a tool starts.
    pub fn show_tool_start(&self, call: &str, name: &str, arguments: Value) {
        self.publish_event(ChatEventKind::ToolStarted { call: call.into(), name: name.into(), arguments });
    }

    /// Shows that a tool has ended.
    pub fn show_tool_end(&self, call: &str, name: &str, success: bool, content: &str) {
        let (call, name, content) = (call.into(), name.into(), content.into());
        self.publish_event(ChatEventKind::ToolFinished { call, name, success, content });
    }

    /// Returns the position and the shown text of the message in progress.
    pub(crate) fn message_in_progress(&self) -> Option<(u64, String)> {
        self.lock_shown().message.as_ref().map(|message| (message.position, message.text.clone()))
    }

    /// Returns one event with the text so far, for a listener that came late.
    pub(crate) fn text_so_far_event(&self) -> Option<ChatEvent> {
        let shown = self.lock_shown();
        let message = shown.message.as_ref().filter(|message| !message.text.is_empty())?;
        let (run, n, text) = (message.run, message.next.saturating_sub(1), message.text.clone());
        let (id, side) = (self.message_id(message.position, shown.first), message.side.clone());
        let unrecorded = message.unrecorded;
        drop(shown);
        Some(self.build_event(ChatEventKind::Delta { id, run, n, text, so_far: true, side, unrecorded }))
    }

    /// Returns one event with the thinking so far, for a listener that came late.
    pub(crate) fn thinking_so_far_event(&self) -> Option<ChatEvent> {
        let shown = self.lock_shown();
        let message = shown.message.as_ref().filter(|message| !message.thinking.text.is_empty())?;
        let (run, thinking) = (message.run, message.thinking.clone());
        let id = self.message_id(message.position, shown.first);
        drop(shown);
        let (n, text) = (thinking.next.saturating_sub(1), thinking.text);
        Some(self.build_event(ChatEventKind::ThinkingDelta { id, run, n, text, so_far: true }))
    }

    /// Forgets the shown message where it stands before a position: messages up to there are recorded now.
    pub(crate) fn mark_recorded_up_to(&self, len: u64) {
        let mut shown = self.lock_shown();
        (shown.recorded, shown.taken) = (shown.recorded.max(len), Vec::new());
        if shown.message.as_ref().is_some_and(|message| message.position < len) {
            shown.message = None;
        }
    }

    /// Shows that the turn takes messages that steer it: those that come next, from a list position on.
    pub(crate) fn show_taken_messages(&self, position: u64, messages: &[OfferedMessage]) {
        let mut shown = self.lock_shown();
        let first = shown.first;
        let tell = |(position, message): (u64, &OfferedMessage)| ChatEventKind::MessageTaken {
            id: self.message_id(position, first),
            message: message.message.clone(),
            side: build_taken_side(message.side.clone(), &self.0.turn, &message.row.turn_id()),
        };
        let taken: Vec<_> = (position..).zip(messages).map(tell).collect();
        // Under the lock, as the pieces of a message are.
        for what in &taken {
            self.publish_event(what.clone());
        }
        // A node that is tried again takes the same ones again.
        let before = self.message_id(position, first).k;
        shown.taken.retain(|what| matches!(what, ChatEventKind::MessageTaken { id, .. } if id.k < before));
        shown.taken.extend(taken);
    }

    /// Returns the events of the messages that were taken and are not recorded, for a listener that came late.
    pub(crate) fn taken_message_events(&self) -> Vec<ChatEvent> {
        self.lock_shown().taken.iter().map(|taken| self.build_event(taken.clone())).collect()
    }

    fn message_id(&self, position: u64, first: u64) -> MessageId {
        MessageId { turn: self.0.turn.clone(), k: position.saturating_sub(first) }
    }

    fn build_event(&self, what: ChatEventKind) -> ChatEvent {
        let at: Timestamp = self.0.clock.now();
        ChatEvent { id: None, session: self.0.session.clone(), turn: self.0.turn.clone(), at, what }
    }

    fn publish_event(&self, what: ChatEventKind) {
        self.0.feed.publish_event(self.build_event(what));
    }
}

impl MessageStream<'_> {
    /// Shows the next piece of the message's text. A piece that would exceed
    /// [`Limits::shown_bytes`](crate::Limits::shown_bytes) is not shown, nor are the pieces after it.
    pub fn show_text_piece(&self, text: &str) {
        let mut shown = self.stream.lock_shown();
        let first = shown.first;
        let Some(message) = shown.message.as_mut().filter(|message| {
            message.position == self.position && message.run == self.run && !message.is_full
        }) else {
            return;
        };
        if message.text.len().saturating_add(text.len()) > self.stream.0.shown_bytes {
            // Later pieces are not shown either: a text with a hole would be another text.
            message.is_full = true;
            return;
        }
        message.text.push_str(text);
        let (n, side, unrecorded) = (message.next, message.side.clone(), message.unrecorded);
        message.next += 1;
        let id = self.stream.message_id(self.position, first);
        // Published under the lock, so that a listener that takes the text so far misses no piece and sees none twice.
        self.stream.publish_event(ChatEventKind::Delta {
            id,
            run: self.run,
            n,
            text: text.to_owned(),
            so_far: false,
            side,
            unrecorded,
        });
    }
}

impl MessageStream<'_> {
    /// Shows the next piece of the model's thinking, within the same bound as [`MessageStream::show_text_piece`]. Callers check
    /// first that the agent shows the thinking of its model (D19).
    pub fn show_thinking_piece(&self, text: &str) {
        let mut shown = self.stream.lock_shown();
        let first = shown.first;
        let message = shown
            .message
            .as_mut()
            .filter(|message| (message.position, message.run) == (self.position, self.run));
        let Some(thinking) =
            message.map(|message| &mut message.thinking).filter(|thinking| !thinking.is_full)
        else {
            return;
        };
        if thinking.text.len().saturating_add(text.len()) > self.stream.0.shown_bytes {
            thinking.is_full = true;
            return;
        }
        thinking.text.push_str(text);
        let n = thinking.next;
        thinking.next += 1;
        let (id, text) = (self.stream.message_id(self.position, first), text.to_owned());
        self.stream.publish_event(ChatEventKind::ThinkingDelta { id, run: self.run, n, text, so_far: false });
    }
}

impl fmt::Debug for TurnStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TurnStream({})", self.0.turn)
    }
}

#[cfg(test)]
mod tests {
    use singletree_durable::InvocationId;
    use singletree_engine::SystemClock;

    use super::*;

    fn turn_id(invocation: &str) -> TurnId {
        TurnId::new(InvocationId::parse(invocation).unwrap(), 0)
    }

    fn stream(feed: &EventBroadcast, turn: &str, runs_before: u32) -> TurnStream {
        let shown = (feed.clone(), 1 << 10, SideRecords::default());
        let session = SessionId::parse("s").unwrap();
        TurnStream::new(session, turn_id(turn), runs_before, shown, Arc::new(SystemClock))
    }

    /// Returns the runs of the pieces that were published.
    async fn runs_of_pieces(
        listening: &mut tokio::sync::broadcast::Receiver<Arc<ChatEvent>>,
        pieces: usize,
    ) -> Vec<u32> {
        let mut runs = Vec::new();
        while runs.len() < pieces {
            if let ChatEventKind::Delta { run, .. } = &listening.recv().await.unwrap().what {
                runs.push(*run);
            }
        }
        runs
    }

    // docs/api.md: a piece of a higher run takes back those of a lower one
    #[tokio::test]
    async fn a_turn_that_runs_again_in_this_process_has_a_higher_run() {
        let feed = EventBroadcast::new(16);
        let mut listening = feed.subscribe_to_events();
        stream(&feed, "t", 0).begin_message(1).show_text_piece("a");
        stream(&feed, "t", 1).begin_message(1).show_text_piece("b");
        // The lease was lost, and no death was counted meanwhile.
        stream(&feed, "t", 1).begin_message(1).show_text_piece("c");
        stream(&feed, "other", 0).begin_message(1).show_text_piece("d");
        assert_eq!(runs_of_pieces(&mut listening, 4).await, [1, 2, 3, 1]);
    }
}
