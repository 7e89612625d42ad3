//! How waits end: by their signal, by a deadline, or given up (D2, INV-7).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use singletree_durable::{Json, Timestamp, TurnKind, WaitRow, WaitStatus};
use singletree_engine::Error as RunError;

use crate::hot::{Answering, Hot, Listener, Queued, Ticket, Work};
use crate::house::House;
use crate::outcome::ChatTurnOutcome;
use crate::prepare::Preparing;
use crate::stored::corrupt;
use crate::{Error, transition};

/// Why a wait ends without being resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Somebody cancelled it (D10).
    Cancelled,
    /// A new message took its place (D1).
    Superseded,
    /// Its deadline passed and it names no values to go on with (D2).
    Expired,
}

/// Ends the session's wait: its invocation ends errored, in a turn of its own. Nothing happens when there is none.
pub(crate) async fn close(
    house: &Arc<House>,
    hot: &Arc<Hot>,
    end: End,
) -> Result<Option<Arc<ChatTurnOutcome>>, Error> {
    let Some(wait) = hot.desk().wait.clone() else { return Ok(None) };
    let (status, error) = match end {
        End::Cancelled | End::Superseded => (WaitStatus::Cancelled, Error::Cancelled),
        End::Expired => (WaitStatus::Expired, Error::SignalExpired { signal: wait.signal.clone() }),
    };
    let any = house.any_served();
    let preparing = Preparing { house, hot, served: any };
    let suspended = preparing.turn(wait.turn).await?;
    let served = house.agents.get(&suspended.agent).unwrap_or(any);
    let mut turning = Preparing { house, hot, served }.turning(suspended.clone()).await?;
    turning.positioned = true;
    let (commit, outcome, stored, head) = {
        let mut desk = hot.desk();
        let mut writing = house.write(hot, &desk);
        turning.row = transition::claim::next_row(&mut writing, &suspended, &wait, TurnKind::Close);
        let id = crate::record::TurnRowExt::id(&turning.row);
        let errored = served.errored(&house.limits, Some(id), &error);
        let ended = WaitRow { status, ..wait };
        let outcome = transition::close::close(&mut writing, &mut turning, ended, errored)?;
        (house.send(&mut desk, writing), outcome, turning.stored, turning.head)
    };
    house.land(hot, commit).await?;
    let listeners = {
        let mut desk = hot.desk();
        desk.wait = None;
        desk.head = Some(head);
        desk.fields = Some(stored);
        desk.listeners.clone()
    };
    tell_listeners(&listeners, &outcome);
    Ok(Some(outcome))
}

/// Runs the turn that an answer starts; none when the answer was not taken: then nothing was consumed.
pub(crate) async fn run_answer(
    house: &Arc<House>,
    hot: &Arc<Hot>,
    ticket: &Arc<Ticket>,
    answering: Answering,
) -> Option<Arc<ChatTurnOutcome>> {
    let answered = (answering.wait, answering.payload.clone());
    if let Some(running) = hot.desk().running.as_mut() {
        running.answers = Some(answered);
    }
    let wait = hot.desk().wait.clone().filter(|it| it.no == answering.wait);
    let Some(wait) = wait else {
        refuse(answering, Error::Correlation { why: "the wait has ended".into() });
        return None;
    };
    let served = match house.served(&agent_of(house, hot, &wait).await) {
        Ok(served) => served.clone(),
        Err(error) => {
            refuse(answering, error);
            return None;
        }
    };
    let preparing = Preparing { house, hot, served: &served };
    let ready = match preparing.answer(wait, answering).await {
        Ok(ready) => ready,
        Err((error, answering)) => {
            refuse(answering, error);
            return None;
        }
    };
    ticket.name(crate::record::TurnRowExt::id(&ready.keeper.turning().row));
    house.run_answered(hot, ticket, ready).await
}

async fn agent_of(house: &Arc<House>, hot: &Arc<Hot>, wait: &WaitRow) -> String {
    let preparing = Preparing { house, hot, served: house.any_served() };
    preparing.turn(wait.turn).await.map(|it| it.agent).unwrap_or_default()
}

pub(crate) fn refuse(answering: Answering, error: Error) {
    if let Some(taken) = answering.taken {
        // Who answered may have gone.
        drop(taken.send(Err(error)));
    }
}

