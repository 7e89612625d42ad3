//! Text in pictures: the permitted characters of names, their width, and where they are cut.

use std::borrow::Cow;

use singletree_narration::{is_invisible_char, visible_text};

/// Makes a name fit to be shown on one line: blanks of all kinds become spaces; characters that are invisible, or
/// would change how the rest is read, become escapes.
pub(crate) fn to_visible_line(name: &str) -> Cow<'_, str> {
    if name.is_empty() {
        return Cow::Borrowed("\"\"");
    }
    let is_break = |it: char| {
        it.is_whitespace() && it != ' ' && !is_invisible_char(it) || matches!(it, '\r' | '\u{b}' | '\u{c}')
    };
    if !name.chars().any(is_break) {
        return visible_text(name);
    }
    let spaced: String = name.chars().map(|it| if is_break(it) { ' ' } else { it }).collect();
    Cow::Owned(visible_text(&spaced).into_owned())
}

/// Cuts a text to so many columns, with an ellipsis where something is missing.
pub(crate) fn truncate_to_columns(text: &str, max: usize) -> Cow<'_, str> {
    if count_columns(text) <= max {
        return Cow::Borrowed(text);
    }
    let (mut taken, mut end) = (0, 0);
    for (at, it) in text.char_indices() {
        taken += char_columns(it);
        if taken >= max {
            break;
        }
        end = at + it.len_utf8();
    }
    Cow::Owned(format!("{}\u{2026}", text[..end].trim_end()))
}

/// Returns how many columns a text takes where letters are equally wide.
pub(crate) fn count_columns(text: &str) -> usize {
    text.chars().map(char_columns).sum()
}

/// Letters of East Asian scripts and pictographs take two columns.
fn char_columns(it: char) -> usize {
    let wide = matches!(u32::from(it),
        0x1100..=0x115f | 0x2e80..=0xa4cf | 0xac00..=0xd7a3 | 0xf900..=0xfaff | 0xfe30..=0xfe6f
        | 0xff00..=0xff60 | 0xffe0..=0xffe6 | 0x1f300..=0x1faff | 0x20000..=0x3fffd);
    if wide { 2 } else { 1 }
}

/// Returns about how wide a text is in a proportional sans serif font of this size: rather more than it is.
pub(crate) fn sans_serif_width(text: &str, size: f64) -> f64 {
    let letters = text.chars().map(|letter| match letter {
        'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' => 0.32,
        'f' | 't' | 'r' | ' ' | '(' | ')' | '-' | '/' => 0.40,
        'm' | 'w' | 'M' | 'W' | '@' => 0.95,
        'A'..='Z' => 0.70,
        letter if char_columns(letter) == 2 => 1.05,
        letter if letter.is_ascii() => 0.60,
        _ => 0.70,
    });
    letters.sum::<f64>() * size
}

/// Returns how wide a text is in a font of equally wide letters of this size.
pub(crate) fn monospace_width(text: &str, size: f64) -> f64 {
    count_columns(text) as f64 * 0.605 * size
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_escaped() {
        assert_eq!(to_visible_line("a b"), "a b");
        assert_eq!(to_visible_line(""), "\"\"");
        assert_eq!(to_visible_line("a\nb\t\u{0}\u{202e}c\u{ffff}"), "a b \\u{0}\\u{202e}c\\u{ffff}");
    }

    #[test]
    fn a_text_is_cut_to_the_columns_it_may_take() {
        assert_eq!(truncate_to_columns("abcdef", 6), "abcdef");
        assert_eq!(truncate_to_columns("abcdefg", 6), "abcde\u{2026}");
        assert_eq!(truncate_to_columns("\u{4e16}\u{754c}\u{4e16}", 6), "\u{4e16}\u{754c}\u{4e16}");
        assert_eq!(truncate_to_columns("\u{4e16}\u{754c}\u{4e16}", 5), "\u{4e16}\u{754c}\u{2026}");
        assert_eq!(truncate_to_columns("abc", 1), "\u{2026}");
    }
}
