//! Listeners: they follow a session, come at any time, leave, and come back. Each one checks the order of the events that it hears (D9).

mod connection;
mod heard;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{Either, select};
use singletree_durable::Journal;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::client::SimulatedSessionName;
use crate::process::SimulatedProcess;
use crate::random::SimulationRandom;
use crate::world::SimulatedWorld;
use connection::{
    FollowerReport, Listening, ReadingPace, ReportedEvent, can_listen_over_http, listen_over_http,
    listen_to_chat,
};
use heard::{HeardEvent, HeardEvents};

/// How many listeners a run has at most.
const FOLLOWERS_MAX: usize = 2;

/// Of a hundred connections that HTTP has, how many are made over it.
const HTTP_PERCENT: u64 = 50;

/// Why a listener stopped reading.
#[derive(Debug, PartialEq, Eq)]
enum Stop {
    /// It has listened long enough.
    Left,
    /// The connection was lost.
    Lost,
    /// The stream ended with an error: so the session was deleted, or cannot be read now.
    Ended(String),
}

/// How far a listener has come that stays until the end.
#[derive(Debug, Clone)]
pub(crate) struct FollowedSession {
    pub(crate) session: SimulatedSessionName,
    /// The number of the last durable event that it heard.
    pub(crate) last: Option<u64>,
}

/// One listener.
pub(crate) struct SimulatedFollower {
    world: Arc<SimulatedWorld>,
    number: usize,
    random: SimulationRandom,
    followed: Option<SimulatedSessionName>,
    heard: HeardEvents,
}

/// Draws how many listeners a run has.
pub(crate) fn draw_follower_count(seed: u64) -> usize {
    SimulationRandom::from_name(seed, "followers").draw_index(FOLLOWERS_MAX + 1)
}

impl SimulatedFollower {
    pub(crate) fn new(world: Arc<SimulatedWorld>, number: usize) -> Self {
        let random = SimulationRandom::from_name(world.seed, &format!("follower {number}"));
        let heard = HeardEvents::new(world.agents.is_some());
        Self { world, number, random, followed: None, heard }
    }

    /// Follows one session after the other; when no call is left, stays with one until the end.
    pub(crate) async fn run(mut self) {
        loop {
            self.world.executor.sleep_for(self.draw_millis(1, 3_000)).await;
            let stays = !self.world.has_operations();
            if !stays && self.random.draw_percent(30) {
                self.leave_session();
            }
            let Some(session) = self.followed.clone().or_else(|| self.choose_session()) else { continue };
            self.followed = Some(session.clone());
            self.note_position();
            let stop = self.follow_session(&session, stays).await;
            self.world.executor.trace_event(format_args!("follower {} stops: {stop:?}", self.number));
            match stop {
                Stop::Left | Stop::Lost => {}
                // What it has heard is in no log any more, or not all that it has missed.
                Stop::Ended(category) if is_final(&category) => {
                    self.world.coverage.note_if(
                        category == "chat_session_unknown",
                        "a listener was told that its session was deleted",
                    );
                    self.leave_session();
                }
                Stop::Ended(_) => {}
            }
        }
    }

    fn draw_millis(&self, low: u64, high: u64) -> Duration {
        Duration::from_millis(self.random.draw_between(low, high))
    }

    fn leave_session(&mut self) {
        self.followed = None;
        self.heard = HeardEvents::new(self.world.agents.is_some());
        self.note_position();
    }

    fn choose_session(&self) -> Option<SimulatedSessionName> {
        let keys = self.world.session_keys();
        let chosen = self.random.draw_from(&keys)?;
        Some(SimulatedSessionName { tenant: chosen.tenant.to_string(), session: chosen.session.to_string() })
    }

    /// Says how far it has come, for the judgement of the run.
    fn note_position(&self) {
        let last = self.heard.last().map(|id| id.seq);
        let followed = self.followed.clone().map(|session| FollowedSession { session, last });
        self.world.note_followed(self.number, followed);
    }

