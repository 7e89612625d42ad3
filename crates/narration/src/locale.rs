//! In which language narration is.

use std::fmt;
use std::str::FromStr;

/// In which language the controller narrates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Locale {
    /// English.
    #[default]
    English,
    /// German.
    German,
    /// Spanish.
    Spanish,
    /// French.
    French,
    /// Japanese.
    Japanese,
    /// Chinese, in simplified characters.
    Chinese,
}

/// A text that names no language that the controller narrates in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownLocale;

impl Locale {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::English, Self::German, Self::Spanish, Self::French, Self::Japanese, Self::Chinese];

    /// Returns its tag (BCP 47).
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::English => "en",
            Self::German => "de",
            Self::Spanish => "es",
            Self::French => "fr",
            Self::Japanese => "ja",
            Self::Chinese => "zh",
        }
    }
}

impl FromStr for Locale {
    type Err = UnknownLocale;

    /// Reads a tag, by its language: `de-AT` is German.
    fn from_str(tag: &str) -> Result<Self, UnknownLocale> {
        let language = tag.split(['-', '_']).next().unwrap_or_default();
        Self::ALL.into_iter().find(|item| item.as_str().eq_ignore_ascii_case(language)).ok_or(UnknownLocale)
    }
}

impl fmt::Display for Locale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for UnknownLocale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there is no narration in this language")
    }
}

impl std::error::Error for UnknownLocale {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_locale_is_found_by_its_language() {
        for locale in Locale::ALL {
            assert_eq!(locale.as_str().parse(), Ok(locale));
        }
        assert_eq!(["DE-at", "en_US"].map(str::parse), [Ok(Locale::German), Ok(Locale::English)]);
        assert_eq!("zh-Hans-CN".parse(), Ok(Locale::Chinese));
        assert_eq!(["", "deutsch", "it"].map(str::parse::<Locale>), [Err(UnknownLocale); 3]);
    }
}
