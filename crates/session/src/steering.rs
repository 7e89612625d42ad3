//! Messages that steer the running turn: offered to it, then taken by a commit or returned to the queue.

use super::queue::{CallerHandle, QueuedTurn, QueuedWork};
use super::state::SessionState;
use crate::apply::steer::{OfferedMessage, SteeredMessage};
use crate::codec::record;

impl<H> QueuedTurn<H> {
    /// Checks whether a turn of this agent may take the message.
    fn can_steer_agent(&self, agent: &str) -> bool {
        matches!(&self.work, QueuedWork::Message { row, committed: true, steers: true, .. } if row.agent == agent)
    }

    fn to_offered_message(&self) -> Option<OfferedMessage> {
        match &self.work {
            QueuedWork::Message { row, message, side, .. } => {
                let message = record::decode_message(message).ok()?;
                Some(OfferedMessage { row: row.clone(), message, side: side.clone() })
            }
            QueuedWork::Answer(_) | QueuedWork::Recover { .. } => None,
        }
    }
}

impl<H: CallerHandle> SessionState<H> {
    /// Offers the running turn of this agent the messages at the front of the queue that steer it. Returns all messages
    /// that were offered and not taken, and the position in the history behind the last taken one.
    pub fn offer_steering(&mut self, agent: &str) -> (Vec<OfferedMessage>, u64) {
        while let Some(next) = self.queue.pop_front_if(|queued| queued.can_steer_agent(agent)) {
            self.offered.push(next);
        }
        let after = self.taken.iter().map(|(_, position)| position + 1).max().unwrap_or_default();
        (self.offered_messages(), after)
    }

    /// Returns the messages that were offered to the running turn and not taken.
    pub fn offered_messages(&self) -> Vec<OfferedMessage> {
        self.offered.iter().filter_map(QueuedTurn::to_offered_message).collect()
    }

    /// Records which messages the commit in flight takes, and returns the handles of their turns. If one of them was
    /// cancelled in the meantime, the running turn has to be cancelled.
    pub fn take_steering(&mut self, taken: &[SteeredMessage]) -> Vec<H> {
        let mut handles = Vec::new();
        for message in taken {
            let at = self.offered.iter().position(|queued| queued.row_number() == Some(message.row.no));
            if let Some(at) = at {
                let queued = self.offered.remove(at);
                handles.push(queued.handle.clone());
                self.taken.push((queued, message.position));
            }
        }
        handles
    }

    /// Records that the commit that would have taken these messages has failed: they are offered again.
    pub fn return_steering(&mut self, taken: &[SteeredMessage]) {
        for message in taken {
            let at = self.taken.iter().position(|(queued, _)| queued.row_number() == Some(message.row.no));
            if let Some(at) = at {
                let (queued, _) = self.taken.remove(at);
                self.offered.push(queued);
            }
        }
        self.offered.sort_by_key(QueuedTurn::row_number);
    }

    /// Adds a message that the running turn had taken in an earlier process.
    pub fn add_taken_message(&mut self, queued: QueuedTurn<H>, position: u64) {
        self.taken.push((queued, position));
    }

    /// Removes the turn of a steering message that has ended with the running turn.
    pub(crate) fn remove_steered(&mut self, no: u64) -> Vec<QueuedTurn<H>> {
        let is_it = |queued: &QueuedTurn<H>| queued.row_number() == Some(no);
        let taken = self.taken.extract_if(.., |(queued, _)| is_it(queued)).map(|(queued, _)| queued).next();
        let offered = self.offered.extract_if(.., |queued| is_it(queued)).next();
        taken.into_iter().chain(offered).collect()
    }
}
