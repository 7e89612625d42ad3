//! Texts that nearly every session has: they are stored as an empty text and take no space.
//!
//! A text that is empty itself, or only spaces, is stored with one space more, so that every text is restored exactly.

use std::borrow::Cow;

/// The usual version of a session's state.
pub(crate) const SCHEMA: &str = "unversioned";

/// The usual prompt policy.
pub(crate) const POLICY: &str = "conversation";

/// Returns the stored form of a text.
pub(crate) fn shorten_usual<'a>(text: &'a str, usual: &str) -> Cow<'a, str> {
    if text == usual {
        Cow::Borrowed("")
    } else if is_blank(text) {
        Cow::Owned(format!("{text} "))
    } else {
        Cow::Borrowed(text)
    }
}

/// Returns the text of a stored form.
pub(crate) fn restore_usual(mut stored: String, usual: &str) -> String {
    if stored.is_empty() {
        return usual.to_owned();
    }
    if is_blank(&stored) {
        stored.pop();
    }
    stored
}

fn is_blank(text: &str) -> bool {
    text.bytes().all(|byte| byte == b' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_comes_back_and_the_usual_one_takes_no_room() {
        for text in ["usual", "", " ", "  ", "usual ", " usual", "x", "\t"] {
            let stored = shorten_usual(text, "usual").into_owned();
            assert_eq!(stored.is_empty(), text == "usual", "{text:?}");
            assert_eq!(restore_usual(stored, "usual"), text);
        }
    }
}
