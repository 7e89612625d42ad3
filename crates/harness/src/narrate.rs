//! What the controller says about what happened: a pure function of the event (agent-chat-output §5.1).

use crate::event::ChatEventKind;
use crate::outcome::ChatTurnOutcome;

/// Returns the sentence for an event, when there is one.
pub(crate) fn controller(what: &ChatEventKind) -> Option<String> {
    match what {
        ChatEventKind::TurnSuspended { outcome } => match outcome.as_ref() {
            ChatTurnOutcome::Suspended(it) if it.wait.action.is_some() => {
                Some(format!("Your approval is needed: {}.", it.signal_descriptor.signal_id))
            }
            ChatTurnOutcome::Suspended(it) => {
                Some(format!("Paused until {} arrives.", it.signal_descriptor.signal_id))
            }
            ChatTurnOutcome::Completed(_) | ChatTurnOutcome::Errored(_) => None,
        },
        ChatEventKind::SignalReceived { signal, how, .. } => Some(match *how {
            "expired" => format!("Nobody answered {signal} in time."),
            "cancelled" => format!("{signal} was cancelled."),
            _ => format!("{signal} was answered; the turn goes on."),
        }),
        ChatEventKind::TurnErrored { outcome } => match outcome.as_ref() {
            ChatTurnOutcome::Errored(it) => Some(it.reply.text().into_owned()),
            ChatTurnOutcome::Completed(_) | ChatTurnOutcome::Suspended(_) => None,
        },
        ChatEventKind::SessionForked { parent, .. } => Some(format!("This conversation continues {parent}.")),
        ChatEventKind::TurnAccepted { .. }
        | ChatEventKind::MessageAppended { .. }
        | ChatEventKind::Delta { .. }
        | ChatEventKind::ToolStarted { .. }
        | ChatEventKind::ToolFinished { .. }
        | ChatEventKind::TurnCompleted { .. } => None,
    }
}
