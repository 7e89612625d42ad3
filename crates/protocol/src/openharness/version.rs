//! Versions of the wire format (spec: OpenHarness §3).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The version that we speak; of the same major all are understood (D18).
pub const SUPPORTED: &str = "1.0.0";

/// A semantic version, ASCII and strict: no leading zeros, no empty parts, nothing around it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtocolVersion {
    major: u64,
    text: String,
}

impl ProtocolVersion {
    /// Returns the version that we speak.
    #[must_use]
    pub fn supported() -> Self {
        Self { major: 1, text: SUPPORTED.to_owned() }
    }

    /// Tells whether a message of this version can be understood: minor versions only add (§3).
    #[must_use]
    pub fn is_supported(&self) -> bool {
        self.major == 1
    }

    /// Returns it as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The text is no semantic version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoVersion;

impl fmt::Display for NoVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a semantic version")
    }
}

impl std::error::Error for NoVersion {}

impl FromStr for ProtocolVersion {
    type Err = NoVersion;

    fn from_str(text: &str) -> Result<Self, NoVersion> {
        let (rest, build) = split_at_separator(text, '+');
        let (core, pre) = split_at_separator(rest, '-');
        let mut parts = core.split('.');
        let numbers = [parts.next(), parts.next(), parts.next()];
        let numeric = numbers.iter().all(|number| number.is_some_and(is_number)) && parts.next().is_none();
        let pre_fits =
            pre.is_none_or(|pre| pre.split('.').all(|id| is_identifier(id) && !has_leading_zeros(id)));
        let build_fits = build.is_none_or(|build| build.split('.').all(is_identifier));
        if !(numeric && pre_fits && build_fits) {
            return Err(NoVersion);
        }
        // A number beyond 64 bits is a version all the same, and none that anybody speaks.
        let major = numbers[0].and_then(|it| it.parse().ok()).unwrap_or(u64::MAX);
        Ok(Self { major, text: text.to_owned() })
    }
}

fn split_at_separator(text: &str, at: char) -> (&str, Option<&str>) {
    text.split_once(at).map_or((text, None), |(before, after)| (before, Some(after)))
}

fn is_number(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_digit())
        && (text == "0" || !text.starts_with('0'))
}

fn is_identifier(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Tells whether it is a number with leading zeros, which a pre-release must not have.
fn has_leading_zeros(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && !is_number(text)
}

impl Serialize for ProtocolVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for ProtocolVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let wrong = de::Unexpected::Other("another text");
        text.parse().map_err(|_| de::Error::invalid_value(wrong, &"a semantic version"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: OpenHarness §3
    #[test]
    fn versions_are_read_strictly() {
        for (text, supported) in [
            ("1.0.0", true),
            ("1.0.0-draft", true),
            ("1.99.3-rc.1+build.007", true),
            ("1.0.0+x", true),
            ("0.1.0", false),
            ("2.0.0", false),
            ("10.0.0", false),
            ("99999999999999999999999.0.0", false),
        ] {
            let version: ProtocolVersion = text.parse().unwrap();
            assert_eq!((version.is_supported(), version.as_str()), (supported, text));
        }
        for text in [
            "",
            "1",
            "1.0",
            "1.0.0.0",
            "01.0.0",
            "1.00.0",
            "v1.0.0",
            "1.0.0-",
            "1.0.0+",
            "1.0.0-a..b",
            "1.0.0-01",
            "1.0.0\n",
            " 1.0.0",
            "1.0.x",
            "١.0.0",
            "1.0.0-ä",
            "+1.0.0",
            "-1.0.0",
        ] {
            assert_eq!(text.parse::<ProtocolVersion>(), Err(NoVersion), "{text:?}");
        }
    }
}
