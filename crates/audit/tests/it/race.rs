//! The races: their preparation, the two contenders, the winner, and the assertions that hold whoever wins.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use singletree_audit::{
    AuditedClient, AuditedOutcome, AuditedTurnKind, AuditedWaitState, HistoryRecorder, StoredSession,
};
use singletree_durable::{Journal, JournalMaintenance};
use singletree_engine::{Ctx, Graph, Signal};
use singletree_harness::{Chat, Durability, Error, GraphAgent, TurnId, WhileSuspended};
use tokio::sync::Semaphore;

use crate::race_mail;
use crate::rig::{Effects, HandClock, MarkedIds, Talk, approve, asking, chain, echo, says};

/// One round's ground: a session of its own, with a chat of its own, over a store that all rounds share.
#[derive(Clone)]
pub(crate) struct Ground {
    pub(crate) session: String,
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) upkeep: Arc<dyn JournalMaintenance>,
    pub(crate) log: Arc<HistoryRecorder>,
    pub(crate) ids: Arc<MarkedIds>,
    pub(crate) clock: Arc<HandClock>,
}

/// The answer that a contender received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) turn: Option<String>,
    pub(crate) end: AuditedOutcome,
}

pub(crate) type Contender = BoxFuture<'static, Said>;

/// Two contenders at the line.
pub(crate) struct Pair {
    pub(crate) chat: Chat,
    pub(crate) contenders: [Contender; 2],
}

/// A race.
pub(crate) struct Race {
    pub(crate) name: &'static str,
    pub(crate) sides: [&'static str; 2],
    pub(crate) prepare: fn(Ground) -> BoxFuture<'static, Pair>,
    /// Returns whether the first contender won, or a description of the fault.
    pub(crate) judge: fn(&Ground, &[Said; 2], &StoredSession) -> Result<bool, String>,
}

pub(crate) const RACES: [Race; 14] = [
    Race { name: "two sends", sides: ["first", "second"], prepare: two_sends, judge: judge_sends },
    Race {
        name: "two equal approvals",
        sides: ["first", "second"],
        prepare: two_approvals,
        judge: judge_approvals,
    },
    Race { name: "one key twice", sides: ["first", "second"], prepare: one_key, judge: judge_key },
    Race {
        name: "resume against send (reject)",
        sides: ["resume", "send"],
        prepare: |it| resume_or_send(it, WhileSuspended::Reject),
        judge: judge_reject,
    },
    Race {
        name: "resume against send (queue)",
        sides: ["resume", "send"],
        prepare: |it| resume_or_send(it, WhileSuspended::Queue),
        judge: judge_queue,
    },
    Race {
        name: "resume against send (supersede)",
        sides: ["resume", "send"],
        prepare: |it| resume_or_send(it, WhileSuspended::Supersede),
        judge: judge_supersede,
    },
    Race {
        name: "cancel against completion",
        sides: ["cancel", "completion"],
        prepare: cancel,
        judge: judge_cancel,
    },
    Race {
        name: "deadline against answer",
        sides: ["deadline", "answer"],
        prepare: |it| deadline(it, Signal::new("ok")),
        judge: judge_expiry,
    },
    Race {
        name: "deadline with values against answer",
        sides: ["deadline", "answer"],
        prepare: |it| deadline(it, Signal::new("ok").on_deadline(approve(false))),
        judge: judge_values,
    },
    race_mail::EARLY,
    race_mail::AGAIN,
    race_mail::CONFLICT,
    race_mail::AGE,
    race_mail::CANCEL,
];

impl Ground {
    pub(crate) fn new(
        session: String,
        journal: Arc<dyn Journal>,
        upkeep: Arc<dyn JournalMaintenance>,
    ) -> Self {
        let (log, ids, clock) = (Arc::default(), Arc::default(), HandClock::new());
        Self { session, journal, upkeep, log, ids, clock }
    }

    fn open(&self, graph: &Graph<Talk>, durability: Durability, policy: WhileSuspended) -> Chat {
        self.open_agent(GraphAgent::new("a", graph).durability(durability).while_suspended(policy))
    }

    pub(crate) fn open_agent(&self, agent: GraphAgent) -> Chat {
        let builder = Chat::builder().agent(agent).clock(self.clock.clone()).ids(self.ids.clone());
        builder.open_shared(self.journal.clone(), self.upkeep.clone()).unwrap()
    }