    /// Follows a session over one connection, for a while or for good.
    async fn follow_session(&mut self, session: &SimulatedSessionName, stays: bool) -> Stop {
        let name = session.qualified();
        let after = self.heard.last().cloned();
        self.world.executor.trace_event(format_args!("follower {} {name}: after {after:?}", self.number));
        self.heard.begin_connection();
        let mut reports = self.connect(Listening { session: session.clone(), after }).await;
        let until = self.world.executor.now() + self.draw_millis(1, 20_000);
        loop {
            let Some(report) = self.receive_report(&mut reports, until, stays).await else {
                return Stop::Left;
            };
            match report {
                None => return Stop::Lost,
                Some(FollowerReport::Ended(category)) => return Stop::Ended(category),
                Some(FollowerReport::Heard(heard)) => self.hear_event(&name, *heard),
            }
        }
    }

    /// Returns the next report, nothing in it where the connection is lost; none when it is time to leave.
    async fn receive_report(
        &self,
        reports: &mut UnboundedReceiver<FollowerReport>,
        until: Duration,
        stays: bool,
    ) -> Option<Option<FollowerReport>> {
        let left = until.saturating_sub(self.world.executor.now());
        if stays {
            return Some(reports.recv().await);
        }
        let receiving = pin!(reports.recv());
        match select(receiving, self.world.executor.sleep_for(left)).await {
            Either::Left((report, _)) => Some(report),
            Either::Right(_) => None,
        }
    }

    /// Opens a connection through the chat or over HTTP.
    async fn connect(&self, listening: Listening) -> UnboundedReceiver<FollowerReport> {
        let is_over_http = can_listen_over_http(&listening.session) && self.random.draw_percent(HTTP_PERCENT);
        // Some read slowly, so that live events are missed and read from the log.
        let millis = self.random.draw_from(&[0, 0, 1, 20, 500]).unwrap_or(0);
        let pace = ReadingPace::new(&self.world.executor, Duration::from_millis(millis));
        if is_over_http {
            let handle = move |process: &SimulatedProcess, reporter| {
                let server = process.server.clone();
                process.server.run_handler(listen_over_http(server, reporter, listening, pace))
            };
            return self.world.call_process(handle).await;
        }
        let handle = move |process: &SimulatedProcess, reporter| {
            listen_to_chat(process.chat.clone(), reporter, listening, pace)
        };
        self.world.call_process(handle).await
    }

    /// Finds an event of the log between the last one that was heard and this one.
    fn find_missed_event(&self, event: &HeardEvent) -> Option<u64> {
        let (key, next) = (self.followed.as_ref()?.key()?, self.heard.last()?.seq + 1);
        // The data itself answers at once.
        let found = self.world.store.data().read_events(&key, next, 1).now_or_never()?.ok()?;
        found.first().map(|row| row.seq).filter(|seq| event.id.as_ref().is_some_and(|id| *seq < id.seq))
    }

    fn hear_event(&mut self, name: &str, ReportedEvent { event, view, content }: ReportedEvent) {
        let world = self.world.clone();
        if let Some(missed) = self.find_missed_event(&event) {
            world.note_contradiction(format!("a listener of {name} has not heard event {missed}"));
        }
        if let Some(why) = self.heard.check_event(&event) {
            world.note_contradiction(format!("a listener of {name} {why}"));
        }
        world.coverage.note_if(event.is_text_so_far(), "a listener came in the middle of a reply");
        world.coverage.note_if(event.is_thinking(), "a listener heard the model think");
        world.coverage.note_if(event.is_message_taken(), "a listener heard of a message that steers");
        let Some(id) = &event.id else { return };
        self.note_position();
        let Some(session) = &self.followed else { return };
        world.note_seen_event((session, id.seq, view), content);
    }
}

/// Tells whether the same stream cannot be read again.
fn is_final(category: &str) -> bool {
    matches!(category, "chat_session_unknown" | "chat_events_expired" | "chat_event_unknown")
}