/// Puts an end of a wait before the messages that wait behind it (INV-1, D1).
pub(crate) fn enqueue(hot: &Hot, ticket: Arc<Ticket>, answering: Answering) {
    let mut desk = hot.desk();
    let before = desk.queue.iter().position(|it| matches!(it.work, Work::Message { .. }));
    let at = before.unwrap_or(desk.queue.len());
    desk.queue.insert(at, Queued { ticket, work: Work::Answer(answering) });
}

pub(crate) fn tell_listeners(listeners: &[(u64, Listener)], outcome: &Arc<ChatTurnOutcome>) {
    for (_, listener) in listeners {
        // A listener's panic is its own: the turn is over and recorded.
        drop(catch_unwind(AssertUnwindSafe(|| listener(outcome.clone()))));
    }
}

impl House {
    /// Watches deadlines in the background, from the first call on.
    pub(crate) fn watch_deadlines(self: &Arc<Self>) {
        use std::sync::atomic::Ordering;
        if self.watching.swap(true, Ordering::AcqRel) {
            return;
        }
        let house = self.clone();
        self.tasks.spawn(async move {
            while !house.is_closing() {
                let next = house.expire_due().await;
                let bell = house.deadlines.notified();
                drop(tokio::time::timeout(next, bell).await);
            }
        });
    }

    /// Ends the waits whose deadline has passed; returns how long to wait for the next one.
    pub(crate) async fn expire_due(self: &Arc<Self>) -> Duration {
        const IDLE: Duration = Duration::from_secs(3600);
        const AGAIN: Duration = Duration::from_secs(1);
        const PAGE: u64 = 256;
        let now = self.now();
        let Ok(due) = self.read(self.upkeep.deadlines(Some(now), PAGE)).await else { return AGAIN };
        let mut left = due.len() as u64 == PAGE;
        for (key, wait) in due.into_iter().filter(|(key, _)| key.tenant == self.tenant) {
            let hot = self.hot(&key);
            left |= self.expire(&hot, wait).await.is_err();
        }
        if left {
            return AGAIN;
        }
        match self.read(self.upkeep.deadlines(None, 1)).await {
            Ok(next) => next.first().and_then(|(_, it)| it.deadline).map_or(IDLE, |it| wait_for(it, now)),
            Err(_) => AGAIN,
        }
    }

    async fn expire(self: &Arc<Self>, hot: &Arc<Hot>, wait: WaitRow) -> Result<(), Error> {
        self.ready(hot).await?;
        let Some(fields) = on_deadline(&wait)? else {
            // Behind whatever runs in the session now: an answer that came first wins.
            if !take_turn(hot) {
                return Err(RunError::Argument { what: "the session is busy".into() }.into());
            }
            let still = hot.desk().wait.as_ref().is_some_and(|it| it.no == wait.no);
            let closed = if still { close(self, hot, End::Expired).await.map(drop) } else { Ok(()) };
            hot.desk().running = None;
            self.kick(hot);
            return closed;
        };
        if hot.desk().wait.as_ref().is_none_or(|it| it.no != wait.no) {
            return Ok(());
        }
        let answering = Answering { wait: wait.no, payload: fields, from: None, expired: true, taken: None };
        enqueue(hot, Ticket::new(None, None), answering);
        self.kick(hot);
        Ok(())
    }
}

/// Takes the session's turn to do something between turns; false when one runs.
pub(crate) fn take_turn(hot: &Hot) -> bool {
    let mut desk = hot.desk();
    if desk.running.is_some() {
        return false;
    }
    let ticket = Ticket::new(None, None);
    desk.running = Some(crate::hot::Running { ticket, no: None, stream: None, answers: None });
    true
}

fn wait_for(deadline: Timestamp, now: Timestamp) -> Duration {
    deadline.since(now).max(Duration::from_millis(1))
}

fn on_deadline(wait: &WaitRow) -> Result<Option<Map<String, Value>>, Error> {
    let fields = wait.on_deadline.as_ref().map(Json::decode).transpose();
    fields.map_err(|it| corrupt(format!("on_deadline of wait {}", wait.no), Some(it.into())))
}
