//! The steps of a story.

/// One step of a story.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The person says something, and waits for the outcome.
    Say(&'static str),
    /// Two things are said at once.
    Both(&'static str, &'static str),
    /// The pending wait is approved, or denied.
    Decide(bool),
    /// The turn that waits is cancelled.
    Cancel,
    /// An artifact is added and approved.
    Artifact(&'static str, &'static str),
    /// The process ends, and the next one begins.
    Restart,
}

use Step::{Artifact, Both, Cancel, Decide, Restart, Say};

/// A story: its name and its steps.
pub(crate) type Story = (&'static str, &'static [Step]);

/// All stories.
pub(crate) const STORIES: &[Story] = &[
    ("completed", &[Say("hello"), Say("think"), Say("hello again")]),
    ("tool loop", &[Say("look"), Say("act"), Say("both")]),
    ("retryable", &[Say("hello"), Say("fail retryable"), Say("hello")]),
    ("correctable", &[Say("fail correctable"), Say("hello")]),
    ("terminating", &[Say("fail terminating"), Say("hello")]),
    ("asked again", &[Say("be flaky"), Say("hello")]),
    // To say yes is a message, and no approval.
    ("approval", &[Say("send"), Say("yes"), Decide(false), Say("send"), Decide(true), Say("hello")]),
    ("cancelled", &[Say("send"), Cancel, Say("hello")]),
    ("budget", &[Say("loop"), Say("hello")]),
    ("restart", &[Say("act"), Restart, Say("send"), Restart, Decide(true), Restart, Say("look")]),
    ("two at once", &[Say("hello"), Both("act", "look"), Say("hello")]),
    (
        "campaign",
        &[
            Say("find whom to write"),
            Artifact("people", "Ann, Bob"),
            Say("write the letter"),
            Artifact("letter", "Dear all"),
            Say("send the letter"),
            Decide(true),
            Say("note the answers"),
            Say("report"),
        ],
    ),
];
