//! Text of others as people may see it: characters that show nothing, or that change the order of the rest, become
//! escapes.
//!
//! The page has the same functions in JavaScript (`web/js/visible_text.js`); one table of cases tests both
//! (`crates/draw/tests/visible_text.json`).

use std::borrow::Cow;
use std::fmt::Write;

/// The longest run of plain spaces whose length a reader still sees.
const SPACES_MAX: usize = 8;

/// Returns a text of others with an escape for each character that nobody sees, as `\u{202e}`. Newlines and tabs stay;
/// a carriage return before a newline is left out.
///
/// Joiners and variation selectors stay between letters or pictographs of which they are a part.
#[must_use]
pub fn visible_text(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_invisible_char) {
        return Cow::Borrowed(text);
    }
    let text = text.replace("\r\n", "\n");
    let mut visible = String::with_capacity(text.len());
    let mut before = None;
    let mut rest = text.chars();
    while let Some(it) = rest.next() {
        push_visible_char(&mut visible, before, it, rest.clone().next());
        before = Some(it);
    }
    Cow::Owned(visible)
}

/// Returns text of which every character counts, such as the arguments of an action that a person approves: blanks
/// other than a few spaces are escapes, too, as `\u{a0 x 6000}` where they are many.
///
/// Blanks at the beginning of a line are indentation and stay: give it JSON, in which a newline of a value is no
/// newline.
#[must_use]
pub fn visible_value(text: &str) -> String {
    let mut visible = String::with_capacity(text.len());
    let mut before = None;
    let mut rest = text;
    while let Some(it) = rest.chars().next() {
        if is_blank(it) {
            let end = rest.find(|item| !is_blank(item)).unwrap_or(rest.len());
            let (run, after) = rest.split_at(end);
            push_blanks(&mut visible, run, before.is_none_or(|before| before == '\n'));
            (before, rest) = (run.chars().next_back(), after);
        } else {
            rest = &rest[it.len_utf8()..];
            push_visible_char(&mut visible, before, it, rest.chars().next());
            before = Some(it);
        }
    }
    visible
}

/// Returns JSON in which characters that nobody sees are escaped as JSON escapes them: it stays the same value.
///
/// Such characters stand only inside of strings, where an escape means the same.
#[must_use]
pub fn visible_json(json: &str) -> Cow<'_, str> {
    if !json.chars().any(is_invisible_char) {
        return Cow::Borrowed(json);
    }
    let mut visible = String::with_capacity(json.len());
    for it in json.chars() {
        if is_invisible_char(it) {
            for unit in it.encode_utf16(&mut [0; 2]) {
                write!(visible, "\\u{unit:04x}").expect("text grows");
            }
        } else {
            visible.push(it);
        }
    }
    Cow::Owned(visible)
}

fn push_visible_char(visible: &mut String, before: Option<char>, it: char, after: Option<char>) {
    if is_invisible_char(it) && !is_visible_joiner(before, it, after) {
        push_char_escape(visible, it, 1);
    } else {
        visible.push(it);
    }
}

fn push_blanks(visible: &mut String, run: &str, begins_line: bool) {
    let count = run.chars().count();
    let is_spaces = run.bytes().all(|byte| byte == b' ');
    if (is_spaces && (count <= SPACES_MAX || begins_line)) || (count == 1 && run != "\t") {
        visible.push_str(run);
        return;
    }
    let mut rest = run.chars().peekable();
    while let Some(blank) = rest.next() {
        let mut count = 1;
        while rest.next_if_eq(&blank).is_some() {
            count += 1;
        }
        push_char_escape(visible, blank, count);
    }
}

fn push_char_escape(visible: &mut String, it: char, count: usize) {
    let number = u32::from(it);
    match count {
        1 => write!(visible, "\\u{{{number:x}}}"),
        many => write!(visible, "\\u{{{number:x} x {many}}}"),
    }
    .expect("text grows");
}

/// Tells whether a character shows nothing or changes the order of others: control characters except newline and tab; format, filler and tag characters; line separators; blank letters; no
/// characters.
#[must_use]
pub fn is_invisible_char(it: char) -> bool {
    match u32::from(it) {
        0x09 | 0x0a => false,
        0x00..=0x1f | 0x7f..=0x9f => true,
        0x00..0xad => false,
        0xad | 0x34f | 0x61c | 0x115f | 0x1160 | 0x17b4 | 0x17b5 | 0x180b..=0x180f => true,
        0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0x2800 | 0x3164 => true,
        0xfe00..=0xfe0f | 0xfeff | 0xffa0 | 0xfff0..=0xfffb | 0xfffe | 0xffff => true,
        0x110bd | 0x110cd | 0x13430..=0x1343f | 0x1bca0..=0x1bca3 | 0x1d173..=0x1d17a => true,
        0xe0000..=0xe0fff => true,
        _ => false,
    }
}

fn is_blank(it: char) -> bool {
    matches!(
        it,
        ' ' | '\t' | '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}'
    )
}

/// Joiners and variation selectors are visible parts of text between letters or pictographs.
fn is_visible_joiner(before: Option<char>, it: char, after: Option<char>) -> bool {
    let is = |it: Option<char>, kind: fn(char) -> bool| it.is_some_and(kind);
    match it {
        '\u{200c}' | '\u{200d}' if is(before, is_joining_letter) && is(after, is_joining_letter) => true,
        '\u{200d}' => is(before, is_pictograph) && is(after, is_pictograph) && after != Some('\u{fe0f}'),
        '\u{fe0e}' | '\u{fe0f}' => {
            let is_keycap = is(before, |it| matches!(it, '#' | '*' | '0'..='9')) && after == Some('\u{20e3}');
            is_keycap || is(before, is_pictograph) && before != Some('\u{fe0f}')
        }
        _ => false,
    }
}

/// Letters of scripts that join, or do not, by U+200C and U+200D.
fn is_joining_letter(it: char) -> bool {
    matches!(it, '\u{620}'..='\u{dff}')
}

/// Pictographs, and the selector that makes one of another sign.
fn is_pictograph(it: char) -> bool {
    matches!(u32::from(it),
        0xa9 | 0xae | 0x203c | 0x2049 | 0x2122 | 0x2139 | 0x2190..=0x21ff | 0x2300..=0x23ff | 0x24c2 | 0x25a0..=0x27bf
        | 0x2934 | 0x2935 | 0x2b00..=0x2bff | 0x3030 | 0x303d | 0x3297 | 0x3299 | 0xfe0f | 0x1f000..=0x1faff)
}
