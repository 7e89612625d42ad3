//! The child: serves a chat over its pipes until it is killed.

mod agent;
mod effects;
mod finish;
mod office;
mod watched;

use std::convert::Infallible;
use std::future::{Future, pending, poll_fn};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::StreamExt;
use singletree_audit::{AuditedOutcome, ClientOperation};
use singletree_durable::{Journal, JournalMaintenance};
use singletree_harness::{
    Answer, Chat, ChatTurnOutcome, ErroredTurn, ForkOptions, GraphAgent, SendOptions, SignalAddress, Turn,
    TurnId,
};
use singletree_llm::{ChatMessage, Role, Timer};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::error::{Error, Result};
use crate::fault::CommitFaults;
use crate::heartbeat::{ChildPhase, Heartbeat};
use crate::wire::{ChildReport, ChildRequest};
pub(crate) use effects::LoggedEffect;
use finish::wait_until_finished;
use watched::ReportingStore;

/// How long turns may take to end when the parent asks no more.
const GRACE: Duration = Duration::from_secs(60);

/// How long to wait for the events of a turn.
const EVENTS: Duration = Duration::from_secs(20);

/// Where the child says its lines; each call writes one line, at once.
pub type Say = Arc<dyn Fn(&ChildReport) + Send + Sync>;

/// The parts of a child.
pub struct ChildParts {
    /// The store.
    pub journal: Arc<dyn Journal>,
    /// The same store.
    pub upkeep: Arc<dyn JournalMaintenance>,
    /// The file to which tools write their effects.
    pub effects: PathBuf,
    /// Performs the model's pauses.
    pub pace: Arc<dyn Timer>,
    /// Where lines are said.
    pub say: Say,
    /// The requests of the parent; the child ends when the sender is dropped.
    pub asks: UnboundedReceiver<ChildRequest>,
    /// Says that the child lives.
    pub heartbeat: Heartbeat,
    /// Which release of the second agent it has: each second one has a list field that the others do not have.
    pub release: u32,
    /// The commits that fail.
    pub faults: Option<CommitFaults>,
}

impl std::fmt::Debug for ChildParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChildParts").field("effects", &self.effects).finish_non_exhaustive()
    }
}

/// Makes the agents of the load, the default one first.
pub(crate) fn build_agents(effects: PathBuf, pace: Arc<dyn Timer>, release: u32) -> Result<[GraphAgent; 2]> {
    let agent = agent::build_agent(effects, pace).map_err(|source| Error::Agent { source })?;
    let office = office::build_agent(release).map_err(|error| Error::Harness(error.into()))?;
    Ok([agent, office])
}

/// Serves until the sender of requests is dropped, then lets the running turns end.
///
/// # Errors
/// Those of [`Chat::sweep`] and of making the agents.
///
/// # Cancellation
/// As the end of the process: accepted messages are kept.
pub async fn serve_requests(parts: ChildParts) -> Result<()> {
    let ChildParts { journal, upkeep, effects, pace, say, mut asks, heartbeat, release, faults } = parts;
    let watched = Arc::new(ReportingStore::new((journal, upkeep), say.clone(), faults));
    let [agent, office] = build_agents(effects, pace, release)?;
    let chat = Chat::builder().agent(agent).agent(office).open_shared(watched.clone(), watched.clone())?;
    heartbeat.enter_phase(ChildPhase::Sweeping);
    let is_one_of_several = watched.has_other_writers();
    let taken = sweep_at_start(&chat, is_one_of_several).await?.len() as u64;
    heartbeat.enter_phase(ChildPhase::Serving);
    say(&ChildReport::Ready { taken });
    let mut tasks = tokio::task::JoinSet::new();
    let mut takeovers = pin!(take_over_turns(&chat, is_one_of_several));
    while let Some(ask) = tokio::select! {
        ask = asks.recv() => ask,
        never = &mut takeovers => match never {},
    } {
        let (chat, say) = (chat.clone(), say.clone());
        tasks.spawn(async move {
            match ask {
                ChildRequest::Disconnect { after, asked } => {
                    answer_request(&chat, &say, *asked, Some(after)).await
                }
                ask => answer_request(&chat, &say, ask, None).await,
            }
        });
        while tasks.try_join_next().is_some() {}
    }
    while tasks.join_next().await.is_some() {}
    heartbeat.enter_phase(ChildPhase::Ending);
    tokio::select! {
        finished = wait_until_finished(&watched) => finished?,
        never = &mut takeovers => match never {},
    }
    chat.shutdown(GRACE).await;
    Ok(())
}

