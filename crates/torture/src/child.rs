//! The child: serves a chat over its pipes until it is killed.

mod agent;
mod effects;
mod watched;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use singletree_audit::{Deed, End};
use singletree_durable::{Journal, Upkeep};
use singletree_harness::{
    Agent, Answer, Chat, ChatTurnOutcome, ErroredTurn, SendOptions, SignalAddress, Turn, TurnId,
};
use singletree_llm::{ChatMessage, Pace};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::error::{Error, Result};
use crate::wire::{Ask, Line};
pub(crate) use effects::Happened;
use watched::Watched;

/// How long turns may take to end when the parent asks no more.
const GRACE: Duration = Duration::from_secs(60);

/// How long to wait for the events of a turn.
const EVENTS: Duration = Duration::from_secs(20);

/// Where the child says its lines; each call writes one line, at once.
pub type Say = Arc<dyn Fn(&Line) + Send + Sync>;

/// What a child is made of.
pub struct ChildParts {
    /// The store.
    pub journal: Arc<dyn Journal>,
    /// The same store.
    pub upkeep: Arc<dyn Upkeep>,
    /// The file to which tools write their effects.
    pub effects: PathBuf,
    /// Performs the model's pauses.
    pub pace: Arc<dyn Pace>,
    /// Where lines are said.
    pub say: Say,
    /// What is asked; the child ends when the sender is gone.
    pub asks: UnboundedReceiver<Ask>,
}

impl std::fmt::Debug for ChildParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChildParts").field("effects", &self.effects).finish_non_exhaustive()
    }
}

/// Makes the agent of the load.
pub(crate) fn load_agent(effects: PathBuf, pace: Arc<dyn Pace>) -> Result<Agent> {
    agent::agent(effects, pace).map_err(|source| Error::Agent { source })
}

/// Serves until nobody asks any more, then lets what runs end.
///
/// # Errors
/// Those of [`Chat::sweep`] and of making the agent.
///
/// # Cancellation
/// As the end of the process: what was accepted is kept.
pub async fn serve(parts: ChildParts) -> Result<()> {
    let ChildParts { journal, upkeep, effects, pace, say, mut asks } = parts;
    let watched = Arc::new(Watched::new(journal, upkeep, say.clone()));
    let agent = load_agent(effects, pace)?;
    let chat = Chat::builder().agent(agent).open_shared(watched.clone(), watched)?;
    let taken = chat.sweep().await?.len() as u64;
    say(&Line::Ready { taken });
    let mut tasks = tokio::task::JoinSet::new();
    while let Some(ask) = asks.recv().await {
        let (chat, say) = (chat.clone(), say.clone());
        tasks.spawn(async move { answer(&chat, &say, ask).await });
        while tasks.try_join_next().is_some() {}
    }
    while tasks.join_next().await.is_some() {}
    chat.shutdown(GRACE).await;
    Ok(())
}

/// How a message begins that the turn which runs may take.
const STEERS: &str = "aside ";

async fn answer(chat: &Chat, say: &Say, ask: Ask) {
    let (call, asked) = match ask {
        Ask::Outcome { call, turn } => (call, outcome_of(chat, &turn).await),
        Ask::Do { call, session, deed, to } => match deed {
            Deed::Send { text, key } => {
                let options = SendOptions::new().listen();
                let options = key.into_iter().fold(options, |it, key| it.key(key));
                let steers = text.starts_with(STEERS);
                let message = ChatMessage::user(text);
                let submitted = match steers {
                    true => chat.steer(&session, message, options).await,
                    false => chat.submit(&session, message, options).await,
                };
                (call, given(say, call, submitted))
            }
            Deed::Answer { signal, payload } => {
                let payload = payload.as_object().cloned().unwrap_or_default();
                let answer = to.into_iter().fold(Answer::new(payload), |it, (no, action)| it.to(no, action));
                let answered = chat.answer(SignalAddress::Session { session, signal }, answer).await;
                (call, given(say, call, answered))
            }
            Deed::Cancel { turn } => match turn.parse::<TurnId>() {
                Ok(id) => (
                    call,
                    chat.cancel(&id).await.map_err(|it| it.category().to_owned()).map_err(Refused::Bare),
                ),
                Err(error) => (call, Err(Refused::Bare(error.category().to_owned()))),
            },
            Deed::Delete => {
                match chat.delete_session(&session, Some("torture")).await {
                    Ok(()) => say(&Line::Done { call }),
                    Err(error) => say(&Line::Failed { call, category: error.category().to_owned() }),
                }
                return;
            }
        },
    };
    match asked {
        Ok(turn) => follow(say, call, &turn).await,
        Err(Refused::Turn(errored)) => {
            let turn = errored.turn.as_ref().map(ToString::to_string);
            say(&Line::Told { call, turn, end: errored.as_ref().into(), action: None });
        }
        Err(Refused::Bare(category)) => say(&Line::Failed { call, category }),
    }
}

enum Refused {
    Turn(Box<ErroredTurn>),
    Bare(String),
}

async fn outcome_of(chat: &Chat, turn: &str) -> Result<Turn, Refused> {
    let bare = |error: singletree_harness::Error| Refused::Bare(error.category().to_owned());
    let id: TurnId = turn.parse().map_err(bare)?;
    chat.turn(&id).await.map_err(bare)
}

fn given(say: &Say, call: u64, turn: Result<Turn, Box<ErroredTurn>>) -> Result<Turn, Refused> {
    let turn = turn.map_err(Refused::Turn)?;
    say(&Line::Given { call, turn: turn.id().to_string() });
    Ok(turn)
}

/// Says the turn's durable events and its outcome.
async fn follow(say: &Say, call: u64, turn: &Turn) {
    let (session, id) = (turn.session().to_owned(), turn.id().to_string());
    let events = async {
        let mut events = turn.events();
        while let Some(Ok(event)) = events.next().await {
            if let Some(name) = event.id {
                let kind = event.what.as_str().to_owned();
                say(&Line::Event { session: session.clone(), seq: name.seq, turn: id.clone(), kind });
            }
        }
    };
    let outcome = async {
        let outcome = turn.outcome().await;
        let action = match outcome.as_ref() {
            ChatTurnOutcome::Suspended(it) => it.wait.action.clone(),
            ChatTurnOutcome::Completed(_) | ChatTurnOutcome::Errored(_) => None,
        };
        let end: End = outcome.as_ref().into();
        say(&Line::Told { call, turn: Some(id.clone()), end, action });
    };
    // The last event is the outcome; where the log does not tell one, the turn does.
    tokio::join!(outcome, async { tokio::time::timeout(EVENTS, events).await.unwrap_or_default() });
}
