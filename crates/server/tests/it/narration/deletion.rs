//! Narration is deleted at every point of every story, and nothing else changes (agent-chat-output §2, §10, §12).

use singletree_harness::TurnPromptPolicy;

use super::points::Deed;
use super::seen::compare;
use super::story::{STORIES, Story};
use super::world::{Play, play};

pub(crate) const POLICIES: [TurnPromptPolicy; 2] =
    [TurnPromptPolicy::Conversation, TurnPromptPolicy::Command];

/// Plays a story with narration deleted at each of its points.
pub(crate) fn deleted_anywhere((name, steps): Story, how: &Play) -> Result<u64, String> {
    let reference = play(steps, how);
    let again = play(steps, how);
    compare(&reference.seen, &again.seen).map_err(|it| format!("'{name}' is not the same twice: {it}"))?;
    for at in 1..=reference.points {
        let other = play(steps, &how.at(at, Deed::Delete));
        compare(&reference.seen, &other.seen)
            .map_err(|it| format!("'{name}' ({}), deleted at {at}: {it}", how.policy))?;
    }
    Ok(reference.points)
}

/// Plays a story in which the process dies at each of its points, with and without narration deleted there.
pub(crate) fn dying_anywhere((name, steps): Story, how: &Play) -> Result<(), String> {
    for at in 1..=play(steps, how).points {
        let dies = play(steps, &how.at(at, Deed::Die));
        let other = play(steps, &how.at(at, Deed::DeleteAndDie));
        compare(&dies.seen, &other.seen)
            .map_err(|it| format!("'{name}' ({}), dead at {at}: {it}", how.policy))?;
    }
    Ok(())
}

fn check(policy: TurnPromptPolicy) {
    let mut points = 0;
    for story in STORIES {
        points += deleted_anywhere(*story, &Play::of(policy)).unwrap();
    }
    assert!(points > 300, "every call and every piece of narration is a point: {points}");
}

// INV-9; spec: agent-chat-output §12
#[test]
fn in_conversations_deleting_it_at_any_point_changes_nothing() {
    check(TurnPromptPolicy::Conversation);
}

// INV-9; spec: agent-chat-output §12
#[test]
fn in_sessions_of_commands_deleting_it_at_any_point_changes_nothing() {
    check(TurnPromptPolicy::Command);
}

// INV-9; spec: agent-chat-output §10
#[test]
fn a_process_that_dies_goes_on_the_same_whether_narration_is_there_or_not() {
    let is_deep = std::env::var_os("SINGLETREE_DEEP").is_some();
    // Two of them in a plain run: each point is played twice, by two processes.
    let stories = STORIES.iter().filter(|(name, _)| is_deep || ["approval", "tool loop"].contains(name));
    for (story, policy) in stories.flat_map(|it| POLICIES.map(|policy| (*it, policy))) {
        dying_anywhere(story, &Play::of(policy)).unwrap();
    }
}