/// The time between two looks for turns of other processes that have died.
const SWEEP_EVERY: Duration = Duration::from_millis(500);

/// Takes over the turns of dead processes; where the database of several processes fails, until it does not.
async fn sweep_at_start(chat: &Chat, tries_again: bool) -> Result<Vec<Turn>> {
    loop {
        match chat.sweep().await {
            Err(_) if tries_again => tokio::time::sleep(SWEEP_EVERY).await,
            swept => return Ok(swept?),
        }
    }
}

/// Takes over the turns of other processes that have died, as a server does it.
async fn take_over_turns(chat: &Chat, is_one_of_several: bool) -> Infallible {
    if !is_one_of_several {
        return pending().await;
    }
    loop {
        tokio::time::sleep(SWEEP_EVERY).await;
        // Turns that cannot be taken over now are taken over later.
        drop(chat.sweep().await);
    }
}

/// How a message begins that the turn which runs may take.
const STEERS: &str = "aside ";

/// The category reported for a call whose client went away.
const DISCONNECTED: &str = "disconnected";

/// Polls a call until it ends, or so many times: then it is dropped, as a server drops it whose client goes away.
async fn poll_with_limit<T>(
    call: impl Future<Output = Result<T, RefusedOperation>>,
    polls: Option<u32>,
) -> Result<T, RefusedOperation> {
    let mut call = pin!(call);
    let mut left = polls;
    poll_fn(|cx| match &mut left {
        Some(0) => Poll::Ready(Err(RefusedOperation::Bare(DISCONNECTED.to_owned()))),
        Some(left) => {
            *left -= 1;
            call.as_mut().poll(cx)
        }
        None => call.as_mut().poll(cx),
    })
    .await
}

async fn answer_request(chat: &Chat, say: &Say, ask: ChildRequest, polls: Option<u32>) {
    let is_new = matches!(
        ask,
        ChildRequest::Branch { .. }
            | ChildRequest::Do { deed: ClientOperation::Send { .. } | ClientOperation::Answer { .. }, .. }
    );
    let (call, asked) = match ask {
        ChildRequest::Outcome { call, turn } => (call, find_turn(chat, &turn).await),
        ChildRequest::Branch { call, from, to, text, edits } => {
            (call, poll_with_limit(send_in_fork(chat, (&from, &to), text, edits), polls).await)
        }
        ChildRequest::Do { call, session, deed: ClientOperation::Delete, .. } => {
            let session = chat.session(&session);
            let deleted = async { session.delete(Some("torture")).await.map_err(refused_without_turn) };
            match poll_with_limit(deleted, polls).await {
                Ok(()) => return say(&ChildReport::Done { call }),
                Err(refused) => (call, Err(refused)),
            }
        }
        ChildRequest::Do { call, session, deed, to } => {
            (call, poll_with_limit(execute_operation(chat, &session, deed, to), polls).await)
        }
        // One client goes away once.
        ChildRequest::Disconnect { .. } => return,
    };
    match asked {
        Ok(turn) => {
            if is_new {
                say(&ChildReport::Given { call, turn: turn.id().to_string() });
            }
            report_turn(say, call, &turn).await;
        }
        Err(RefusedOperation::Turn(errored)) => {
            let turn = errored.turn.as_ref().map(ToString::to_string);
            say(&ChildReport::Told { call, turn, end: errored.as_ref().into(), action: None });
        }
        Err(RefusedOperation::Bare(category)) => say(&ChildReport::Failed { call, category }),
    }
}

