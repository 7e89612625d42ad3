//! Staying with a turn until it ends.

use std::pin::pin;
use std::sync::Arc;

use futures_util::StreamExt;
use singletree::{Chat, ChatEventKind, ChatTurnOutcome, Turn};

use crate::error::Result;
use crate::print::{TerminalOutput, TextStyle};
use crate::turn_view::TurnView;

/// The effect of Ctrl-C while a turn runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InterruptEffect {
    /// It cancels the turn.
    CancelsTurn,
    /// It ends the process; the next one finishes the turn.
    EndsProcess,
}

/// Shows a turn until it ends.
pub(crate) async fn follow_turn(
    chat: &Chat,
    turn: &Turn,
    mut view: TurnView,
    screen: &mut TerminalOutput,
    interrupt: InterruptEffect,
) -> Result<Arc<ChatTurnOutcome>> {
    let mut events = pin!(turn.events());
    let mut told = pin!(turn.outcome());
    let mut outcome = None;
    let mut interrupted = pin!(wait_for_interrupt(interrupt));
    loop {
        tokio::select! {
            biased;
            () = &mut interrupted => {
                interrupted.set(self::wait_for_interrupt(interrupt));
                screen.end_line()?;
                screen.write_styled_line(TextStyle::Dim, "  cancelling")?;
                chat.cancel(turn.id()).await?;
            }
            event = events.next() => match event {
                Some(event) => {
                    let event = event?;
                    view.show_event(&event, screen)?;
                    // The narration of an event was there before the event is told. It does not stand in the middle
                    // of an answer: it may be late there, since it comes another way than the answer.
                    if !matches!(event.what, ChatEventKind::Delta { .. }) {
                        view.show_narration(screen)?;
                    }
                    if let Some(outcome) = event.what.outcome() {
                        return Ok(outcome.clone());
                    }
                }
                None => return Ok(turn.outcome().await),
            },
            ended = &mut told, if outcome.is_none() => {
                // One that could not be recorded has no event (D20).
                if let ChatTurnOutcome::Errored(errored) = ended.as_ref() && !errored.recorded {
                    screen.end_line()?;
                    screen.write_styled_line(TextStyle::Wrong, &errored.reply.text())?;
                    return Ok(ended);
                }
                outcome = Some(ended);
            }
        }
    }
}

/// Returns when the user wants the turn to end.
async fn wait_for_interrupt(interrupt: InterruptEffect) {
    match interrupt {
        InterruptEffect::CancelsTurn => {
            if tokio::signal::ctrl_c().await.is_err() {
                std::future::pending().await
            }
        }
        InterruptEffect::EndsProcess => std::future::pending().await,
    }
}
