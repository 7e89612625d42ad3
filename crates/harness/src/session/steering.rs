//! Messages that steer the running turn: handed to it, taken by a commit, or returned to the queue.

use super::queue::{CallerHandle, QueuedTurn, QueuedWork};
use super::state::SessionState;
use crate::record;
use crate::steer::{OfferedMessage, SteeredMessage};

impl<H> QueuedTurn<H> {
    /// Checks whether a turn of this agent may take it.
    fn steers(&self, agent: &str) -> bool {
        matches!(&self.work, QueuedWork::Message { row, committed: true, steers: true, .. } if row.agent == agent)
    }

    fn offer(&self) -> Option<OfferedMessage> {
        match &self.work {
            QueuedWork::Message { row, message, side, .. } => {
                let message = record::message(message).ok()?;
                Some(OfferedMessage { row: row.clone(), message, side: side.clone() })
            }
            QueuedWork::Answer(_) | QueuedWork::Recover { .. } => None,
        }
    }
}

impl<H: CallerHandle> SessionState<H> {
    /// Hands the running turn of this agent the messages at the front of the queue that steer it. Returns all messages
    /// that it was handed and has not taken, and the position in the history behind the last one that it has taken.
    pub(crate) fn offer_steering(&mut self, agent: &str) -> (Vec<OfferedMessage>, u64) {
        while let Some(next) = self.queue.pop_front_if(|queued| queued.steers(agent)) {
            self.offered.push(next);
        }
        let after = self.taken.iter().map(|(_, position)| position + 1).max().unwrap_or_default();
        (self.offers(), after)
    }

    /// Returns the messages that the running turn was handed and has not taken.
    pub(crate) fn offers(&self) -> Vec<OfferedMessage> {
        self.offered.iter().filter_map(QueuedTurn::offer).collect()
    }

    /// Notes which messages the commit on its way takes, and returns the handles of their turns: whoever has cancelled
    /// one of them meanwhile has cancelled the turn that goes on with it.
    pub(crate) fn take_steering(&mut self, taken: &[SteeredMessage]) -> Vec<H> {
        let mut handles = Vec::new();
        for message in taken {
            let at = self.offered.iter().position(|queued| queued.no() == Some(message.row.no));
            if let Some(at) = at {
                let queued = self.offered.remove(at);
                handles.push(queued.handle.clone());
                self.taken.push((queued, message.position));
            }
        }
        handles
    }

    /// Notes that the commit has failed that would have taken these: they are on offer, as before.
    pub(crate) fn return_steering(&mut self, taken: &[SteeredMessage]) {
        for message in taken {
            let at = self.taken.iter().position(|(queued, _)| queued.no() == Some(message.row.no));
            if let Some(at) = at {
                let (queued, _) = self.taken.remove(at);
                self.offered.push(queued);
            }
        }
        self.offered.sort_by_key(QueuedTurn::no);
    }

    /// Adds a message that the running turn had taken in the process before this one.
    pub(crate) fn add_taken(&mut self, queued: QueuedTurn<H>, position: u64) {
        self.taken.push((queued, position));
    }

    /// Removes the turn of a steering message that has ended with the running turn.
    pub(super) fn remove_steered(&mut self, no: u64) -> Vec<QueuedTurn<H>> {
        let is_it = |queued: &QueuedTurn<H>| queued.no() == Some(no);
        let taken = self.taken.extract_if(.., |(queued, _)| is_it(queued)).map(|(queued, _)| queued).next();
        let offered = self.offered.extract_if(.., |queued| is_it(queued)).next();
        taken.into_iter().chain(offered).collect()
    }
}
