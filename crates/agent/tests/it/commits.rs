//! How often a turn is committed.

use std::sync::Arc;

use serde_json::json;
use singletree_durable::MemoryStore;
use singletree_harness::SendOptions;
use singletree_llm::ChatMessage;
use singletree_store_testing::{FailedWriteEffect, FaultInjectingStore};
use singletree_tools::Recovery;

use crate::probe::World;
use crate::rig::{SESSION, open, small};

/// Counts the writes of one message, with all approvals given: the last write at which a dying store is noticed.
async fn writes(text: &str) -> u64 {
    let mut writes = 0;
    loop {
        let store =
            FaultInjectingStore::new(Arc::new(MemoryStore::new()), writes + 1, FailedWriteEffect::Before);
        let chat = open(small(&World::default(), Recovery::Report), store.clone());
        if let Ok(turn) = chat.session(SESSION).submit(ChatMessage::user(text), SendOptions::new()).await {
            let mut outcome = turn.outcome().await.as_ref().clone();
            while outcome.as_str() == "suspended" && !store.fired() {
                outcome = decide_or_die(&chat).await.unwrap_or(outcome);
            }
        }
        chat.shutdown(std::time::Duration::ZERO).await;
        if !store.fired() {
            return writes;
        }
        writes += 1;
    }
}

async fn decide_or_die(chat: &singletree_harness::Chat) -> Option<singletree_harness::ChatTurnOutcome> {
    let wait = crate::rig::waiting(chat).await;
    let turn = crate::rig::answer(chat, &wait, json!({ "approved": true })).await.ok()?;
    Some(turn.outcome().await.as_ref().clone())
}

#[tokio::test]
async fn a_turn_is_committed_as_often_as_it_has_to_and_no_more() {
    for (text, expected, why) in [
        ("say hello", 2, "accept, end"),
        ("look", 4, "accept, model, tools, end"),
        ("act", 5, "accept, model, the call begins, tools, end"),
        ("acts", 6, "accept, model, the first begins, its result and the second begins, tools, end"),
        ("mixed", 8, "accept, model, twice a call begins and its result, tools, end"),
        ("send", 8, "accept, model, suspend, claim, gate, the call begins, tools, end"),
    ] {
        assert_eq!(writes(text).await, expected, "{text}: {why}");
    }
}
