//! Properties of the picture of every timeline.

use singletree_draw::TimelinePicture;
use singletree_harness::{TimelineEntryKind, TurnId};

use crate::{turns, xml};

#[test]
fn an_svg_is_well_formed_and_has_every_turn_entry_and_wait() {
    for (name, timeline) in turns::all() {
        let events = xml::read(&TimelinePicture::new(&timeline, &timeline.turns[0].turn).render_svg());
        assert_eq!(xml::count(&events, "g", "turn"), timeline.turns.len(), "{name}");
        assert_eq!(xml::count(&events, "g", "wait"), timeline.waits.len(), "{name}");
        let entries: usize = timeline.turns.iter().map(|it| it.entries.len() + 1).sum();
        let open = timeline.stands.as_ref().map_or(0, |it| it.open_calls.len());
        let bars = xml::count(&events, "rect", "bar") + xml::count(&events, "circle", "bar");
        assert_eq!(bars, entries + open, "{name}");
    }
}

#[test]
fn lines_of_text_fit_and_hold_no_control_characters() {
    for (name, timeline) in turns::all() {
        for columns in [0, 40, 57, 80, 91, 92, 140] {
            for line in TimelinePicture::new(&timeline, &timeline.turns[0].turn).render_text_lines(columns) {
                let text = line.text;
                assert!(text.chars().count() <= columns.max(40), "{name}, {columns}: {text}");
                assert!(!text.chars().any(|it| it.is_control() || it == '\u{202e}'), "{name}: {text:?}");
            }
        }
    }
}

#[test]
fn a_timeline_shows_each_message_and_result_in_the_order_of_time() {
    let timeline = turns::waited();
    let asked: TurnId = timeline.turns[1].turn.clone();
    let lines = TimelinePicture::new(&timeline, &asked).render_text_lines(200);
    assert_eq!(lines[0].text, format!("turn {asked}"));
    let mut expected = Vec::new();
    for entry in timeline.turns.iter().flat_map(|it| &it.entries) {
        match &entry.what {
            TimelineEntryKind::Accepted { text } => expected.extend(text.clone()),
            TimelineEntryKind::Signal { from, .. } => expected.extend(from.clone()),
            TimelineEntryKind::Message { text, .. }
            | TimelineEntryKind::ToolResult { text, .. }
            | TimelineEntryKind::Discarded { text, .. } => {
                expected.push(text.clone());
            }
        }
    }
    let mut at = 0;
    for text in expected {
        let found = lines[at..].iter().position(|it| it.text.contains(&text));
        at += found.unwrap_or_else(|| panic!("{text} is missing after line {at}"));
    }
}
