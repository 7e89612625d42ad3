//! The process dies at every write, before and after it lands; the next one finds the conversation whole (INV-2,
//! INV-8).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use singletree_agent::Agent;
use singletree_durable::{Journal, JournalMaintenance, MemoryStore};
use singletree_harness::{Chat, SendOptions};
use singletree_llm::{ChatMessage, ScriptedProvider};
use singletree_store_testing::{FailedWriteEffect, FaultInjectingStore};
use singletree_tools::{Effect, Recovery};

use crate::probe::{Probe, World};
use crate::rig::{SESSION, answer, open, script, small, toolbox, transcript};

pub(crate) const UNKNOWN: &str = "tool: {\"reason\":\"the process ended while this ran; whether it took effect is not known, and it \
     was not run again\",\"status\":\"unknown\"}";

/// Continues the conversation as far as this process lives: sends the message under its key, which may have been sent
/// before, and approves every pending call.
pub(crate) async fn go_on(chat: &Chat, (text, options): (&str, SendOptions), alive: impl Fn() -> bool) {
    let options = options.key("k");
    let Ok(turn) = chat.session(SESSION).submit(ChatMessage::user(text), options).await else { return };
    drop(turn.outcome().await);
    while alive() {
        let pending = chat.session(SESSION).pending().await.unwrap();
        let Some(wait) = pending.first() else { return };
        let Ok(turn) = answer(chat, wait, json!({ "approved": true })).await else { return };
        drop(turn.outcome().await);
    }
}

/// One process over a store: takes over unfinished turns, and continues.
pub(crate) async fn process<S>(
    store: S,
    (world, recovery): (&World, Recovery),
    text: &str,
    alive: impl Fn() -> bool,
) -> Chat
where
    S: Journal + JournalMaintenance + 'static,
{
    let chat = open(small(world, recovery), store);
    if let Ok(turns) = chat.sweep().await {
        for turn in turns {
            drop(turn.outcome().await);
        }
    }
    tokio::time::timeout(Duration::from_secs(20), go_on(&chat, (text, SendOptions::new()), alive))
        .await
        .unwrap();
    chat
}

async fn uninterrupted(text: &str, recovery: Recovery) -> (Vec<String>, World) {
    let world = World::default();
    let chat = process(MemoryStore::new(), (&world, recovery), text, || true).await;
    (transcript(&chat).await, world)
}

/// Lets the process die at the n-th write; returns the conversation and the effects after the next process, or none
/// when there is no such write.
async fn dying_at(
    n: u64,
    land: FailedWriteEffect,
    text: &str,
    recovery: Recovery,
) -> Option<(Vec<String>, World)> {
    let (chat, world) = survivor_of_death_at(n, land, text, recovery).await?;
    Some((transcript(&chat).await, world))
}

/// Lets the process die at the n-th write, and returns the next one when everything is over; none when there is no such
/// write.
pub(crate) async fn survivor_of_death_at(
    n: u64,
    land: FailedWriteEffect,
    text: &str,
    recovery: Recovery,
) -> Option<(Chat, World)> {
    let (store, world) = (MemoryStore::new(), World::default());
    let dying = FaultInjectingStore::new(Arc::new(store.clone()), n, land);
    let first = process(dying.clone(), (&world, recovery), text, || !dying.fired()).await;
    first.shutdown(Duration::ZERO).await;
    if !dying.fired() {
        return None;
    }
    let second = process(store.reopen(), (&world, recovery), text, || true).await;
    Some((second, world))
}

/// A call that was begun before the process died may have had its effect, whatever its tool has become since: one that
/// needs an approval, or none at all. Nobody says that nothing was done (D7).
#[tokio::test]
async fn a_doubt_is_told_also_when_the_tool_has_changed_or_is_gone() {
    for (text, is_gone) in [("act", false), ("act", true), ("acts", false), ("acts", true), ("mixed", true)] {
        let (mut n, mut doubts) = (1, 0);
        loop {
            let (store, world) = (MemoryStore::new(), World::default());
            let dying = FaultInjectingStore::new(Arc::new(store.clone()), n, FailedWriteEffect::Before);
            let first = process(dying.clone(), (&world, Recovery::Rerun), text, || !dying.fired()).await;
            first.shutdown(Duration::ZERO).await;
            if !dying.fired() {
                break;
            }
            let before = world.by_key().len();
            let mut tools = vec![Probe::shared("look", Effect::Read, Recovery::Rerun, &world)];
            if !is_gone {
                tools.push(Probe::shared("act", Effect::Destructive, Recovery::Rerun, &world));
            }
            let model = ScriptedProvider::new(script());
            let agent = Agent::new("small", model).instructions("Be brief.").toolbox(toolbox(tools));
            let second = open(agent.build().unwrap(), store.reopen());
            for turn in second.sweep().await.unwrap() {
                drop(turn.outcome().await);
            }
            let said = transcript(&second).await;
            let effects =
                world.whats().into_iter().take(before).filter(|what| what.starts_with("act")).count();
            let admitted = said.iter().filter(|it| *it == UNKNOWN || it.starts_with("tool: did ")).count();
            let is_over = said.last().is_some_and(|it| it == "assistant: All done.");
            assert!(!is_over || admitted >= effects, "{text} dies at {n}: {effects} effects, {said:?}");
            doubts += said.iter().filter(|it| *it == UNKNOWN).count();
            n += 1;
        }
        assert!(doubts > 0, "{text}, {is_gone}: no call was in doubt");
    }
}

