//! The handler of a call, which runs in the process.

use futures_util::StreamExt;
use singletree_audit::AuditedOutcome;
use singletree_harness::{
    Answer, Chat, ChatEvent, ChatEventKind, ChatTurnOutcome, ErroredTurn, ForkOptions, SendOptions,
    SignalAddress, SignalDelivery, Turn, TurnId,
};
use singletree_llm::{ChatMessage, Role};

use super::{CallReport, EventView, SimulatedCall, SimulatedSessionName};
use crate::world::CallReporter;

/// Why a call was not given a turn.
enum CallRefusal {
    Turn(Box<ErroredTurn>),
    Bare(String),
    /// The signal is kept until something waits for it.
    Kept,
    /// The session is deleted.
    Deleted,
}

impl From<singletree_harness::Error> for CallRefusal {
    fn from(error: singletree_harness::Error) -> Self {
        Self::Bare(error.category().to_owned())
    }
}

/// Reports the refusal of a call that asks for a turn as its caller is told it.
fn refused_turn(error: singletree_harness::Error) -> CallRefusal {
    CallRefusal::Turn(error.into_errored_turn())
}

/// Handles one call and reports everything that comes of it.
pub(super) async fn handle_call(
    chat: Chat,
    reporter: CallReporter<CallReport>,
    (session, call, agent): (SimulatedSessionName, SimulatedCall, Option<String>),
) {
    let chat = chat.of(session.tenant_id());
    let is_given =
        !matches!(call, SimulatedCall::Cancel { .. } | SimulatedCall::Outcome { .. } | SimulatedCall::Delete);
    match find_turn_of_call(&chat, (&session.session, agent), call).await {
        Ok(turn) => {
            if is_given {
                reporter.report(CallReport::Given { turn: turn.id().to_string() });
            }
            report_turn(&reporter, &turn).await;
        }
        Err(CallRefusal::Turn(errored)) => {
            let turn = errored.turn.as_ref().map(ToString::to_string);
            reporter.report(CallReport::Told { turn, end: errored.as_ref().into(), action: None });
        }
        Err(CallRefusal::Bare(category)) => reporter.report(CallReport::Failed { category }),
        Err(CallRefusal::Kept | CallRefusal::Deleted) => reporter.report(CallReport::Done),
    }
}

/// Makes the call that leads to a turn.
async fn find_turn_of_call(
    chat: &Chat,
    (session, agent): (&str, Option<String>),
    call: SimulatedCall,
) -> Result<Turn, CallRefusal> {
    match call {
        SimulatedCall::Send { text, key, steers } => {
            let options = key.into_iter().fold(SendOptions::new().listen(), SendOptions::key);
            let options = agent.into_iter().fold(options, SendOptions::agent);
            let message = ChatMessage::user(text);
            let submitted = match steers {
                true => chat.session(session).steer(message, options).await,
                false => chat.session(session).submit(message, options).await,
            };
            submitted.map_err(refused_turn)
        }
        SimulatedCall::Answer { signal, payload, to, may_keep } => {
            let payload = payload.as_object().cloned().unwrap_or_default();
            let answer = to.into_iter().fold(Answer::new(payload), |it, (no, action)| it.to(no, action));
            let address = SignalAddress::Session { session: session.to_owned(), signal };
            match may_keep {
                false => chat.answer(address, answer).await.map_err(refused_turn),
                true => match chat.signal(address, answer).await.map_err(refused_turn)? {
                    SignalDelivery::Resumed(turn) => Ok(turn),
                    SignalDelivery::Kept { .. } => Err(CallRefusal::Kept),
                },
            }
        }
        SimulatedCall::Cancel { turn } => Ok(chat.cancel(&parse_turn_id(&turn)?).await?),
        SimulatedCall::Delete => {
            chat.session(session).delete(Some("simulation")).await?;
            Err(CallRefusal::Deleted)
        }
        SimulatedCall::Retry { turn, .. } => {
            let options = SendOptions::new().listen();
            chat.retry(&parse_turn_id(&turn)?, options).await.map_err(refused_turn)
        }
        SimulatedCall::Branch { from, text, edits } => {
            send_in_fork(chat, (&from, session), text, edits).await
        }
        SimulatedCall::Outcome { turn } => Ok(chat.turn(&parse_turn_id(&turn)?).await?),
    }
}

fn parse_turn_id(turn: &str) -> Result<TurnId, CallRefusal> {
    turn.parse().map_err(|_| CallRefusal::Bare("chat_turn_unknown".to_owned()))
}

/// Tells whether sessions of this name belong to the second agent.
pub(crate) fn is_office(session: &str) -> bool {
    session.starts_with('o')
}

/// Sends a message in a fork: in the place of one of the user's messages, or at the end.
async fn send_in_fork(
    chat: &Chat,
    (from, to): (&str, &str),
    text: String,
    edits: Option<u64>,
) -> Result<Turn, CallRefusal> {
    let message = ChatMessage::user(text);
    let Some(edits) = edits else {
        let fork = chat.session(from).fork(ForkOptions::new().session(to)).await?;
        return fork.submit(message, SendOptions::new()).await.map_err(refused_turn);
    };
    let history = chat.session(from).history(0..1_000).await?;
    let asked = (0_u64..).zip(&history).filter(|(_, entry)| entry.message.role == Role::User);
    let places: Vec<u64> = asked.map(|(at, _)| at).collect();
    let at = edits.checked_rem(places.len() as u64).and_then(|at| usize::try_from(at).ok());
    let nothing = || CallRefusal::Bare("there is nothing to edit".to_owned());
    let at = at.and_then(|at| places.get(at)).copied().ok_or_else(nothing)?;
    chat.session(from).edit_into(to, at, message).await.map_err(refused_turn)
}

/// Describes an event by the content that is the same whoever reads it, and whenever: the final state of an outcome is
/// told once only, and the side record of a message may be replaced later.
pub(crate) fn describe_event(event: &ChatEvent) -> String {
    match (&event.what, event.what.outcome()) {
        (_, Some(outcome)) => format!("{:?} {:?}", event.at, AuditedOutcome::from(outcome.as_ref())),
        (ChatEventKind::MessageAppended { id, message, .. }, None) => {
            format!("{:?} {id:?} {message:?}", event.at)
        }
        (what, None) => format!("{:?} {what:?}", event.at),
    }
}

/// Reports the turn's durable events and its outcome.
async fn report_turn(reporter: &CallReporter<CallReport>, turn: &Turn) {
    let id = turn.id().to_string();
    let mut events = turn.events();
    while let Some(Ok(event)) = events.next().await {
        if let Some(name) = &event.id {
            let (kind, content) = (event.what.as_str().to_owned(), describe_event(&event));
            let turn = event.turn.to_string();
            reporter.report(CallReport::Event { seq: name.seq, turn, kind, content, view: EventView::Chat });
        }
    }
    let outcome = turn.outcome().await;
    let action = match outcome.as_ref() {
        ChatTurnOutcome::Suspended(suspended) => suspended.wait.action.clone(),
        ChatTurnOutcome::Completed(_) | ChatTurnOutcome::Errored(_) => None,
    };
    let end: AuditedOutcome = outcome.as_ref().into();
    reporter.report(CallReport::Told { turn: Some(id), end, action });
}
