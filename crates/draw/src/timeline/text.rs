//! A timeline as lines of text.

use singletree_durable::Timestamp;
use singletree_harness::{Timeline, TurnId, TurnSpan};

use super::rows::{TimelineBand, TimelineRow, TimelineTint, collect_bands};
use super::words;
use crate::label::{count_columns as width_of, to_visible_line, truncate_to_columns};

/// A line of text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextLine {
    /// The style of the text where there are colours.
    pub tone: TextTone,
    /// The text, without control characters.
    pub text: String,
}

/// The style of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextTone {
    /// As it is.
    Plain,
    /// Secondary text.
    Quiet,
    /// A heading.
    Strong,
    /// An error.
    Wrong,
}

/// The least and the most columns of a name.
const NAMES: (usize, usize) = (9, 22);
/// The columns of a bar, where there is room for one.
const BAR: usize = 24;
/// From how many columns on there is.
pub(super) const WITH_BARS: usize = 92;

pub(super) fn draw_timeline(timeline: &Timeline, asked: &TurnId, columns: usize) -> Vec<TextLine> {
    let mut page = TimelineTextPage { lines: Vec::new(), columns };
    page.push_line(TextTone::Strong, &format!("turn {asked}"));
    page.push_line(TextTone::Quiet, &format!("session {} \u{b7} agent {}", timeline.session, timeline.agent));
    page.push_line(TextTone::Plain, &words::summarize_timeline(timeline));
    let bands = collect_bands(timeline);
    let names = bands.iter().flat_map(|band| match band {
        TimelineBand::Turn(_, rows) => rows.as_slice(),
        TimelineBand::Wait(_) => &[],
    });
    let names =
        names.map(|it| width_of(&to_visible_line(&it.name))).max().unwrap_or(0).clamp(NAMES.0, NAMES.1);
    for band in &bands {
        page.push_line(TextTone::Plain, "");
        match band {
            TimelineBand::Turn(turn, rows) => page.push_turn(timeline, (turn, rows), names),
            TimelineBand::Wait(wait) => {
                let about = words::describe_purpose(wait)
                    .map(|purpose| format!(" \u{b7} {purpose}"))
                    .unwrap_or_default();
                page.push_line(
                    TextTone::Strong,
                    &format!("wait {} \u{b7} {}{about}", wait.signal, words::describe_wait(wait)),
                );
            }
        }
    }
    let notes = words::missing_data_notes(timeline);
    if !notes.is_empty() {
        page.push_line(TextTone::Plain, "");
    }
    for note in notes {
        page.push_wrapped(TextTone::Quiet, &note);
    }
    page.lines
}

struct TimelineTextPage {
    lines: Vec<TextLine>,
    columns: usize,
}

impl TimelineTextPage {
    fn push_line(&mut self, tone: TextTone, text: &str) {
        let shown = if text.is_empty() { text.into() } else { to_visible_line(text) };
        let text = truncate_to_columns(&shown, self.columns).trim_end().to_owned();
        self.lines.push(TextLine { tone, text });
    }

    /// Adds a text of several lines, broken at spaces.
    fn push_wrapped(&mut self, tone: TextTone, text: &str) {
        let mut line = String::new();
        for word in text.split(' ') {
            if !line.is_empty() && width_of(&line) + 1 + width_of(word) > self.columns {
                self.push_line(tone, &line);
                line.clear();
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        self.push_line(tone, &line);
    }

    fn push_turn(&mut self, timeline: &Timeline, (turn, rows): (&TurnSpan, &[TimelineRow]), names: usize) {
        let since = words::format_timestamp(turn.accepted_at);
        self.push_line(TextTone::Strong, &format!("{} \u{b7} {since}", words::describe_turn(timeline, turn)));
        let begin = turn.accepted_at;
        let end = rows.iter().map(|row| row.to).max().unwrap_or(begin);
        let times: Vec<[String; 2]> =
            rows.iter().map(|row| [format_offset(row, begin), format_row_duration(row)]).collect();
        let widest = |which: usize| times.iter().map(|time| width_of(&time[which])).max().unwrap_or(0);
        let (since, long) = (widest(0), widest(1));
        let bars = if self.columns >= WITH_BARS { BAR + 2 } else { 0 };
        let room = self.columns.saturating_sub(since + long + names + bars + 8);
        for (row, [at, took]) in rows.iter().zip(&times) {
            let (name, about) = (
                to_visible_line(&row.name),
                if row.about.is_empty() { "".into() } else { to_visible_line(&row.about) },
            );
            let (name, about) = (
                pad_to_columns(&truncate_to_columns(&name, names), names),
                pad_to_columns(&truncate_to_columns(&about, room), room),
            );
            let bar =
                if bars == 0 { String::new() } else { format!("  {}", draw_time_bar(row, (begin, end))) };
            let tone = match row.tint {
                TimelineTint::Bad => TextTone::Wrong,
                TimelineTint::Left => TextTone::Quiet,
                TimelineTint::Moment
                | TimelineTint::Message
                | TimelineTint::Tool
                | TimelineTint::Good
                | TimelineTint::Waiting => TextTone::Plain,
            };
            let text = format!("  {at:>since$}  {took:>long$}  {name}  {about}{bar}");
            let text = truncate_to_columns(&text, self.columns).trim_end().to_owned();
            self.lines.push(TextLine { tone, text });
        }
        if let Some(error) = &turn.error {
            self.push_wrapped(TextTone::Wrong, &to_visible_line(&error.diagnostic));
        }
    }
}

/// Says when after the beginning of its turn something was recorded.
fn format_offset(row: &TimelineRow, begin: Timestamp) -> String {
    words::format_duration(row.to.duration_since(begin))
}

/// Says how long something took, if it took any time.
fn format_row_duration(row: &TimelineRow) -> String {
    let took = row.to.duration_since(row.from);
    if took.is_zero() { String::new() } else { words::format_duration(took) }
}

pub(super) fn pad_to_columns(text: &str, columns: usize) -> String {
    let missing = columns.saturating_sub(width_of(text));
    format!("{text}{}", " ".repeat(missing))
}

/// Draws when in its turn something was.
fn draw_time_bar(row: &TimelineRow, turn: (Timestamp, Timestamp)) -> String {
    let mark = match row.tint {
        TimelineTint::Moment | TimelineTint::Good => '\u{25cf}',
        TimelineTint::Message => '\u{2588}',
        TimelineTint::Tool => '\u{2593}',
        TimelineTint::Left => '\u{2591}',
        TimelineTint::Bad => '\u{2715}',
        TimelineTint::Waiting => '\u{25cb}',
    };
    draw_bar((row.from, row.to), turn, mark).trim_end().to_owned()
}

/// Draws a time span within a longer one as a bar of [`BAR`] columns.
pub(super) fn draw_bar(
    (from, to): (Timestamp, Timestamp),
    (begin, end): (Timestamp, Timestamp),
    mark: char,
) -> String {
    let whole = end.duration_since(begin).as_millis().max(1);
    let column = |at: Timestamp| {
        let part = at.duration_since(begin).as_millis().min(whole) * (BAR as u128 - 1) / whole;
        usize::try_from(part).unwrap_or(0)
    };
    let columns = column(from)..=column(to);
    (0..BAR).map(|at| if columns.contains(&at) { mark } else { ' ' }).collect()
}