    pub(crate) fn effects(&self) -> Effects {
        Effects { log: self.log.clone(), session: self.session.clone() }
    }

    pub(crate) fn client(&self, chat: &Chat, name: &str) -> (AuditedClient, String) {
        (AuditedClient::new(chat.clone(), self.log.clone()).named(name), self.session.clone())
    }

    /// Sends a message and returns its result.
    fn send(&self, chat: &Chat, text: &'static str, key: Option<&'static str>) -> Contender {
        let (client, session) = self.client(chat, text);
        Box::pin(async move { Said::of(client.send_message(&session, text, key).await.as_ref()) })
    }

    /// Answers the pending wait, an approval as one, and returns the result.
    fn answer(&self, chat: &Chat, name: &'static str, approval: Option<u64>) -> Contender {
        let (client, session) = self.client(chat, name);
        Box::pin(async move {
            let to = approval.map(|it| (it, "digest"));
            match client.answer_signal((&session, "ok"), approve(true), to).await {
                (call, Ok(turn)) => Said::of(client.await_outcome(call, &turn).await.as_ref()),
                (_, Err(errored)) => Said { turn: None, end: errored.as_ref().into() },
            }
        })
    }

    /// Brings the session to its wait.
    async fn suspend(&self, chat: &Chat) -> u64 {
        let (client, session) = self.client(chat, "setting");
        let outcome = client.send_message(&session, "ask me", None).await;
        assert_eq!(outcome.as_str(), "suspended");
        chat.session(&session).pending().await.unwrap()[0].wait.no
    }
}

impl Said {
    pub(crate) fn of(outcome: &singletree_harness::ChatTurnOutcome) -> Self {
        Self { turn: outcome.turn_id().map(ToString::to_string), end: outcome.into() }
    }
}

fn no_of(said: &Said, stored: &StoredSession) -> Result<u64, String> {
    let turn = stored.turns.iter().find(|it| Some(&it.id) == said.turn.as_ref());
    turn.map(|it| it.no).ok_or_else(|| format!("{said:?} is of no stored turn"))
}

/// Demands that something holds.
pub(crate) fn must(holds: bool, what: &str, said: &[Said; 2]) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("{what}: {said:?}")) }
}

pub(crate) fn completed(said: &Said, reply: &str) -> bool {
    said.end == AuditedOutcome::Completed { replies: vec![format!("assistant:{reply}")] }
}

// Two sends on one session: none lost, none doubled, each with its own reply.
fn two_sends(ground: Ground) -> BoxFuture<'static, Pair> {
    Box::pin(async move {
        let chat = ground.open(&echo(), Durability::Turn, WhileSuspended::Reject);
        let contenders = [ground.send(&chat, "one", None), ground.send(&chat, "two", None)];
        Pair { chat, contenders }
    })
}

fn judge_sends(_: &Ground, said: &[Said; 2], stored: &StoredSession) -> Result<bool, String> {
    must(completed(&said[0], "one") && completed(&said[1], "two"), "each has its reply", said)?;
    must(stored.turns.len() == 2 && stored.messages.len() == 4, "two turns, four messages", said)?;
    Ok(no_of(&said[0], stored)? < no_of(&said[1], stored)?)
}

// Two equal approvals: one effect, and both are told of it.
fn two_approvals(ground: Ground) -> BoxFuture<'static, Pair> {
    Box::pin(async move {
        let graph = asking(Signal::new("ok").approves("digest"), ground.effects());
        let chat = ground.open(&graph, Durability::Step, WhileSuspended::Reject);
        let no = ground.suspend(&chat).await;
        let contenders = ["first", "second"].map(|it| ground.answer(&chat, it, Some(no)));
        Pair { chat, contenders }
    })
}

fn judge_approvals(ground: &Ground, said: &[Said; 2], stored: &StoredSession) -> Result<bool, String> {
    must(said[0] == said[1] && completed(&said[0], "done"), "both have the one outcome", said)?;
    must(ground.effects().count() == 1, "one effect", said)?;
    match stored.waits[0].by.as_deref() {
        Some("first") => Ok(true),
        Some("second") => Ok(false),
        by => Err(format!("answered by {by:?}")),
    }
}