/// Makes the call that leads to a turn.
async fn execute_operation(
    chat: &Chat,
    session: &str,
    deed: ClientOperation,
    to: Option<(u64, String)>,
) -> Result<Turn, RefusedOperation> {
    match deed {
        ClientOperation::Send { text, key } => {
            let options = key.into_iter().fold(SendOptions::new().listen(), |it, key| it.key(key));
            let options = if session.starts_with('o') { options.agent(office::OFFICE) } else { options };
            let steers = text.starts_with(STEERS);
            let message = ChatMessage::user(text);
            let submitted = match steers {
                true => chat.session(session).steer(message, options).await,
                false => chat.session(session).submit(message, options).await,
            };
            submitted.map_err(|error| RefusedOperation::Turn(error.into_errored_turn()))
        }
        ClientOperation::Answer { signal, payload } => {
            let payload = payload.as_object().cloned().unwrap_or_default();
            let answer = to.into_iter().fold(Answer::new(payload), |it, (no, action)| it.to(no, action));
            let address = SignalAddress::Session { session: session.to_owned(), signal };
            chat.answer(address, answer)
                .await
                .map_err(|error| RefusedOperation::Turn(error.into_errored_turn()))
        }
        ClientOperation::Cancel { turn } => {
            let id = turn
                .parse::<TurnId>()
                .map_err(|error| refused_without_turn(singletree_harness::Error::from(error)))?;
            chat.cancel(&id).await.map_err(refused_without_turn)
        }
        ClientOperation::Delete => Err(RefusedOperation::Bare("a deletion has no turn".to_owned())),
    }
}

/// Says something in a fork: in the place of one of the user's messages, or at the end.
async fn send_in_fork(
    chat: &Chat,
    (from, to): (&str, &str),
    text: String,
    edits: Option<u64>,
) -> Result<Turn, RefusedOperation> {
    let message = ChatMessage::user(text);
    let Some(edits) = edits else {
        chat.session(from).fork(ForkOptions::new().session(to)).await.map_err(refused_without_turn)?;
        return chat
            .session(to)
            .submit(message, SendOptions::new())
            .await
            .map_err(|error| RefusedOperation::Turn(error.into_errored_turn()));
    };
    let history = chat.session(from).history(0..HISTORY).await.map_err(refused_without_turn)?;
    let asked = (0_u64..).zip(&history).filter(|(_, it)| it.message.role == Role::User);
    let places: Vec<u64> = asked.map(|(at, _)| at).collect();
    let nothing = || RefusedOperation::Bare("there is nothing to edit".to_owned());
    let at = edits.checked_rem(places.len() as u64).and_then(|checked_rem| usize::try_from(checked_rem).ok());
    let at = at.and_then(|it| places.get(it)).copied().ok_or_else(nothing)?;
    chat.session(from)
        .edit_into(to, at, message)
        .await
        .map_err(|error| RefusedOperation::Turn(error.into_errored_turn()))
}

/// How many messages are looked through for one to edit.
const HISTORY: u64 = 10_000;

fn refused_without_turn(error: singletree_harness::Error) -> RefusedOperation {
    RefusedOperation::Bare(error.category().to_owned())
}

enum RefusedOperation {
    Turn(Box<ErroredTurn>),
    Bare(String),
}

async fn find_turn(chat: &Chat, turn: &str) -> Result<Turn, RefusedOperation> {
    let id = turn
        .parse::<TurnId>()
        .map_err(|error| refused_without_turn(singletree_harness::Error::from(error)))?;
    chat.turn(&id).await.map_err(refused_without_turn)
}

/// Says the turn's durable events and its outcome.
async fn report_turn(say: &Say, call: u64, turn: &Turn) {
    let (session, id) = (turn.session().to_owned(), turn.id().to_string());
    let events = async {
        let mut events = turn.events();
        while let Some(Ok(event)) = events.next().await {
            if let Some(name) = event.id {
                let kind = event.what.as_str().to_owned();
                say(&ChildReport::Event { session: session.clone(), seq: name.seq, turn: id.clone(), kind });
            }
        }
    };
    let outcome = async {
        let outcome = turn.outcome().await;
        let action = match outcome.as_ref() {
            ChatTurnOutcome::Suspended(it) => it.wait.action.clone(),
            ChatTurnOutcome::Completed(_) | ChatTurnOutcome::Errored(_) => None,
        };
        let end: AuditedOutcome = outcome.as_ref().into();
        say(&ChildReport::Told { call, turn: Some(id.clone()), end, action });
    };
    // The last event is the outcome; where the log does not tell one, the turn does.
    tokio::join!(outcome, async { tokio::time::timeout(EVENTS, events).await.unwrap_or_default() });
}
