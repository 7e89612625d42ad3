//! A line scanner for Rust: tells code from comments and strings, and finds functions.
//!
//! It is no parser. It knows strings, raw strings, characters, lifetimes and nested comments, so that braces match.

use std::ops::Range;

/// A Rust source text, scanned.
#[derive(Debug)]
pub(crate) struct RustSource {
    /// The text with the insides of comments, strings and characters blanked out. It has the same length and the same
    /// line breaks; each byte that is not ASCII reads `x`.
    pub(crate) code: String,
    /// Where the insides of string literals lie in the text.
    pub(crate) literals: Vec<Range<usize>>,
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RustFunction {
    /// Its name.
    pub(crate) name: String,
    /// From `fn` to the closing brace, as offsets.
    pub(crate) span: Range<usize>,
    /// The line of `fn`, from 1.
    pub(crate) line: usize,
    /// How many lines it takes, the first and the last included.
    pub(crate) lines: usize,
}

impl RustSource {
    /// Scans a text.
    pub(crate) fn scan(text: &str) -> Self {
        let bytes = text.as_bytes();
        let mut code: Vec<u8> = bytes.iter().map(|byte| if byte.is_ascii() { *byte } else { b'x' }).collect();
        let mut literals = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let (inside, end) = find_hidden_span(bytes, at);
            if bytes[at] != b'/' && bytes[at] != b'\'' && end > at + 1 {
                literals.push(inside.clone());
            }
            blank_bytes(&mut code[inside]);
            at = end;
        }
        let code = String::from_utf8(code).expect("every byte was made ASCII");
        Self { code, literals }
    }

    /// Returns the line, from 1, of an offset.
    pub(crate) fn line_at_offset(&self, offset: usize) -> usize {
        1 + self.code[..offset].matches('\n').count()
    }

    /// Returns the offsets where a word stands in the code as a whole identifier.
    pub(crate) fn word_offsets<'a>(&'a self, word: &'a str) -> impl Iterator<Item = usize> + 'a {
        let bytes = self.code.as_bytes();
        self.code.match_indices(word).map(|(at, _)| at).filter(move |&at| {
            let before = at.checked_sub(1).map(|at| bytes[at]);
            let after = bytes.get(at + word.len()).copied();
            !before.is_some_and(is_name_byte) && !after.is_some_and(is_name_byte)
        })
    }

    /// Returns the functions that have a body, nested ones too.
    pub(crate) fn functions(&self) -> Vec<RustFunction> {
        self.word_offsets("fn").filter_map(|start| self.function_at(start)).collect()
    }

    fn function_at(&self, start: usize) -> Option<RustFunction> {
        let bytes = self.code.as_bytes();
        let name: String =
            self.code[start + 2..].trim_start().chars().take_while(|c| is_name_byte(*c as u8)).collect();
        if name.is_empty() {
            return None; // the type of a function pointer
        }
        let open = find_body_start(bytes, start)?;
        let span = start..find_closing_brace(bytes, open)? + 1;
        let line = self.line_at_offset(start);
        let lines = 1 + self.line_at_offset(span.end - 1) - line;
        Some(RustFunction { name, span, line, lines })
    }

    /// Returns the line, from 1, of the `#[cfg(test)]` on a module written out in place.
    pub(crate) fn first_test_line(&self) -> Option<usize> {
        let mut marked = None;
        for (number, line) in (1..).zip(self.code.lines()) {
            let line = line.trim();
            if line.starts_with("#[cfg(test)]") {
                marked = Some(number);
            } else if marked.is_some() && line.contains("mod ") && line.contains('{') {
                return marked;
            } else if !line.is_empty() && !line.starts_with("#[") {
                marked = None;
            }
        }
        None
    }
}

/// Returns the comment, string or character at this place, as the inside to blank, and the place where to go on.
fn find_hidden_span(bytes: &[u8], at: usize) -> (Range<usize>, usize) {
    let starts = |prefix: &[u8]| bytes[at..].starts_with(prefix);
    match bytes[at] {
        b'/' if starts(b"//") => {
            let end = find_bytes(bytes, at, b"\n");
            (at..end, end)
        }
        b'/' if starts(b"/*") => {
            let end = block_comment_end(bytes, at);
            (at..end, end)
        }
        b'"' => {
            let end = closing_quote(bytes, at + 1, b'"');
            (at + 1..end, end + 1)
        }
        b'r' => find_raw_string(bytes, at).unwrap_or((at..at, at + 1)),
        b'\'' => find_character_literal(bytes, at),
        _ => (at..at, at + 1),
    }
}

/// Returns where the block comment that starts here ends; such comments nest.
fn block_comment_end(bytes: &[u8], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0_usize);
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    at
}

/// Returns the place of the closing quote, escapes skipped.
fn closing_quote(bytes: &[u8], mut at: usize, quote: u8) -> usize {
    while at < bytes.len() && bytes[at] != quote {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at.min(bytes.len())
}

/// Reads `r"…"` or `r#"…"#`, unless the `r` is the end of a name or begins one.
fn find_raw_string(bytes: &[u8], at: usize) -> Option<(Range<usize>, usize)> {
    let prefix = match at.checked_sub(1).map(|before| bytes[before]) {
        Some(b'b' | b'c') => at.checked_sub(2).map(|before| bytes[before]),
        before => before,
    };
    if prefix.is_some_and(is_name_byte) {
        return None;
    }
    let hashes = bytes[at + 1..].iter().take_while(|byte| **byte == b'#').count();
    let inside = at + 2 + hashes;
    if bytes.get(inside - 1) != Some(&b'"') {
        return None;
    }
    let close = [b"\"".as_slice(), &vec![b'#'; hashes]].concat();
    let end = find_bytes(bytes, inside, &close);
    Some((inside..end, (end + close.len()).min(bytes.len())))
}

/// Reads a character literal; a lifetime is left as code.
fn find_character_literal(bytes: &[u8], at: usize) -> (Range<usize>, usize) {
    let end = match bytes.get(at + 1) {
        Some(b'\\') => closing_quote(bytes, at + 1, b'\''),
        Some(first) => at + 1 + utf8_width(*first),
        None => bytes.len(),
    };
    if bytes.get(end) == Some(&b'\'') { (at + 1..end, end + 1) } else { (at..at, at + 1) }
}

/// Returns how many bytes the character that begins with this one has.
fn utf8_width(first: u8) -> usize {
    match first {
        0xf0.. => 4,
        0xe0.. => 3,
        0xc0.. => 2,
        _ => 1,
    }
}

fn find_bytes(bytes: &[u8], from: usize, wanted: &[u8]) -> usize {
    (from..bytes.len()).find(|&at| bytes[at..].starts_with(wanted)).unwrap_or(bytes.len())
}

fn blank_bytes(bytes: &mut [u8]) {
    for byte in bytes.iter_mut().filter(|byte| **byte != b'\n') {
        *byte = b' ';
    }
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Returns where the body opens; a declaration without one ends in a semicolon.
fn find_body_start(code: &[u8], start: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, byte) in code.iter().enumerate().skip(start) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.checked_sub(1)?,
            b'{' if depth == 0 => return Some(at),
            b';' if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

/// Returns the brace that closes the one at `open`.
fn find_closing_brace(code: &[u8], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, byte) in code.iter().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 1 => return Some(at),
            b'}' => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests;
