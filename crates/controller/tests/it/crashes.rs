//! The process dies at every write, before and after it takes effect; the next one brings the campaign to the same end
//! (acceptance 2; D7, INV-2).

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use singletree_controller::{Controller, NewCampaign};
use singletree_durable::{DocumentStore, Journal, JournalMaintenance, MemoryStore};
use singletree_harness::Chat;
use singletree_store_testing::{FailedWriteEffect, FaultInjectingStore};
use singletree_tools::Recovery;

use crate::rig::{agent, ann, env_from, open_with, plain_log, play, story_model, tenant};
use crate::world::World;

/// A call that no person is asked about, and one that a person approves.
fn two_calls() -> Value {
    json!([
        { "id": "note", "description": "Note it.", "proof": [
            { "type": "tool_succeeded", "tool": "note", "args": { "to": "file" } },
        ] },
        { "id": "send", "description": "Send it.", "needs": ["note"], "proof": [
            { "type": "tool_succeeded", "tool": "send", "args": { "to": "Ann" } },
        ] },
    ])
}

/// One process: it continues the turn that an earlier one was in, then goes on with the campaign, which it creates where
/// there is none.
async fn process<S>(
    store: &S,
    (world, recovery, ids): (&World, Recovery, u64),
    alive: impl Fn() -> bool,
) -> (Controller, Chat, Option<String>)
where
    S: Journal + JournalMaintenance + DocumentStore + Clone + 'static,
{
    let documents: Arc<dyn DocumentStore> = Arc::new(store.clone());
    let parts = agent(story_model(), world, recovery);
    let (controller, chat) = open_with(parts, (documents, store.clone()), env_from(ids), |builder| builder);
    if let Ok(turns) = chat.sweep().await {
        for turn in turns {
            drop(turn.outcome().await);
        }
    }
    let found = controller.list(&tenant(), None, 1).await.unwrap().pop();
    let id = match found {
        Some(board) => Some(board.campaign.id),
        None => {
            let new = NewCampaign {
                tasks: serde_json::from_value(two_calls()).unwrap(),
                ..NewCampaign::with_goal("Tell Ann.")
            };
            controller.create(&tenant(), new, &ann()).await.ok().map(|board| board.campaign.id)
        }
    };
    if let Some(id) = &id {
        tokio::time::timeout(Duration::from_secs(600), play(&controller, id, alive)).await.unwrap();
    }
    (controller, chat, id)
}

struct Ending {
    log: Vec<Value>,
    world: World,
    at: String,
}

async fn uninterrupted(recovery: Recovery) -> Ending {
    let (store, world) = (MemoryStore::new(), World::default());
    let (controller, _, id) = process(&store, (&world, recovery, 0), || true).await;
    Ending { log: plain_log(&controller, &id.unwrap()).await, world, at: String::new() }
}

/// Lets the process die at the n-th write; returns how the next one ends, or none when there is no such write.
async fn dying_at(n: u64, land: FailedWriteEffect, recovery: Recovery) -> Option<Ending> {
    let (store, world) = (MemoryStore::new(), World::default());
    let dying = FaultInjectingStore::new(Arc::new(store.clone()), n, land);
    let (_, chat, _) = process(&dying, (&world, recovery, 0), || !dying.fired()).await;
    chat.shutdown(Duration::ZERO).await;
    if !dying.fired() {
        return None;
    }
    let (controller, _, id) = process(&store.reopen(), (&world, recovery, 1_000_000), || true).await;
    let at = format!("dies at write {n}, {land:?}");
    Some(Ending { log: plain_log(&controller, &id.unwrap()).await, world, at })
}

async fn sweep(recovery: Recovery, check: impl Fn(&Ending, &Ending)) {
    let expected = uninterrupted(recovery).await;
    assert_eq!(expected.log.last().unwrap()["type"], "completed", "{:#?}", expected.log);
    for land in [FailedWriteEffect::Before, FailedWriteEffect::After] {
        let mut n = 1;
        while let Some(found) = dying_at(n, land, recovery).await {
            check(&found, &expected);
            n += 1;
        }
        assert!(n > 40, "the sweep has looked at {n} writes");
    }
}

#[tokio::test(start_paused = true)]
async fn tools_that_may_be_called_again_have_each_effect_once_and_the_log_is_the_same() {
    sweep(Recovery::Rerun, |found, expected| {
        assert_eq!(found.log, expected.log, "{}", found.at);
        // A call that is made again has the same key, under which its effect happens once.
        let effects = |ending: &Ending| {
            ending.world.by_key().into_values().map(|calls| calls[0].clone()).collect::<Vec<_>>()
        };
        let sorted = |mut effects: Vec<String>| {
            effects.sort();
            effects
        };
        assert_eq!(sorted(effects(found)), sorted(effects(expected)), "{}", found.at);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn tools_that_may_not_be_called_again_are_not() {
    sweep(Recovery::Report, |found, expected| {
        let at = &found.at;
        for (key, calls) in found.world.by_key() {
            assert_eq!(calls.len(), 1, "{at}: {key} {calls:?}");
        }
        let doubts = found.log.iter().filter(|event| {
            event["type"] == "action_done" && event["text"].as_str().unwrap().contains("unknown")
        });
        let last = found.log.last().unwrap();
        match doubts.count() {
            0 => {
                assert_eq!(found.log, expected.log, "{at}");
            }
            // The agent is told that nobody knows; it blocks the task, and the campaign pauses without a ready one.
            1 => assert_eq!(last["reason"]["type"], "no_ready_task", "{at}: {last}"),
            many => panic!("{at}: {many} calls in doubt"),
        }
    })
    .await;
}
