//! The output of a call for the model.

use std::fmt;

use serde::Serialize;
use singletree_llm::TOOL_PICTURES_MAX;

use crate::error::{Error, Result};

/// The media types of the pictures that a model can be shown.
const PICTURE_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Bytes of all pictures of one call; those beyond are named in the text and not shown (INV-12).
const PICTURE_BYTES_MAX: usize = 20 << 20;

/// A picture that a tool returned. `Debug` shows none of its bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct OutputPicture {
    /// Its IANA media type.
    pub media_type: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Where in the text it belongs, in bytes: at the end where the text is shorter.
    pub at: usize,
}

impl OutputPicture {
    /// Writes the line that stands in the text for a picture that no model is shown, with the category of the error
    /// that is the reason, if one is.
    #[must_use]
    pub fn placeholder_line(&self, category: Option<&str>) -> String {
        let reason = category.map(|category| format!(": {category}")).unwrap_or_default();
        format!("[image: {}, {} bytes, not shown{reason}]", self.media_type, self.bytes.len())
    }
}

impl fmt::Debug for OutputPicture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OutputPicture({}, {} bytes, at {})", self.media_type, self.bytes.len(), self.at)
    }
}

/// The result of a call. The text goes into the tool message; the rest stands beside it (D17).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// The text for the model.
    pub text: String,
    /// Whether the call succeeded.
    pub success: bool,
    /// The category of the error that this is the result of.
    pub category: Option<&'static str>,
    /// The pictures that belong to the text, in its order. A tool message holds text only: who records the result keeps
    /// them elsewhere, and puts a line for each into the text ([`Output::text_with_lines`]).
    pub pictures: Vec<OutputPicture>,
}

impl Output {
    /// Makes a successful output of text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), success: true, category: None, pictures: Vec::new() }
    }

    /// Makes a successful output of JSON.
    ///
    /// # Errors
    ///
    /// `tool_failed` when the value cannot be written as JSON.
    pub fn json<T: Serialize>(value: &T) -> Result<Self> {
        serde_json::to_string(value)
            .map(Self::text)
            .map_err(|error| Error::failed_with_source("the result cannot be written as JSON", error))
    }

    /// Makes the output of a call that failed.
    #[must_use]
    pub fn from_error(error: &Error) -> Self {
        let (text, category) = (format!("error: {error}"), Some(error.category()));
        Self { text, success: false, category, pictures: Vec::new() }
    }

    /// Adds a picture behind the text so far. PNG, JPEG, GIF and WebP can be shown, 16 of a call and 20 MiB together;
    /// any other becomes a line of the text.
    #[must_use]
    pub fn with_picture(mut self, media_type: impl Into<String>, bytes: Vec<u8>) -> Self {
        let (media_type, at) = (media_type.into(), self.text.len());
        self.pictures.push(OutputPicture { media_type, bytes, at });
        self
    }

    /// Adds a line of text behind the text and the pictures so far.
    #[must_use]
    pub fn with_line(mut self, line: &str) -> Self {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(line);
        self
    }

    /// Returns the text with a line for each picture, in the order of `pictures`, where it belongs.
    #[must_use]
    pub fn text_with_lines(&self, lines: &[String]) -> String {
        let (mut text, mut from) = (String::with_capacity(self.text.len()), 0);
        for (picture, line) in self.pictures.iter().zip(lines) {
            let to = self.text.floor_char_boundary(picture.at).max(from);
            append_on_new_line(&mut text, &self.text[from..to]);
            append_on_new_line(&mut text, line);
            from = to;
        }
        append_on_new_line(&mut text, &self.text[from..]);
        text
    }

    /// Makes lines of the text of the pictures that no model is shown: of another type, or more than one call may
    /// return.
    #[must_use]
    pub(crate) fn with_shown_pictures(self) -> Self {
        let (mut text, mut pictures, mut from) = (String::with_capacity(self.text.len()), Vec::new(), 0);
        let mut room = PICTURE_BYTES_MAX;
        for picture in self.pictures {
            let to = self.text.floor_char_boundary(picture.at).max(from);
            append_on_new_line(&mut text, &self.text[from..to]);
            from = to;
            let is_shown = PICTURE_TYPES.contains(&picture.media_type.as_str());
            match room.checked_sub(picture.bytes.len()) {
                Some(left) if is_shown && pictures.len() < TOOL_PICTURES_MAX => {
                    room = left;
                    pictures.push(OutputPicture { at: text.len(), ..picture });
                }
                _ => append_on_new_line(&mut text, &picture.placeholder_line(None)),
            }
        }
        append_on_new_line(&mut text, &self.text[from..]);
        Self { text, pictures, ..self }
    }

    /// Cuts the text to at most this many bytes, with a note of the full length, if there is room.
    #[must_use]
    pub(crate) fn truncate_text(mut self, bytes_max: usize) -> Self {
        let bytes = self.text.len();
        if bytes <= bytes_max {
            return self;
        }
        let note = format!("\n[cut: the whole output has {bytes} bytes]");
        let (kept, note) = match bytes_max.checked_sub(note.len()) {
            Some(kept) => (kept, note.as_str()),
            None => (bytes_max, ""),
        };
        self.text.truncate(self.text.floor_char_boundary(kept));
        let end = self.text.len();
        self.text.push_str(note);
        // The place of these is cut: they stand behind the note.
        self.pictures
            .iter_mut()
            .filter(|picture| picture.at > end)
            .for_each(|picture| picture.at = usize::MAX);
        self
    }
}

