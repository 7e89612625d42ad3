//! The failed turn that a client asks to have retried, by the id of its message (D29).

use std::sync::Arc;

use serde_json::Value;
use singletree_harness::{Chat, Error, Result, TurnId, TurnInfo};
use singletree_llm::ChatMessage;

/// The number of retries of retries through which the message of a turn is searched.
const GENERATIONS: usize = 64;

/// A turn and the turns that it retries, back to the one whose message all of them answer.
#[derive(Debug)]
pub(crate) struct RetryChain {
    /// The turns, the oldest first. The last one is the turn itself.
    pub(crate) turns: Vec<TurnId>,
    /// The turn that the message began.
    pub(crate) first: TurnId,
    /// The message with its side record.
    pub(crate) message: (Arc<ChatMessage>, Option<Value>),
}

impl RetryChain {
    /// Reads the chain of a turn; `None` if records of its turns are not kept. A turn that resumes, and a retry over
    /// the history, have no message of their own.
    pub(crate) async fn load_for_turn(chat: &Chat, turn: &TurnInfo) -> Result<Option<Self>> {
        let (mut turns, mut info, mut found) = (Vec::new(), turn.clone(), None);
        let known = async |id: &TurnId| match chat.session(&turn.session).turn_info(id).await {
            Err(Error::TurnUnknown { .. }) => Ok(None),
            info => info.map(Some),
        };
        for _ in 0..GENERATIONS {
            turns.push(info.id.clone());
            if info.id.ordinal > 0 {
                let first = TurnId::new(info.id.invocation.clone(), 0);
                let Some(first) = known(&first).await? else { break };
                info = first;
            }
            if let Some(message) = chat.turn(&info.id).await?.message().await? {
                found = Some((info.id.clone(), message));
            }
            let Some(retried) = &info.retries else { break };
            let Some(retried) = known(retried).await? else { break };
            info = retried;
        }
        turns.reverse();
        Ok(found.map(|(first, message)| Self { turns, first, message }))
    }
}
