//! The races of signals that come early: against the suspension that waits for them, against each other, against
//! their age and against a cancel (D2).

use std::sync::Arc;

use futures_util::future::BoxFuture;
use singletree_audit::{AuditedClient, AuditedOutcome, AuditedTurnKind, AuditedWaitState, StoredSession};
use singletree_engine::{Ctx, Graph, Signal};
use singletree_harness::{
    Chat, ChatTurnOutcome, Durability, GraphAgent, Limits, SignalDelivery, SuspendedTurn, Turn,
};
use tokio::sync::Semaphore;

use crate::race::{Contender, Ground, Pair, Race, Said, completed, must};
use crate::rig::{Effects, Talk, acted, approve, chain, says};

pub(crate) const EARLY: Race = Race {
    name: "early signal against suspension",
    sides: ["signal", "suspension"],
    prepare: early,
    judge: judge_early,
};

pub(crate) const AGAIN: Race = Race {
    name: "early signal again against suspension",
    sides: ["signal", "suspension"],
    prepare: again,
    judge: judge_again,
};

pub(crate) const CONFLICT: Race = Race {
    name: "two early signals that conflict",
    sides: ["first", "second"],
    prepare: conflict,
    judge: judge_conflict,
};

pub(crate) const AGE: Race = Race {
    name: "age of an early signal against suspension",
    sides: ["age", "suspension"],
    prepare: age,
    judge: judge_age,
};

pub(crate) const CANCEL: Race = Race {
    name: "cancel against suspension with an early signal",
    sides: ["cancel", "suspension"],
    prepare: cancel,
    judge: judge_cancel,
};

/// A graph that waits at a door before it asks; it has its effect when it is approved.
fn meeting(door: Arc<Semaphore>, came: Arc<Semaphore>, effects: Effects) -> Graph<Talk> {
    let builder = Graph::builder()
        .node("ask", move |_: Ctx<Talk>| {
            let (door, came) = (door.clone(), came.clone());
            async move {
                came.add_permits(1);
                door.acquire().await.unwrap().forget();
                Ok(says("ask"))
            }
        })
        .node("gate", |cx: Ctx<Talk>| async move { cx.suspend(Signal::new("ok")).await })
        .node("act", move |cx: Ctx<Talk>| {
            let approved = cx.state().approved;
            if approved {
                effects.happen();
            }
            async move { Ok(says(acted(approved)).approved(false)) }
        });
    chain(builder, &["ask", "gate", "act"])
}

/// A turn that stands at the door before its suspension.
struct Meeting {
    ground: Ground,
    chat: Chat,
    door: Arc<Semaphore>,
    sender: AuditedClient,
    call: u64,
    turn: Turn,
}

impl Meeting {
    async fn new(ground: Ground) -> Self {
        let (door, came) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let graph = meeting(door.clone(), came.clone(), ground.effects());
        let agent = GraphAgent::new("a", &graph).durability(Durability::Step).early_signals(["ok"]);
        let chat = ground.open_agent(agent);
        let (sender, session) = ground.client(&chat, "sender");
        let (call, turn) = sender.submit_message(&session, "go", None).await;
        let turn = turn.unwrap();
        came.acquire().await.unwrap().forget();
        Self { ground, chat, door, sender, call, turn }
    }

    /// As [`Meeting::new`], with an early signal that is kept.
    async fn with_mail(ground: Ground) -> Self {
        let meeting = Self::new(ground).await;
        let (client, session) = meeting.ground.client(&meeting.chat, "kept");
        let (_, kept) = client.deliver_signal((&session, "ok"), approve(true)).await;
        assert!(matches!(kept, Ok(SignalDelivery::Kept { .. })), "{kept:?}");
        meeting
    }

    /// Lets the turn suspend. Ends when the turn that resumes at once, if any, has ended, too.
    fn suspends(&self) -> Contender {
        let (chat, door, sender) = (self.chat.clone(), self.door.clone(), self.sender.clone());
        let (call, turn) = (self.call, self.turn.clone());
        Box::pin(async move {
            door.add_permits(1);
            let outcome = sender.await_outcome(call, &turn).await;
            resumed(&chat, &outcome).await;
            Said::of(&outcome)
        })
    }

