//! Words of a command line that is printed for people to paste.

use std::borrow::Cow;

/// Returns a word as a POSIX shell takes it for itself: as it is where nothing in it means anything there, else in
/// single quotes.
pub(crate) fn quote_shell_word(word: &str) -> Cow<'_, str> {
    let plain = |it: char| it.is_ascii_alphanumeric() || "-_./:=@%+,".contains(it);
    if !word.is_empty() && word.chars().all(plain) {
        return Cow::Borrowed(word);
    }
    Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_shell_would_read_otherwise_stands_in_quotes() {
        let check = |word: &str, expect: &str| assert_eq!(quote_shell_word(word), expect, "{word}");
        check("apr-c9742d83d4", "apr-c9742d83d4");
        check("/data/a/s.db", "/data/a/s.db");
        check("", "''");
        check("my agents.toml", "'my agents.toml'");
        check("approve|reject", "'approve|reject'");
        check("$(rm -r ~)", "'$(rm -r ~)'");
        check("it's", r"'it'\''s'");
    }
}
