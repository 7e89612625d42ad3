//! Patterns: literal text, `*`, and captures.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

/// The captured texts by name.
pub(super) type Captures = BTreeMap<String, String>;

/// A pattern over a whole text. Case and surrounding space do not matter.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TextPattern(Vec<PatternPiece>);

#[derive(Debug, Clone, PartialEq)]
enum PatternPiece {
    Literal(String),
    /// Any text, also none.
    Any,
    /// Some text, at least one character.
    Capture(String),
}

impl TextPattern {
    /// Reads a pattern.
    pub(super) fn parse_pattern(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut rest = text.trim();
        while let Some(at) = rest.find(['*', '{']) {
            if at > 0 {
                pieces.push(PatternPiece::Literal(rest[..at].to_owned()));
            }
            if matches!(pieces.last(), Some(PatternPiece::Any | PatternPiece::Capture(_))) {
                return Err(format!("{text:?} has two wildcards side by side"));
            }
            if let Some(after) = rest[at..].strip_prefix('*') {
                pieces.push(PatternPiece::Any);
                rest = after;
            } else {
                let close = rest[at..].find('}').ok_or_else(|| format!("{text:?} lacks a }}"))?;
                let name = &rest[at + 1..at + close];
                if !is_capture_name(name) {
                    return Err(format!("{name:?} in {text:?} is no capture name"));
                }
                pieces.push(PatternPiece::Capture(name.to_owned()));
                rest = &rest[at + close + 1..];
            }
        }
        if !rest.is_empty() {
            pieces.push(PatternPiece::Literal(rest.to_owned()));
        }
        Ok(Self(pieces))
    }

    /// Matches a text. Each wildcard takes as little as it can; the last one takes the rest.
    pub(super) fn match_text(&self, text: &str) -> Option<Captures> {
        let mut captures = Captures::new();
        let mut rest = text.trim();
        let mut pieces = self.0.iter().peekable();
        while let Some(piece) = pieces.next() {
            let name = match piece {
                PatternPiece::Literal(literal) => {
                    rest = strip_prefix_ignoring_case(rest, literal)?;
                    continue;
                }
                PatternPiece::Any => None,
                PatternPiece::Capture(name) => Some(name),
            };
            let least = name.and_then(|_| rest.chars().next()).map_or(0, char::len_utf8);
            let literal = match pieces.next() {
                None => "",
                Some(PatternPiece::Literal(literal)) => literal,
                Some(PatternPiece::Any | PatternPiece::Capture(_)) => return None,
            };
            let end = if pieces.peek().is_none() {
                find_suffix_ignoring_case(rest, literal, least)?
            } else {
                find_ignoring_case(rest, literal, least)?
            };
            if let Some(name) = name {
                let kept = rest[..end].trim();
                if kept.is_empty() {
                    return None;
                }
                captures.insert(name.clone(), kept.to_owned());
            }
            rest = &rest[end + literal.len()..];
        }
        rest.is_empty().then_some(captures)
    }

    /// Returns the names of the captures.
    pub(super) fn capture_names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|piece| match piece {
            PatternPiece::Capture(name) => Some(name.as_str()),
            PatternPiece::Literal(_) | PatternPiece::Any => None,
        })
    }
}

impl<'de> Deserialize<'de> for TextPattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse_pattern(&text).map_err(serde::de::Error::custom)
    }
}

/// Says whether a text can name a capture.
pub(super) fn is_capture_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

fn strip_prefix_ignoring_case<'a>(text: &'a str, literal: &str) -> Option<&'a str> {
    let head = text.get(..literal.len())?;
    head.eq_ignore_ascii_case(literal).then(|| &text[literal.len()..])
}

fn find_ignoring_case(text: &str, literal: &str, from: usize) -> Option<usize> {
    (from..text.len())
        .find(|&at| text.get(at..at + literal.len()).is_some_and(|text| text.eq_ignore_ascii_case(literal)))
}

fn find_suffix_ignoring_case(text: &str, literal: &str, from: usize) -> Option<usize> {
    let at = text.len().checked_sub(literal.len()).filter(|&at| at >= from)?;
    text.get(at..)?.eq_ignore_ascii_case(literal).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, text: &str, expected: Option<&[(&str, &str)]>) {
        let pattern = TextPattern::parse_pattern(pattern).expect("a test's pattern reads");
        let expected: Option<Captures> =
            expected.map(|expected| expected.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect());
        assert_eq!(pattern.match_text(text), expected, "{pattern:?} on {text:?}");
    }

    #[test]
    fn a_pattern_fits_the_whole_text_and_keeps_what_it_names() {
        check("hello", " Hello ", Some(&[]));
        check("hello", "hello there", None);
        check("hello*", "hello", Some(&[]));
        check("*", "", Some(&[]));
        check("*time*", "what TIME is it?", Some(&[]));
        check("add {a} and {b}", "Add 1 and 2 and 3", Some(&[("a", "1"), ("b", "2 and 3")]));
        check("add {a} and {b}", "add 1 and ", None);
        check("send {what} to {who}.", "send x to y.z.", Some(&[("what", "x"), ("who", "y.z")]));
        check("{x}é{y}", "aéb", Some(&[("x", "a"), ("y", "b")]));
        check("{x}b", "äöb", Some(&[("x", "äö")]));
        check("a*a", "a", None);
        check("*a*b", "xaxb-b", Some(&[]));
        check("{all}", "   ", None);
    }

    #[test]
    fn a_pattern_that_cannot_be_read_is_refused() {
        for pattern in ["{a", "{}", "{A}", "{a}{b}", "{a}*", "**"] {
            assert!(TextPattern::parse_pattern(pattern).is_err(), "{pattern:?} was read");
        }
    }
}
