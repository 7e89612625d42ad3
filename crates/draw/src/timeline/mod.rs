//! Pictures of turns on a time line.

mod rows;
mod svg;
mod text;
mod waterfall;
mod words;

use singletree_harness::{Timeline, TurnId};

pub use text::{TextLine, TextTone};
pub use waterfall::{WaterfallPicture, WaterfallRow, WaterfallRowKind};

/// A picture of the stored records of an invocation: its turns with messages, tool calls and ends, and the waits
/// between them.
#[derive(Debug, Clone, Copy)]
pub struct TimelinePicture<'a> {
    timeline: &'a Timeline,
    turn: &'a TurnId,
}

impl<'a> TimelinePicture<'a> {
    /// Begins a picture; `turn` is the turn that was asked for, one of the timeline's.
    #[must_use]
    pub fn new(timeline: &'a Timeline, turn: &'a TurnId) -> Self {
        Self { timeline, turn }
    }

    /// Draws it as lines of text of at most so many columns; narrower than 40 is as 40.
    #[must_use]
    pub fn render_text_lines(&self, columns: usize) -> Vec<TextLine> {
        text::draw_timeline(self.timeline, self.turn, columns.max(40))
    }

    /// Draws it as an SVG that stands alone.
    #[must_use]
    pub fn render_svg(&self) -> String {
        svg::draw_timeline(self.timeline, self.turn)
    }
}