// The same key twice: one turn, and both are told of it.
fn one_key(ground: Ground) -> BoxFuture<'static, Pair> {
    Box::pin(async move {
        let chat = ground.open(&echo(), Durability::Turn, WhileSuspended::Reject);
        let contenders = [0, 1].map(|_| ground.send(&chat, "once", Some("k")));
        Pair { chat, contenders }
    })
}

fn judge_key(ground: &Ground, said: &[Said; 2], stored: &StoredSession) -> Result<bool, String> {
    must(said[0] == said[1] && completed(&said[0], "once"), "both have the one outcome", said)?;
    must(stored.turns.len() == 1 && stored.messages.len() == 2, "one turn", said)?;
    match ground.ids.maker(&stored.turns[0].invocation) {
        Some(0) => Ok(true),
        Some(1) => Ok(false),
        maker => Err(format!("the turn was made by {maker:?}")),
    }
}

// A resume against a send: the policy decides whether the send is refused, is queued, or supersedes the wait.
fn resume_or_send(ground: Ground, policy: WhileSuspended) -> BoxFuture<'static, Pair> {
    Box::pin(async move {
        let graph = asking(Signal::new("ok").approves("digest"), ground.effects());
        let chat = ground.open(&graph, Durability::Step, policy);
        let no = ground.suspend(&chat).await;
        // The send asks in its turn: the answer names the wait that it is about.
        let contenders = [ground.answer(&chat, "first", Some(no)), ground.send(&chat, "next", None)];
        Pair { chat, contenders }
    })
}

fn suspended(said: &Said) -> bool {
    said.end
        == AuditedOutcome::Suspended { signal: "ok".into(), wait: 1, pending: vec!["assistant:ask".into()] }
}

fn judge_reject(ground: &Ground, said: &[Said; 2], stored: &StoredSession) -> Result<bool, String> {
    must(completed(&said[0], "done") && ground.effects().count() == 1, "the resume completes", said)?;
    if said[1].end.as_str() == "chat_session_suspended" {
        must(stored.messages.len() == 3, "a refused send adds nothing", said)?;
        return Ok(false);
    }
    must(suspended(&said[1]), "the send asks in its turn", said)?;
    Ok(true)
}

fn judge_queue(ground: &Ground, said: &[Said; 2], stored: &StoredSession) -> Result<bool, String> {
    must(completed(&said[0], "done") && ground.effects().count() == 1, "the resume completes", said)?;
    must(suspended(&said[1]), "the send asks in its turn", said)?;
    let briefs: Vec<&str> = stored.messages.iter().map(|it| it.brief.as_str()).collect();
    let expected = ["user:ask me", "assistant:ask", "assistant:done", "user:next", "assistant:ask"];
    must(briefs == expected, "the resume goes first", said)?;
    Ok(no_of(&said[0], stored)? < no_of(&said[1], stored)?)
}

fn judge_supersede(ground: &Ground, said: &[Said; 2], stored: &StoredSession) -> Result<bool, String> {
    must(suspended(&said[1]), "the send asks in its turn, or in the place of the first", said)?;
    let state = stored.waits[0].state;
    // The first wait is gone, or the send's own is there already, which the answer is not about.
    if ["harness_signal_correlation_failed", "chat_signal_mismatch"].contains(&said[0].end.as_str()) {
        must(state == AuditedWaitState::Cancelled && ground.effects().count() == 0, "it was given up", said)?;
        return Ok(false);
    }
    must(completed(&said[0], "done") && state == AuditedWaitState::Consumed, "the resume completes", said)?;
    must(ground.effects().count() == 1, "one effect", said)?;
    Ok(true)
}

// A cancel against the completion of the turn: the caller and who cancels are told of the same end.
fn cancel(ground: Ground) -> BoxFuture<'static, Pair> {
    Box::pin(async move {
        let (door, came) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let (at_door, in_node) = (door.clone(), came.clone());
        let builder = Graph::builder().node("wait", move |_: Ctx<Talk>| {
            let (door, came) = (at_door.clone(), in_node.clone());
            async move {
                came.add_permits(1);
                door.acquire().await.unwrap().forget();
                Ok(says("done"))
            }
        });
        let chat = ground.open(&chain(builder, &["wait"]), Durability::Turn, WhileSuspended::Reject);
        let (client, session) = ground.client(&chat, "sender");
        let (call, turn) = client.submit_message(&session, "go", None).await;
        let turn = turn.unwrap();
        came.acquire().await.unwrap().forget();
        let id: TurnId = turn.id().clone();
        let (canceller, at) = (client.clone(), session.clone());
        let cancels: Contender = Box::pin(async move {
            let (turn, outcome) = canceller.cancel_turn(&at, &id).await.unwrap();
            Said { turn: Some(turn.to_string()), end: outcome.as_ref().into() }
        });
        let completes: Contender = Box::pin(async move {
            door.add_permits(1);
            Said::of(client.await_outcome(call, &turn).await.as_ref())
        });
        Pair { chat, contenders: [cancels, completes] }
    })
}

