//! In sessions of commands the transcript is written and not read: emptying it between turns changes nothing but
//! itself. In conversations the model is shown the transcript (docs/narration.md).

use singletree_harness::TurnPromptPolicy;

use super::seen::{Seen, compare};
use super::story::{STORIES, Step};
use super::world::{Play, play};

/// Leaves out the parts about the transcript itself: its messages, their counters, the name of the path that a turn
/// took.
fn but_the_transcript(seen: Vec<Seen>) -> Vec<Seen> {
    let kept = |it| match it {
        Seen::Request(_) | Seen::Deed(_) | Seen::Fact(_) => Some(it),
        Seen::Outcome { rest, .. } => Some(Seen::Outcome { path: String::new(), rest }),
        Seen::State { rest, .. } => Some(Seen::State { messages: String::new(), rest }),
        Seen::Row(_) => None,
    };
    seen.into_iter().filter_map(kept).collect()
}

/// Puts a restart after each step.
fn restarting(steps: &[Step]) -> Vec<Step> {
    steps.iter().flat_map(|it| [*it, Step::Restart]).collect()
}

fn request(it: &Seen) -> Option<&str> {
    match it {
        Seen::Request(text) => Some(text.as_str()),
        Seen::Deed(_) | Seen::Outcome { .. } | Seen::State { .. } | Seen::Fact(_) | Seen::Row(_) => None,
    }
}

fn requests(seen: &[Seen]) -> Vec<&str> {
    seen.iter().filter_map(request).collect()
}

// spec: agent-chat-output §8
#[test]
fn commands_do_not_depend_on_the_transcript() {
    for (name, steps) in STORIES {
        let steps = restarting(steps);
        let how = Play::of(TurnPromptPolicy::Command);
        let reference = play(&steps, &how).seen;
        let emptied = play(&steps, &Play { empties: true, ..how }).seen;
        assert_ne!(reference, emptied, "'{name}': the transcript itself is another one");
        compare(&but_the_transcript(reference), &but_the_transcript(emptied))
            .unwrap_or_else(|it| panic!("'{name}': {it}"));
    }
}

// The control: emptying the transcript makes a difference where the transcript counts, and only there.
#[test]
fn conversations_do() {
    let mut remembering = Vec::new();
    for (name, steps) in STORIES {
        let steps = restarting(steps);
        let how = Play::of(TurnPromptPolicy::Conversation);
        let reference = play(&steps, &how).seen;
        let emptied = play(&steps, &Play { empties: true, ..how }).seen;
        // Failed messages are no part of the conversation.
        let remembers = requests(&reference).iter().any(|it| it.matches("\"role\":\"user\"").count() > 1);
        assert_eq!(requests(&reference) != requests(&emptied), remembers, "'{name}'");
        remembering.extend(remembers.then_some(*name));
    }
    assert_eq!(remembering.len(), STORIES.len() - 3, "{remembering:?}");
}
