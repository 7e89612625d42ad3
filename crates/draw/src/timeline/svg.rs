//! A timeline as an SVG: a band for each turn, with its own scale, and a band for each wait.

use singletree_durable::Timestamp;
use singletree_harness::{Timeline, TurnId, TurnSpan, WaitSpan};

use super::rows::{TimelineBand, TimelineRow, TimelineTint, collect_bands};
use super::words;
use crate::flow::{Dimensions, Point};
use crate::label::{sans_serif_width, to_visible_line, truncate_to_columns};
use crate::svg::{SvgWriter, TextAnchor};

const STYLE: &str = include_str!("style.css");
/// The width of the picture.
const WIDTH: f64 = 960.0;
const MARGIN: f64 = 28.0;
/// Where the bars begin, and how long they may be.
const BARS: f64 = 400.0;
const LONG: f64 = WIDTH - MARGIN - 24.0 - BARS;
const ROW: f64 = 36.0;
const HEAD: f64 = 92.0;
/// The head of a band, with the scale.
const BAND_HEAD: f64 = 52.0;
const WAIT: f64 = 46.0;
const GAP: f64 = 12.0;
const NOTE: f64 = 17.0;

pub(super) fn draw_timeline(timeline: &Timeline, asked: &TurnId) -> String {
    let bands = collect_bands(timeline);
    let notes: Vec<String> =
        words::missing_data_notes(timeline).iter().flat_map(|note| wrap_note(note)).collect();
    let heights: f64 = bands.iter().map(|band| band_height(band) + GAP).sum();
    let foot = if notes.is_empty() { 0.0 } else { 10.0 + NOTE * notes.len() as f64 };
    let size = Dimensions { width: WIDTH, height: HEAD + heights + foot + MARGIN - GAP };
    let mut svg = SvgWriter::new(size, &format!("Timeline of turn {asked}"), STYLE);
    svg.draw_rectangle("page", Point::default(), Dimensions { height: size.height.ceil(), ..size }, 12.0);
    let line = |y| Point { x: MARGIN, y };
    svg.write_text(
        "title",
        line(MARGIN + 12.0),
        TextAnchor::Start,
        &truncate_to_columns(&to_visible_line(&format!("turn {asked}")), 80),
    );
    let whose = format!("session {} \u{b7} agent {}", timeline.session, timeline.agent);
    svg.write_text(
        "note",
        line(MARGIN + 31.0),
        TextAnchor::Start,
        &truncate_to_columns(&to_visible_line(&whose), 120),
    );
    svg.write_text(
        "summary",
        line(MARGIN + 49.0),
        TextAnchor::Start,
        &truncate_to_columns(&to_visible_line(&words::summarize_timeline(timeline)), 120),
    );
    let mut y = HEAD;
    for band in &bands {
        match band {
            TimelineBand::Turn(turn, rows) => paint_turn(&mut svg, timeline, (turn, rows), y),
            TimelineBand::Wait(wait) => paint_wait(&mut svg, wait, y),
        }
        y += band_height(band) + GAP;
    }
    for (place, note) in notes.iter().enumerate() {
        svg.write_text("note", line(y + 8.0 + NOTE * place as f64), TextAnchor::Start, note);
    }
    svg.finish()
}

fn band_height(band: &TimelineBand<'_>) -> f64 {
    match band {
        TimelineBand::Turn(turn, rows) => turn_height(turn, rows),
        TimelineBand::Wait(_) => WAIT,
    }
}

fn turn_height(turn: &TurnSpan, rows: &[TimelineRow]) -> f64 {
    let error = if turn.error.is_some() { NOTE } else { 0.0 };
    BAND_HEAD + ROW * rows.len() as f64 + 10.0 + error
}

/// Breaks a note into lines.
fn wrap_note(note: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in to_visible_line(note).split(' ') {
        let last = lines.len() - 1;
        if !lines[last].is_empty()
            && sans_serif_width(&lines[last], 11.0) + sans_serif_width(word, 11.0) > WIDTH - 2.0 * MARGIN
        {
            lines.push(word.to_owned());
            continue;
        }
        if !lines[last].is_empty() {
            lines[last].push(' ');
        }
        lines[last].push_str(word);
    }
    lines
}

/// Where times stand on the scale of one turn.
struct TimelineScale {
    begin: Timestamp,
    /// In milliseconds.
    whole: f64,
}

impl TimelineScale {
    fn x_of_time(&self, at: Timestamp) -> f64 {
        let part = at.duration_since(self.begin).as_millis() as f64 / self.whole;
        BARS + LONG * part.min(1.0)
    }

    /// Returns round times, as many as fit well.
    fn tick_millis(&self) -> Vec<u64> {
        const STEPS: [u64; 18] = [
            1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 300_000,
            900_000, 3_600_000,
        ];
        let whole = self.whole as u64;
        let fits = STEPS.into_iter().find(|it| whole / it <= 6);
        // Longer turns than this get a tick at their quarters.
        let step = fits.unwrap_or(whole / 4).max(1);
        (0..=whole / step).map(|it| it * step).collect()
    }
}

