//! Writing SVG: every text is escaped here, every number rounded here.

use std::fmt::Write;

use crate::flow::{ArrowPath, Dimensions, PathSegment, Point};

/// An SVG on its way.
#[derive(Debug, Default)]
pub(crate) struct SvgWriter {
    text: String,
}

/// Where a line of text stands with respect to its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextAnchor {
    Start,
    Middle,
    End,
}

impl SvgWriter {
    /// Begins a picture of this size. `style` is trusted, everything else is not.
    pub(crate) fn new(size: Dimensions, title: &str, style: &str) -> Self {
        let mut svg = Self::default();
        let (width, height) = (RoundedNumber(size.width.ceil()), RoundedNumber(size.height.ceil()));
        let title = escape_xml(title);
        svg.push_line(&format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" role=\"img\">"
        ));
        svg.push_line(&format!("<title>{title}</title>"));
        svg.push_line(&format!("<style>\n{}\n</style>", style.trim()));
        svg
    }

    /// Ends the picture.
    pub(crate) fn finish(mut self) -> String {
        self.push_line("</svg>");
        self.text
    }

    fn push_line(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
    }

    /// Begins a group with a text that is shown when somebody points at it.
    pub(crate) fn open_group(&mut self, class: &str, title: &str) {
        self.push_line(&format!("<g class=\"{class}\"><title>{}</title>", escape_xml(title)));
    }

    /// Ends a group.
    pub(crate) fn close_group(&mut self) {
        self.push_line("</g>");
    }

    /// Draws a box.
    pub(crate) fn draw_rectangle(&mut self, class: &str, at: Point, size: Dimensions, round: f64) {
        let (x, y, width, height) =
            (RoundedNumber(at.x), RoundedNumber(at.y), RoundedNumber(size.width), RoundedNumber(size.height));
        let round = RoundedNumber(round);
        self.push_line(&format!(
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"{round}\"/>"
        ));
    }

    /// Draws a dot.
    pub(crate) fn draw_circle(&mut self, class: &str, at: Point, radius: f64) {
        let (x, y, radius) = (RoundedNumber(at.x), RoundedNumber(at.y), RoundedNumber(radius));
        self.push_line(&format!("<circle class=\"{class}\" cx=\"{x}\" cy=\"{y}\" r=\"{radius}\"/>"));
    }

    /// Writes a line of text.
    pub(crate) fn write_text(&mut self, class: &str, at: Point, anchor: TextAnchor, text: &str) {
        let (x, y) = (RoundedNumber(at.x), RoundedNumber(at.y));
        let anchor = match anchor {
            TextAnchor::Start => "",
            TextAnchor::Middle => " text-anchor=\"middle\"",
            TextAnchor::End => " text-anchor=\"end\"",
        };
        self.push_line(&format!(
            "<text class=\"{class}\" x=\"{x}\" y=\"{y}\"{anchor}>{}</text>",
            escape_xml(text)
        ));
    }

    /// Draws a line through places.
    pub(crate) fn draw_polyline(&mut self, class: &str, places: &[Point]) {
        let mut path = String::new();
        for (at, place) in places.iter().enumerate() {
            let letter = if at == 0 { 'M' } else { 'L' };
            let _ = write!(path, "{letter}{} {}", RoundedNumber(place.x), RoundedNumber(place.y));
        }
        self.push_line(&format!("<path class=\"{class}\" d=\"{path}\"/>"));
    }

    /// Draws an arrow along a path that is moved by `by`; its head touches the end.
    pub(crate) fn draw_arrow(&mut self, class: &str, path: &ArrowPath, by: Point) {
        let moved = |it: &Point| Point { x: it.x + by.x, y: it.y + by.y };
        let mut d = String::new();
        let (mut before, mut end) = (Point::default(), Point::default());
        for (at, step) in path.steps.iter().enumerate() {
            match step {
                PathSegment::To(to) => {
                    before = end;
                    end = moved(to);
                    let letter = if at == 0 { 'M' } else { 'L' };
                    let _ = write!(d, "{letter}{} {}", RoundedNumber(end.x), RoundedNumber(end.y));
                }
                PathSegment::Curve(one, other, to) => {
                    let (one, other) = (moved(one), moved(other));
                    before = other;
                    end = moved(to);
                    let points = [one, other, end]
                        .map(|item| format!("{} {}", RoundedNumber(item.x), RoundedNumber(item.y)));
                    let _ = write!(d, "C{}", points.join(" "));
                }
            }
        }
        self.push_line(&format!("<path class=\"line {class}\" d=\"{d}\"/>"));
        let length = ((end.x - before.x).powi(2) + (end.y - before.y).powi(2)).sqrt().max(0.001);
        let (dx, dy) = ((end.x - before.x) / length, (end.y - before.y) / length);
        let back = Point { x: end.x - dx * 7.0, y: end.y - dy * 7.0 };
        let wing = |side: f64| Point { x: back.x - dy * side, y: back.y + dx * side };
        let [one, other] = [wing(3.6), wing(-3.6)]
            .map(|item| format!("{} {}", RoundedNumber(item.x), RoundedNumber(item.y)));
        let (x, y) = (RoundedNumber(end.x), RoundedNumber(end.y));
        self.push_line(&format!("<path class=\"head {class}\" d=\"M{x} {y}L{one}L{other}Z\"/>"));
    }
}

/// A number with at most one decimal.
struct RoundedNumber(f64);

impl std::fmt::Display for RoundedNumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tenths = (self.0 * 10.0).round();
        // No minus before a zero.
        let number = if tenths == 0.0 { 0.0 } else { tenths / 10.0 };
        write!(f, "{number}")
    }
}

/// Escapes a text for XML; characters that XML cannot hold are replaced.
pub(crate) fn escape_xml(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for it in text.chars() {
        match it {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\t' | '\n' => escaped.push(it),
            it if it.is_control() || matches!(it, '\u{fffe}' | '\u{ffff}') => {
                escaped.push(char::REPLACEMENT_CHARACTER);
            }
            it => escaped.push(it),
        }
    }
    escaped
}
