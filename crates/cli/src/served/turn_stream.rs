//! Turns of a server, shown while they run.

use std::time::Duration;

use singletree::llm::Timer;
use singletree_client::{Error as ClientError, EventStream};
use singletree_protocol::native::{Event, EventKind, Outcome, SendMessage, SignalAnswer};

use super::{ServedChat, turn_event};
use crate::error::{Error, Result};
use crate::print::TerminalOutput;
use crate::turn_view::TurnView;
use singletree::engine::RuntimeTimer;

/// How often in a row a lost connection is tried again before the turn is left to its server.
const ATTEMPTS: u32 = 6;

/// The pause before the first of these attempts; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// A request that begins a turn. Sent again, it is answered by the same turn.
pub(super) enum TurnStart<'a> {
    /// A message, under a key.
    Message(&'a SendMessage, String),
    /// A retry of this turn, under a key.
    Retry(&'a str, String),
    /// An answer to the wait of this signal.
    Answer(&'a str, &'a SignalAnswer),
}

/// How far a turn was followed.
#[derive(Default)]
struct FollowProgress {
    turn: Option<String>,
    /// The id of the last stored event that was shown.
    last: Option<String>,
    /// How many attempts in a row gave no event.
    failures: u32,
}

impl ServedChat {
    /// Begins a turn, shows its events, and returns its outcome; none where an answer began no turn. A lost
    /// connection is resumed after the last event that was shown.
    ///
    /// # Errors
    /// Of the request; `TurnLost` where the server cannot be reached again while the turn runs.
    pub(super) async fn follow_turn(
        &self,
        session: &str,
        start: &TurnStart<'_>,
        screen: &mut TerminalOutput,
    ) -> Result<Option<Outcome>> {
        let mut view =
            if screen.is_interactive() { TurnView::with_indentation() } else { TurnView::default() };
        let mut followed = FollowProgress::default();
        loop {
            let ended = match self.open_event_stream(session, start, &followed).await {
                Ok(mut events) => Self::show_events(&mut events, &mut followed, (&mut view, screen)).await?,
                Err(error) => Err(error),
            };
            match ended {
                Ok(Some(outcome)) => return Ok(Some(outcome)),
                Ok(None) if followed.turn.is_none() && matches!(start, TurnStart::Answer(..)) => {
                    return Ok(None);
                }
                Ok(None) => followed.pause_before_retry(session, None).await?,
                Err(error) if followed.is_worth_retrying(&error) => {
                    followed.pause_before_retry(session, Some(error)).await?
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn open_event_stream(
        &self,
        session: &str,
        start: &TurnStart<'_>,
        followed: &FollowProgress,
    ) -> Result<EventStream, ClientError> {
        if let Some(turn) = &followed.turn {
            return self.client.follow_turn(session, turn, followed.last.as_deref()).await;
        }
        match start {
            TurnStart::Message(message, key) => {
                self.client.send_message_streaming(session, message, Some(key)).await
            }
            TurnStart::Retry(turn, key) => self.client.retry_turn_streaming(session, turn, Some(key)).await,
            TurnStart::Answer(signal, answer) => {
                self.client.answer_wait_streaming(session, signal, answer).await
            }
        }
    }

    /// Shows events until the turn or the stream ends: with the outcome, with none where the stream only ended, or
    /// with the error that broke the stream.
    async fn show_events(
        events: &mut EventStream,
        followed: &mut FollowProgress,
        (view, screen): (&mut TurnView, &mut TerminalOutput),
    ) -> Result<Result<Option<Outcome>, ClientError>> {
        loop {
            let event = match events.next_event().await {
                Ok(Some(event)) => event,
                Ok(None) => return Ok(Ok(None)),
                Err(error) => return Ok(Err(error)),
            };
            followed.failures = 0;
            let Event { id, turn, what, .. } = &event;
            followed.turn.get_or_insert_with(|| turn.clone());
            if let Some(id) = id {
                followed.last = Some(id.clone());
            }
            match what {
                EventKind::TurnErrored { outcome } => {
                    if let Outcome::Errored(turn) = outcome {
                        view.show_turn_failure(&turn.reply, (&turn.category, &turn.diagnostic), screen)?;
                    }
                    return Ok(Ok(Some(outcome.clone())));
                }
                EventKind::TurnCompleted { outcome } | EventKind::TurnSuspended { outcome } => {
                    screen.end_line()?;
                    return Ok(Ok(Some(outcome.clone())));
                }
                _ => view.show_event(&turn_event::convert_event(&event)?, screen)?,
            }
        }
    }
}

impl FollowProgress {
    /// Says whether the same may go well a moment later. A server that was never reached is not waited for.
    fn is_worth_retrying(&self, error: &ClientError) -> bool {
        match error {
            ClientError::Http(singletree::http::Error::Unreachable { .. }) => {
                self.turn.is_some() || self.failures > 0
            }
            ClientError::Http(
                singletree::http::Error::Timeout { .. } | singletree::http::Error::Broken { .. },
            ) => true,
            // 200: the stream itself said that it breaks off.
            ClientError::Refused(refused) => {
                self.turn.is_some() && matches!(refused.status, 200 | 429 | 500..)
            }
            _ => false,
        }
    }

    /// Pauses before the next attempt.
    async fn pause_before_retry(&mut self, session: &str, error: Option<ClientError>) -> Result<()> {
        if self.failures < ATTEMPTS {
            RuntimeTimer.sleep_for(FIRST_PAUSE * 2_u32.pow(self.failures)).await;
            self.failures += 1;
            return Ok(());
        }
        match (self.turn.take(), error) {
            (Some(turn), source) => Err(Error::TurnLost { turn, session: session.to_owned(), source }),
            (None, Some(error)) => Err(error.into()),
            (None, None) => {
                let what = "the stream ended before the turn began".to_owned();
                Err(ClientError::Answer { what }.into())
            }
        }
    }
}
