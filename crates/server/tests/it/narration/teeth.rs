//! Mutants that read narration: the checks must find them.

use super::deletion::{POLICIES, deleted_anywhere};
use super::disturbed::{same_under, unmarked};
use super::sinks::{Copy, Fate};
use super::story::STORIES;
use super::world::Play;

/// The fault of a world.
#[derive(Debug, Clone, Default)]
pub(crate) enum Mutant {
    /// Nothing.
    #[default]
    None,
    /// The last piece of narration is put into prompts.
    ReadsTheLast(Copy),
    /// A `yes` in the narration approves.
    ParsesYes(Copy),
}

impl Mutant {
    /// Returns the text that is put into the prompt.
    pub(crate) fn last_said(&self) -> Option<String> {
        match self {
            Self::ReadsTheLast(copy) => copy.lock().unwrap().last().map(|it| it.content.clone()),
            Self::None | Self::ParsesYes(_) => None,
        }
    }

    /// Tells whether somebody is thought to have said yes.
    pub(crate) fn hears_yes(&self) -> bool {
        match self {
            Self::ParsesYes(copy) => copy.lock().unwrap().iter().any(|it| it.content == "yes"),
            Self::None | Self::ReadsTheLast(_) => false,
        }
    }
}

/// Plays the story in which somebody says yes, and returns which checks fail: deleted, replaced, marked.
fn failing(mutant: fn(Copy) -> Mutant) -> Vec<[bool; 3]> {
    let story = STORIES.iter().find(|(name, _)| *name == "approval").copied().unwrap();
    let checks = |policy| {
        let how = Play { mutant, ..Play::of(policy) };
        [
            deleted_anywhere(story, &how).is_err(),
            same_under(story, &how, Fate::Replaced).is_err(),
            unmarked(story, &how).is_err(),
        ]
    };
    POLICIES.map(checks).to_vec()
}

// INV-9: the checks of the other files have teeth.
#[test]
fn mutants_that_read_narration_are_found() {
    assert_eq!(failing(|_| Mutant::None), [[false; 3]; 2]);
    assert_eq!(failing(Mutant::ReadsTheLast), [[true; 3]; 2]);
    // It reads no more than a word, which no mark is.
    assert_eq!(failing(Mutant::ParsesYes), [[true, true, false]; 2]);
}
