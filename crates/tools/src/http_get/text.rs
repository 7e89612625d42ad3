//! Bytes of a stated type as text.

/// Reads bytes as text, if their type is one of text in an encoding that we know. Without a type, UTF-8 is text.
pub(super) fn decode_text(kind: &str, bytes: &[u8]) -> Option<String> {
    let kind = kind.to_ascii_lowercase();
    let (essence, parameters) = kind.split_once(';').unwrap_or((&kind, ""));
    let essence = essence.trim();
    let stated = essence.contains('/');
    if stated && !is_textual_type(essence) {
        return None;
    }
    let charset = parameters.split(';').find_map(|part| part.trim().strip_prefix("charset="));
    let text = match charset.map(|charset| charset.trim_matches('"')) {
        // As every browser does: the two are read alike where they are printable.
        Some("iso-8859-1" | "latin1" | "windows-1252") => {
            bytes.iter().map(|byte| char::from(*byte)).collect()
        }
        None | Some("utf-8" | "utf8" | "us-ascii") if stated => match decode_utf8_prefix(bytes) {
            Some(text) => text.to_owned(),
            None => String::from_utf8_lossy(bytes).into_owned(),
        },
        None => decode_utf8_prefix(bytes)?.to_owned(),
        Some(_) => return None,
    };
    Some(strip_control_chars(&text))
}

fn is_textual_type(essence: &str) -> bool {
    const KINDS: [&str; 7] = [
        "application/json",
        "application/xml",
        "application/javascript",
        "application/yaml",
        "application/x-ndjson",
        "application/x-yaml",
        "application/toml",
    ];
    essence.starts_with("text/")
        || essence.ends_with("+json")
        || essence.ends_with("+xml")
        || KINDS.contains(&essence)
}

/// Reads UTF-8 whose last character may be cut.
fn decode_utf8_prefix(bytes: &[u8]) -> Option<&str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Some(text),
        Err(error) if error.error_len().is_none() => std::str::from_utf8(&bytes[..error.valid_up_to()]).ok(),
        Err(_) => None,
    }
}

/// Removes characters that would control a terminal or change the direction of writing.
fn strip_control_chars(text: &str) -> String {
    let hidden = |it: char| matches!(it, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let keep = |it: &char| matches!(it, '\n' | '\t') || !(it.is_control() || hidden(*it));
    text.chars().filter(keep).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_text_is_read_in_its_encoding_and_what_is_none_is_not() {
        let table: [(&str, &[u8], Option<&str>); 15] = [
            ("text/html; charset=utf-8", "é".as_bytes(), Some("é")),
            ("text/html", "aé".as_bytes().split_at(2).0, Some("a")),
            ("Text/Plain", b"a\r\n\tb", Some("a\n\tb")),
            ("text/plain; charset=ISO-8859-1", b"\xe9", Some("é")),
            ("text/plain; charset=\"utf-8\"", b"\xff", Some("\u{fffd}")),
            ("text/plain; charset=koi8-r", b"a", None),
            ("application/json", b"{}", Some("{}")),
            ("application/problem+json", b"{}", Some("{}")),
            ("image/svg+xml", b"<svg/>", Some("<svg/>")),
            ("image/png", b"a", None),
            ("application/octet-stream", b"a", None),
            ("of no stated type", b"a", Some("a")),
            ("of no stated type", "aé".as_bytes().split_at(2).0, Some("a")),
            ("of no stated type", b"\xff\xfe\x00", None),
            ("text/plain", "\u{1b}[31mred\u{202e}left\0".as_bytes(), Some("[31mredleft")),
        ];
        for (kind, bytes, expected) in table {
            assert_eq!(decode_text(kind, bytes).as_deref(), expected, "{kind} {bytes:?}");
        }
    }
}