    fn signals(&self, name: &'static str, approved: bool) -> BoxFuture<'static, Said> {
        let (client, session) = self.ground.client(&self.chat, name);
        Box::pin(async move {
            match client.deliver_signal((&session, "ok"), approve(approved)).await {
                (_, Ok(SignalDelivery::Kept { .. })) => kept(),
                (call, Ok(SignalDelivery::Resumed(turn))) => {
                    Said::of(client.await_outcome(call, &turn).await.as_ref())
                }
                (_, Err(errored)) => Said { turn: None, end: errored.as_ref().into() },
            }
        })
    }

    fn pair(self, contenders: [Contender; 2]) -> Pair {
        Pair { chat: self.chat, contenders }
    }
}

/// Waits for the turn that a suspension has started with a signal that had come before.
async fn resumed(chat: &Chat, outcome: &ChatTurnOutcome) {
    if let ChatTurnOutcome::Suspended(SuspendedTurn { resumed_by: Some(by), .. }) = outcome {
        chat.turn(by).await.unwrap().outcome().await;
    }
}

/// Returns the answer for a signal that is kept, and has no turn yet.
fn kept() -> Said {
    Said { turn: None, end: AuditedOutcome::Completed { replies: Vec::new() } }
}

fn suspended(said: &Said) -> bool {
    said.end
        == AuditedOutcome::Suspended { signal: "ok".into(), wait: 0, pending: vec!["assistant:ask".into()] }
}

/// Demands that the wait was answered by one of these, and that everything went on from there, once.
fn went_on(
    ground: &Ground,
    (by, approved): (&str, bool),
    said: &[Said; 2],
    stored: &StoredSession,
) -> Result<(), String> {
    let [wait] = stored.waits.as_slice() else { return Err(format!("{} waits", stored.waits.len())) };
    must(
        wait.state == AuditedWaitState::Consumed && wait.by.as_deref() == Some(by),
        "the signal ended it",
        said,
    )?;
    let [asked, resumed] = stored.turns.as_slice() else {
        return Err(format!("{} turns", stored.turns.len()));
    };
    let reply = format!("assistant:{}", acted(approved));
    let ends = matches!(asked.end, Some(AuditedOutcome::Suspended { .. }))
        && resumed.sort == AuditedTurnKind::Resume
        && resumed.end == Some(AuditedOutcome::Completed { replies: vec![reply] });
    must(ends, "it went on with it", said)?;
    must(ground.effects().count() == usize::from(approved), "as often as it was approved", said)
}

// A signal against the suspension that it is for: whether it is kept or not, the graph resumes with it.
fn early(ground: Ground) -> BoxFuture<'static, Pair> {
    Box::pin(async move {
        let meeting = Meeting::new(ground).await;
        let contenders = [meeting.signals("signal", true), meeting.suspends()];
        meeting.pair(contenders)
    })
}

fn judge_early(ground: &Ground, said: &[Said; 2], stored: &StoredSession) -> Result<bool, String> {
    must(suspended(&said[1]), "the turn suspends", said)?;
    went_on(ground, ("signal", true), said, stored)?;
    first_was_kept(said)
}

fn first_was_kept(said: &[Said; 2]) -> Result<bool, String> {
    must(said[0] == kept() || completed(&said[0], "done"), "it is kept, or told how it went on", said)?;
    Ok(said[0] == kept())
}

// The same signal again: it gets the answer of the first, whether that is kept or has been taken.
fn again(ground: Ground) -> BoxFuture<'static, Pair> {
    Box::pin(async move {
        let meeting = Meeting::with_mail(ground).await;
        let contenders = [meeting.signals("again", true), meeting.suspends()];
        meeting.pair(contenders)
    })
}