fn paint_turn(svg: &mut SvgWriter, timeline: &Timeline, (turn, rows): (&TurnSpan, &[TimelineRow]), y: f64) {
    let size = Dimensions { width: WIDTH - 2.0 * MARGIN, height: turn_height(turn, rows) };
    svg.open_group("turn", &format!("turn {}", turn.turn));
    svg.draw_rectangle("band", Point { x: MARGIN, y }, size, 10.0);
    let left = MARGIN + 18.0;
    let head = words::describe_turn(timeline, turn);
    svg.write_text("head", Point { x: left, y: y + 23.0 }, TextAnchor::Start, &head);
    svg.write_text(
        "note",
        Point { x: left, y: y + 39.0 },
        TextAnchor::Start,
        &words::format_timestamp(turn.accepted_at),
    );
    let end = rows.iter().map(|row| row.to).max().unwrap_or(turn.accepted_at);
    let whole = end.duration_since(turn.accepted_at).as_millis() as f64;
    let scale = TimelineScale { begin: turn.accepted_at, whole: whole.max(1.0) };
    let (top, bottom) = (y + BAND_HEAD - 8.0, y + BAND_HEAD + ROW * rows.len() as f64);
    let ticks = if whole > 0.0 { scale.tick_millis() } else { vec![0] };
    for tick in ticks {
        let x = BARS + LONG * (tick as f64 / scale.whole);
        svg.draw_polyline("tick", &[Point { x, y: top }, Point { x, y: bottom }]);
        let label = words::format_duration(std::time::Duration::from_millis(tick));
        svg.write_text("ticktext", Point { x, y: top - 7.0 }, TextAnchor::Middle, &label);
    }
    for (place, row) in rows.iter().enumerate() {
        paint_row(svg, row, &scale, y + BAND_HEAD + ROW * place as f64);
    }
    if let Some(error) = &turn.error {
        let why = truncate_to_width(&to_visible_line(&error.diagnostic), WIDTH - 2.0 * left);
        svg.write_text("why", Point { x: left, y: bottom + 14.0 }, TextAnchor::Start, &why);
    }
    svg.close_group();
}

fn paint_row(svg: &mut SvgWriter, row: &TimelineRow, scale: &TimelineScale, y: f64) {
    let title = format!("{} {}", row.name, row.about);
    svg.open_group(tint_class(row.tint), &truncate_to_columns(&to_visible_line(&title), 2_000));
    let left = MARGIN + 18.0;
    svg.write_text(
        "name",
        Point { x: left, y: y + 14.0 },
        TextAnchor::Start,
        &truncate_to_columns(&to_visible_line(&row.name), 40),
    );
    if !row.about.is_empty() {
        let about = to_visible_line(&row.about).into_owned();
        let about = truncate_to_width(&about, BARS - left - 24.0);
        svg.write_text("about", Point { x: left, y: y + 28.5 }, TextAnchor::Start, &about);
    }
    let (from, to) = (scale.x_of_time(row.from), scale.x_of_time(row.to));
    let middle = y + 15.0;
    let took = row.to.duration_since(row.from);
    if took.is_zero() {
        svg.draw_circle("bar", Point { x: from, y: middle }, 5.0);
    } else {
        let width = (to - from).max(4.0);
        svg.draw_rectangle(
            "bar",
            Point { x: from, y: middle - 6.0 },
            Dimensions { width, height: 12.0 },
            4.0,
        );
        let text = words::format_duration(took);
        let room = sans_serif_width(&text, 10.5) + 14.0;
        if from + width + room < BARS + LONG + 20.0 {
            svg.write_text(
                "took",
                Point { x: from + width + 7.0, y: middle + 3.7 },
                TextAnchor::Start,
                &text,
            );
        } else if from - room > BARS {
            svg.write_text("took", Point { x: from - 7.0, y: middle + 3.7 }, TextAnchor::End, &text);
        } else {
            svg.write_text("took", Point { x: from + width - 4.0, y: middle + 17.5 }, TextAnchor::End, &text);
        }
    }
    svg.close_group();
}

/// Cuts a text to a width.
fn truncate_to_width(text: &str, width: f64) -> String {
    let mut columns = crate::label::count_columns(text);
    loop {
        let kept = truncate_to_columns(text, columns);
        if columns <= 1 || sans_serif_width(&kept, 10.5) <= width {
            return kept.into_owned();
        }
        columns -= 1;
    }
}

fn paint_wait(svg: &mut SvgWriter, wait: &WaitSpan, y: f64) {
    svg.open_group("wait", &format!("wait {}: {}", wait.wait, to_visible_line(&wait.signal)));
    svg.draw_rectangle(
        "band",
        Point { x: MARGIN, y },
        Dimensions { width: WIDTH - 2.0 * MARGIN, height: WAIT },
        10.0,
    );
    let left = MARGIN + 18.0;
    // An hourglass.
    let glass = [(0.0, 13.0), (12.0, 13.0), (0.0, 33.0), (12.0, 33.0), (0.0, 13.0)];
    let glass = glass.map(|(x, down)| Point { x: left + x, y: y + down });
    svg.draw_polyline("glass", &glass);
    let about = words::describe_purpose(wait).map(|purpose| format!(" \u{b7} {purpose}")).unwrap_or_default();
    let text = format!("wait \u{b7} {}", words::describe_wait(wait));
    svg.write_text(
        "head",
        Point { x: left + 24.0, y: y + 20.0 },
        TextAnchor::Start,
        &truncate_to_columns(&to_visible_line(&text), 100),
    );
    let signal = format!("{}{about}", wait.signal);
    svg.write_text(
        "note",
        Point { x: left + 24.0, y: y + 36.0 },
        TextAnchor::Start,
        &truncate_to_columns(&to_visible_line(&signal), 120),
    );
    svg.close_group();
}

fn tint_class(tint: TimelineTint) -> &'static str {
    match tint {
        TimelineTint::Moment => "moment",
        TimelineTint::Message => "message",
        TimelineTint::Tool => "tool",
        TimelineTint::Left => "left",
        TimelineTint::Good => "good",
        TimelineTint::Bad => "bad",
        TimelineTint::Waiting => "waiting",
    }
}