fn judge_cancel(_: &Ground, said: &[Said; 2], stored: &StoredSession) -> Result<bool, String> {
    must(said[0] == said[1], "both are told of the one end", said)?;
    if completed(&said[1], "done") {
        must(stored.messages.len() == 2, "the reply is kept", said)?;
        return Ok(false);
    }
    must(said[1].end.as_str() == "chat_turn_cancelled", "it was cancelled", said)?;
    must(stored.messages.len() == 1, "the message is kept", said)?;
    Ok(true)
}

// A deadline against an answer: one ends the wait. The clock reaches the deadline while they race: an answer that is
// taken from then on is refused (D37).
fn deadline(ground: Ground, signal: Signal) -> BoxFuture<'static, Pair> {
    Box::pin(async move {
        let signal = signal.expires_in(Duration::from_secs(60));
        let graph = asking(signal, ground.effects());
        let chat = ground.open(&graph, Durability::Step, WhileSuspended::Reject);
        ground.suspend(&chat).await;
        let over = Arc::new(Semaphore::new(0));
        let ended = over.clone();
        let subscription = chat.session(&ground.session).subscribe(move |_| ended.add_permits(1)).unwrap();
        let (timer, clock) = (chat.clone(), ground.clock.clone());
        let passes: Contender = Box::pin(async move {
            clock.advance(60_001);
            // The first sweep begins to watch deadlines; whether this one was first, the judge reads.
            timer.sweep().await.unwrap();
            // A refused answer leaves the wait to the deadline, whose turn a shutdown would not begin any more.
            over.acquire().await.unwrap().forget();
            drop(subscription);
            let category = Error::SignalExpired { signal: "ok".into() }.category().to_owned();
            Said { turn: None, end: AuditedOutcome::Errored { category, retry_safe: false, recorded: true } }
        });
        let answers = ground.answer(&chat, "first", None);
        Pair { chat, contenders: [passes, answers] }
    })
}

fn judge_expiry(ground: &Ground, said: &[Said; 2], stored: &StoredSession) -> Result<bool, String> {
    let ended = stored.turns.last().ok_or("no turn")?;
    if said[1].end.as_str() == "chat_signal_expired" {
        let closed = ended.sort == AuditedTurnKind::Close
            && ended.end.as_ref().is_some_and(|it| it.as_str() == "chat_signal_expired");
        must(closed && stored.waits[0].state == AuditedWaitState::Expired, "the deadline ended it", said)?;
        must(ground.effects().count() == 0, "no effect", said)?;
        return Ok(true);
    }
    answered(ground, said, stored)
}

fn judge_values(ground: &Ground, said: &[Said; 2], stored: &StoredSession) -> Result<bool, String> {
    let ended = stored.turns.last().ok_or("no turn")?;
    if said[1].end.as_str() == "chat_signal_expired" {
        let went_on =
            ended.end == Some(AuditedOutcome::Completed { replies: vec!["assistant:not done".into()] });
        must(
            went_on && stored.waits[0].state == AuditedWaitState::Expired,
            "it went on with its values",
            said,
        )?;
        must(ground.effects().count() == 0, "no effect", said)?;
        return Ok(true);
    }
    answered(ground, said, stored)
}

fn answered(ground: &Ground, said: &[Said; 2], stored: &StoredSession) -> Result<bool, String> {
    must(completed(&said[1], "done") && stored.turns.len() == 2, "the answer ended it", said)?;
    must(stored.waits[0].state == AuditedWaitState::Consumed, "the wait is consumed", said)?;
    must(ground.effects().count() == 1, "one effect", said)?;
    Ok(false)
}