fn judge_again(ground: &Ground, said: &[Said; 2], stored: &StoredSession) -> Result<bool, String> {
    must(suspended(&said[1]), "the turn suspends", said)?;
    went_on(ground, ("kept", true), said, stored)?;
    first_was_kept(said)
}

// Two signals that say different things: one counts, the other is told so; each lets the turn go on when it is
// answered, so that the slower one meets the suspension, too.
fn conflict(ground: Ground) -> BoxFuture<'static, Pair> {
    Box::pin(async move {
        let meeting = Meeting::new(ground).await;
        let go_on = |signals: BoxFuture<'static, Said>, suspends: Contender| -> Contender {
            Box::pin(async move {
                let said = signals.await;
                suspends.await;
                said
            })
        };
        let (chat, door, turn) = (meeting.chat.clone(), meeting.door.clone(), meeting.turn.clone());
        let waits: Contender = Box::pin(async move {
            door.add_permits(1);
            let outcome = turn.outcome().await;
            resumed(&chat, &outcome).await;
            Said::of(&outcome)
        });
        let contenders = [
            go_on(meeting.signals("first", true), meeting.suspends()),
            go_on(meeting.signals("second", false), waits),
        ];
        meeting.pair(contenders)
    })
}

fn judge_conflict(ground: &Ground, said: &[Said; 2], stored: &StoredSession) -> Result<bool, String> {
    let lost = |it: &Said| it.end.as_str() == "chat_signal_conflict";
    must(lost(&said[0]) != lost(&said[1]), "one counts, and the other is told that it does not", said)?;
    let first = lost(&said[1]);
    went_on(ground, if first { ("first", true) } else { ("second", false) }, said, stored)?;
    Ok(first)
}

// A signal that becomes too old against the suspension that it is for: it is taken, or as if it had not come.
fn age(ground: Ground) -> BoxFuture<'static, Pair> {
    Box::pin(async move {
        let meeting = Meeting::with_mail(ground).await;
        let clock = meeting.ground.clock.clone();
        let ages: Contender = Box::pin(async move {
            let age = i64::try_from(Limits::default().mail_age.as_millis()).unwrap();
            clock.advance(age + 1);
            kept()
        });
        let contenders = [ages, meeting.suspends()];
        meeting.pair(contenders)
    })
}

fn judge_age(ground: &Ground, said: &[Said; 2], stored: &StoredSession) -> Result<bool, String> {
    must(suspended(&said[1]), "the turn suspends", said)?;
    if stored.waits.iter().any(|it| it.state == AuditedWaitState::Pending) {
        must(stored.turns.len() == 1 && ground.effects().count() == 0, "nothing went on", said)?;
        return Ok(true);
    }
    went_on(ground, ("kept", true), said, stored)?;
    Ok(false)
}

// A cancel against a suspension that goes on at once: the turn is cancelled, or has ended before that.
fn cancel(ground: Ground) -> BoxFuture<'static, Pair> {
    Box::pin(async move {
        let meeting = Meeting::with_mail(ground).await;
        let (client, session) = meeting.ground.client(&meeting.chat, "canceller");
        let id = meeting.turn.id().clone();
        let cancels: Contender = Box::pin(async move {
            let (turn, outcome) = client.cancel_turn(&session, &id).await.unwrap();
            Said { turn: Some(turn.to_string()), end: outcome.as_ref().into() }
        });
        let contenders = [cancels, meeting.suspends()];
        meeting.pair(contenders)
    })
}

fn judge_cancel(ground: &Ground, said: &[Said; 2], stored: &StoredSession) -> Result<bool, String> {
    must(said[0] == said[1], "both are told of the one end", said)?;
    if suspended(&said[1]) {
        went_on(ground, ("kept", true), said, stored)?;
        return Ok(false);
    }
    must(said[1].end.as_str() == "chat_turn_cancelled", "it was cancelled", said)?;
    must(stored.turns.len() == 1 && ground.effects().count() == 0, "nothing went on", said)?;
    Ok(true)
}
