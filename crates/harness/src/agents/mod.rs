//! The declarations of the agents that a chat serves: settings, texts for people, and who may begin turns.

pub(crate) mod admission;
pub(crate) mod agent;
pub(crate) mod history;
pub(crate) mod reply;
