//! Sinks that fail, words that would mean much, marks that may be found nowhere (agent-chat-output §4.2, §7, §8.1).

use std::time::Duration;

use singletree_server::NarrationLimits;

use super::deletion::POLICIES;
use super::seen::{Seen, compare};
use super::sinks::{Fate, MARK};
use super::story::{STORIES, Story};
use super::world::{Play, play};

/// Plays a story with narration that comes to something else.
pub(crate) fn same_under((name, steps): Story, how: &Play, fate: Fate) -> Result<(), String> {
    let reference = play(steps, how);
    let other = play(steps, &Play { fate: fate.clone(), ..how.clone() });
    let told = |it| format!("'{name}' ({}) under {fate:?}: {it}", how.policy);
    compare(&reference.seen, &other.seen).map_err(told)?;
    if reference.said == 0 || reference.said != other.said {
        return Err(told(format!("{} and {} were said", reference.said, other.said)));
    }
    Ok(())
}

/// Plays a story in which each piece that is held bears a mark, and looks for marks in everything that was seen.
pub(crate) fn unmarked((name, steps): Story, how: &Play) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("narration.jsonl");
    let played = play(steps, &Play { fate: Fate::Marked(path.clone()), ..how.clone() });
    let held = std::fs::read_to_string(path).unwrap();
    let marks = held.matches(MARK).count() as u64;
    if marks != played.said {
        return Err(format!("'{name}': {} pieces were said, and {marks} marks are held", played.said));
    }
    let marked: Vec<&Seen> = played.seen.iter().filter(|it| format!("{it:?}").contains(MARK)).collect();
    match marked.first() {
        None => Ok(()),
        Some(first) => Err(format!("'{name}' ({}): a mark is in {first:?}", how.policy)),
    }
}

fn each(check: impl Fn(Story, &Play) -> Result<(), String>) {
    for (story, policy) in STORIES.iter().flat_map(|it| POLICIES.map(|policy| (*it, policy))) {
        check(story, &Play::of(policy)).unwrap();
    }
}

// INV-9; spec: agent-chat-output §7.2
#[test]
fn no_fault_of_a_sink_changes_anything() {
    let usual = NarrationLimits::default;
    for fate in [
        Fate::Off,
        Fate::Panics,
        Fate::Gone,
        Fate::Stuck,
        Fate::NoFile,
        Fate::Held(NarrationLimits { entries: 0, ..usual() }),
        Fate::Held(NarrationLimits { entries: 1, ..usual() }),
        Fate::Held(NarrationLimits { total_bytes: 0, ..usual() }),
        Fate::Held(NarrationLimits { age: Duration::ZERO, ..usual() }),
        Fate::Held(NarrationLimits { content_bytes: 0, ..usual() }),
    ] {
        each(|story, how| same_under(story, how, fate.clone()));
    }
}

// INV-9; spec: agent-chat-output §4.2: nothing parses it
#[test]
fn other_words_in_another_order_change_nothing() {
    each(|story, how| same_under(story, how, Fate::Replaced));
}

// INV-9; spec: agent-chat-output §8.1
#[test]
fn nothing_that_is_narrated_is_found_anywhere_else() {
    each(unmarked);
}