/// Appends a part of a text that begins on a line of its own.
fn append_on_new_line(text: &mut String, part: &str) {
    if !part.is_empty() && !text.is_empty() && !text.ends_with('\n') && !part.starts_with('\n') {
        text.push('\n');
    }
    text.push_str(part);
}

impl From<String> for Output {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<&str> for Output {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(output: &Output) -> Vec<String> {
        output.pictures.iter().map(|picture| format!("[{} bytes]", picture.bytes.len())).collect()
    }

    #[test]
    fn a_line_of_each_picture_stands_where_it_was_returned() {
        let output = Output::text("").with_picture("image/png", vec![1]).with_line("one\ntwo");
        let output = output.with_picture("image/gif", vec![1, 2]).with_picture("image/png", vec![1, 2, 3]);
        let output = output.with_line("three").with_shown_pictures();
        let text = output.text_with_lines(&lines(&output));
        assert_eq!(text, "[1 bytes]\none\ntwo\n[2 bytes]\n[3 bytes]\nthree");
        assert_eq!(output.text, "one\ntwo\nthree");
        assert_eq!(Output::text("one").text_with_lines(&[]), "one");
    }

    // INV-12
    #[test]
    fn what_no_model_is_shown_or_is_too_much_becomes_text() {
        let large = vec![0; PICTURE_BYTES_MAX];
        let output = Output::text("a").with_picture("image/svg+xml", vec![1]);
        let output = output.with_picture("image/png", large).with_picture("image/png", vec![1, 2]);
        let output = output.with_shown_pictures();
        let expected =
            "a\n[image: image/svg+xml, 1 bytes, not shown]\n[image: image/png, 2 bytes, not shown]";
        assert_eq!(output.text, expected);
        assert_eq!(output.pictures.len(), 1);
        let line = output.pictures[0].placeholder_line(Some("chat_blobs_full"));
        assert_eq!(line, "[image: image/png, 20971520 bytes, not shown: chat_blobs_full]");
        let many = (0..20).fold(Output::text(""), |output, _| output.with_picture("image/png", vec![1]));
        let many = many.with_shown_pictures();
        assert_eq!((many.pictures.len(), many.text.lines().count()), (TOOL_PICTURES_MAX, 4));
    }

    #[test]
    fn a_picture_whose_place_was_cut_stands_at_the_end() {
        let output = Output::text("x".repeat(100)).with_picture("image/png", vec![1]).with_line("end");
        let output = output.truncate_text(60);
        let text = output.text_with_lines(&lines(&output));
        assert!(text.ends_with("\n[cut: the whole output has 104 bytes]\n[1 bytes]"), "{text}");
    }
}
