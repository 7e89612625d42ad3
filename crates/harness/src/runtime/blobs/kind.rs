//! Detection of the media type of a file by its bytes.

use crate::{Error, Result};

/// Text has no signature: its declared type holds if the bytes are valid text.
const TEXTS: [&str; 4] = ["text/plain", "text/markdown", "text/csv", "application/json"];

/// Returns the media type of a file, if it is one of the accepted types. The type declared by the sender counts only
/// for text.
pub(super) fn detect_media_type(bytes: &[u8], declared: Option<&str>, kept: &[String]) -> Result<String> {
    if bytes.is_empty() {
        return Err(Error::BlobRefused { why: "it is empty".into() });
    }
    let is_kept = |it: &str| kept.iter().any(|kept| kept == it);
    let sniffed = infer::get(bytes).map(|it| it.mime_type());
    // Parameters, such as a character set, are not part of the media type.
    let declared =
        declared.map(|declared| declared.split(';').next().unwrap_or_default().trim().to_ascii_lowercase());
    let text = declared
        .filter(|declared| sniffed.is_none() && TEXTS.contains(&declared.as_str()) && is_plain_text(bytes));
    match (sniffed, text) {
        (Some(kind), _) if is_kept(kind) => Ok(kind.to_owned()),
        (None, Some(text)) if is_kept(&text) => Ok(text),
        (found, text) => {
            let found = found.map(str::to_owned).or(text).unwrap_or_else(|| "of no known type".into());
            Err(Error::BlobRefused { why: format!("it is {found}, and kept are {}", kept.join(", ")) })
        }
    }
}

fn is_plain_text(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| !text.contains('\0'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BlobLimits;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
    const JPEG: &[u8] = b"\xff\xd8\xff\xe0\0\x10JFIF";
    const WEBP: &[u8] = b"RIFF\x24\0\0\0WEBPVP8 ";

    fn check(bytes: &[u8], declared: Option<&str>, kept: &[String], expected: Result<&str, &str>) {
        let found = detect_media_type(bytes, declared, kept).map_err(|error| error.to_string());
        match expected {
            Ok(kind) => assert_eq!(found.as_deref(), Ok(kind)),
            Err(part) => assert!(found.as_ref().is_err_and(|error| error.contains(part)), "{found:?} {part}"),
        }
    }

    #[test]
    fn a_file_is_what_its_first_bytes_say_whatever_its_sender_says() {
        let kept = BlobLimits::default().types;
        check(PNG, Some("image/png"), &kept, Ok("image/png"));
        check(PNG, None, &kept, Ok("image/png"));
        check(PNG, Some("text/html"), &kept, Ok("image/png"));
        check(JPEG, Some("image/png"), &kept, Ok("image/jpeg"));
        check(b"GIF89a\x01\0\x01\0", None, &kept, Ok("image/gif"));
        check(WEBP, None, &kept, Ok("image/webp"));
        check(b"", Some("image/png"), &kept, Err("it is empty"));
        check(b"<html><script>", Some("image/png"), &kept, Err("it is text/html, and kept are image/png"));
        check(b"<svg xmlns='http://www.w3.org/2000/svg'/>", Some("image/svg+xml"), &kept, Err("it is"));
        check(b"%PDF-1.7\n", Some("image/png"), &kept, Err("it is application/pdf"));
        check(b"MZ\x90\0", None, &kept, Err("it is application/"));
        check(b"hello", Some("text/plain"), &kept, Err("it is text/plain"));
        check(b"\x01\x02\x03", None, &kept, Err("it is of no known type"));
    }

    #[test]
    fn text_is_kept_where_it_may_be_if_it_is_text() {
        let kept = ["text/plain", "application/json", "application/pdf"].map(str::to_owned);
        check(b"hello", Some("text/plain; charset=utf-8"), &kept, Ok("text/plain"));
        check(b"{}", Some("Application/JSON"), &kept, Ok("application/json"));
        check(b"%PDF-1.7\n", Some("text/plain"), &kept, Ok("application/pdf"));
        check(b"a,b", Some("text/csv"), &kept, Err("it is text/csv"));
        check(b"hello", None, &kept, Err("of no known type"));
        check(b"a\0b", Some("text/plain"), &kept, Err("of no known type"));
        check(b"caf\xe9", Some("text/plain"), &kept, Err("of no known type"));
    }
}