/// Counts the keys of each kind of effect.
fn effects(world: &World) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for whats in world.by_key().into_values() {
        *counts.entry(whats[0].clone()).or_default() += 1;
    }
    counts.retain(|what: &String, _| !what.starts_with("look"));
    counts
}

async fn sweep(
    text: &str,
    recovery: Recovery,
    check: impl Fn(u64, FailedWriteEffect, (Vec<String>, World), &(Vec<String>, World)),
) {
    let expected = uninterrupted(text, recovery).await;
    assert!(expected.0.last().is_some_and(|it| it == "assistant: All done."), "{expected:?}");
    for land in [FailedWriteEffect::Before, FailedWriteEffect::After] {
        let mut n = 1;
        while let Some(found) = dying_at(n, land, text, recovery).await {
            check(n, land, found, &expected);
            n += 1;
        }
        assert!(n > 3, "{text}: the sweep has looked at something");
    }
}

// D7: an idempotent tool may be called again with the same key, and has its effect once.
#[tokio::test]
async fn with_tools_that_may_be_run_again_nothing_is_ever_lost_or_done_twice() {
    for text in ["look", "act", "acts", "mixed", "send", "sends"] {
        sweep(text, Recovery::Rerun, |n, land, (said, world), (expected, whole)| {
            assert_eq!(&said, expected, "{text} dies at {n}, {land:?}");
            assert_eq!(effects(&world), effects(whole), "{text} dies at {n}, {land:?}");
        })
        .await;
    }
}

// A tool can tell the call of a process that has lost the session from the one of the process that has it.
#[tokio::test]
async fn a_call_that_is_made_again_by_the_next_process_has_a_higher_fence() {
    let mut again = 0;
    let mut n = 1;
    while let Some((_, world)) = dying_at(n, FailedWriteEffect::Before, "acts", Recovery::Rerun).await {
        for origins in world.origins_by_key().into_values() {
            assert!(
                origins.iter().all(|origin| origin.session == SESSION && origin.fence > 0),
                "{origins:?}"
            );
            assert!(origins.windows(2).all(|two| two[0].fence < two[1].fence), "{origins:?}");
            again += origins.len() - 1;
        }
        n += 1;
    }
    assert!(again > 0, "no call was made again");
}

// D7: a tool that must not be called again is not, and the model is told that nobody knows.
#[tokio::test]
async fn with_tools_that_may_not_be_run_again_a_doubt_is_told_and_nothing_is_done_twice() {
    for text in ["act", "acts", "mixed", "send", "sends"] {
        sweep(text, Recovery::Report, |n, land, (said, world), (expected, _)| {
            let at = format!("{text} dies at {n}, {land:?}: {said:?}");
            let calls: Vec<_> =
                world.by_key().into_values().filter(|it| !it[0].starts_with("look")).collect();
            assert!(calls.iter().all(|it| it.len() == 1), "{at} {calls:?}");
            assert_eq!(said.len(), expected.len(), "{at}");
            let other: Vec<_> = said.iter().zip(expected).filter(|(it, whole)| it != whole).collect();
            assert!(other.len() <= 1 && other.iter().all(|(it, _)| *it == UNKNOWN), "{at}");
            let done = expected.iter().zip(&said).filter(|(whole, it)| whole == it);
            let done =
                done.filter(|(it, _)| ["a", "b", "m"].iter().any(|x| **it == format!("tool: did {x}")));
            // A call that is reported as done has run; a call in doubt may have run.
            assert!(calls.len() >= done.count(), "{at} {calls:?}");
        })
        .await;
    }
}
