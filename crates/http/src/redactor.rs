//! Takes known secrets out of text.

use std::borrow::Cow;

use crate::secret::Secret;

/// The text that replaces a secret.
const REDACTED: &str = "[redacted]";

/// Below this many bytes a value is no secret: placeholders such as `x` or `key` would tear holes into every text.
const SHORTEST: usize = 4;

/// From how many bytes on a secret is looked for in other encodings: shorter ones would be found in any text.
const ENCODED_SHORTEST: usize = 8;

/// From how many bytes on the beginning of a secret is looked for, as is left where a text was cut.
const CUT_SHORTEST: usize = 16;

/// Replaces known secrets by `[redacted]` (INV-16): the exact text, wherever it stands, longer secrets first; from
/// eight bytes on also in base64 and percent-encoded, from sixteen bytes on also the first half of it or more, as a cut
/// text ends.
///
/// Values of fewer than four bytes are not looked for.
#[derive(Debug, Clone, Default)]
pub struct Redactor {
    secrets: Vec<Secret>,
    /// All texts that stand for a secret, longer ones first.
    forms: Vec<Secret>,
}

impl Redactor {
    /// Makes a redactor of these secrets.
    #[must_use]
    pub fn new(secrets: impl IntoIterator<Item = Secret>) -> Self {
        let mut redactor = Self::default();
        for secret in secrets {
            redactor.add_secret(secret);
        }
        redactor
    }

    /// Takes one more secret.
    pub fn add_secret(&mut self, secret: Secret) {
        let known = self.secrets.iter().any(|it| it.expose() == secret.expose());
        if secret.expose().len() >= SHORTEST && !known {
            for form in encoded_forms(secret.expose()) {
                let longer = |it: &Secret| it.expose().len() >= form.len();
                self.forms.insert(self.forms.partition_point(longer), Secret::new(form));
            }
            let longer = |it: &Secret| it.expose().len() >= secret.expose().len();
            self.secrets.insert(self.secrets.partition_point(longer), secret);
        }
    }

    /// Returns the text without the secrets.
    #[must_use]
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut clean = Cow::Borrowed(text);
        for form in &self.forms {
            if clean.contains(form.expose()) {
                clean = Cow::Owned(clean.replace(form.expose(), REDACTED));
            }
        }
        for secret in &self.secrets {
            if let Some(cut) = redact_secret_prefixes(&clean, secret.expose()) {
                clean = Cow::Owned(cut);
            }
        }
        clean
    }
}

/// Returns the texts that stand for a secret.
fn encoded_forms(secret: &str) -> Vec<String> {
    let mut forms = vec![secret.to_owned()];
    if secret.len() >= ENCODED_SHORTEST {
        let plain = |it: u8| it.is_ascii_alphanumeric() || b"-_.~".contains(&it);
        for hex in [u32::from(b'A'), u32::from(b'a')] {
            let digit = |it: u8| {
                char::from_digit(it.into(), 16).map_or('0', |from_digit| match from_digit {
                    'a'..='f' => {
                        char::from_u32(u32::from(from_digit) - u32::from(b'a') + hex).unwrap_or(from_digit)
                    }
                    from_digit => from_digit,
                })
            };
            let encoded = |it: u8| match plain(it) {
                true => char::from(it).to_string(),
                false => format!("%{}{}", digit(it >> 4), digit(it & 15)),
            };
            forms.push(secret.bytes().map(encoded).collect());
        }
        for before in 0..3 {
            forms.push(base64_within(secret, before, b"+/"));
            forms.push(base64_within(secret, before, b"-_"));
        }
    }
    forms.sort();
    forms.dedup();
    forms
}

/// Returns those letters of a longer text in base64 that a secret in it alone decides, where so many bytes of a group
/// of three stand before it.
fn base64_within(secret: &str, before: usize, last_two: &[u8; 2]) -> String {
    const LETTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let letter = |sextet: u8| match sextet {
        62 => last_two[0],
        63 => last_two[1],
        sextet => LETTERS[usize::from(sextet)],
    };
    let bytes: Vec<u8> = std::iter::repeat_n(0, before).chain(secret.bytes()).collect();
    let bit = |at: usize| (bytes[at / 8] >> (7 - at % 8)) & 1;
    let (first, last) = ((before * 8).div_ceil(6), bytes.len() * 8 / 6);
    let sextet = |at: usize| (0..6).fold(0, |sextet, more| (sextet << 1) | bit(at * 6 + more));
    (first..last).map(|at| char::from(letter(sextet(at)))).collect()
}

/// Replaces beginnings of a secret, at least half of it and twelve bytes; returns `None` when there is none.
fn redact_secret_prefixes(text: &str, secret: &str) -> Option<String> {
    if secret.len() < CUT_SHORTEST {
        return None;
    }
    let half = secret.ceil_char_boundary(secret.len().div_ceil(2).max(12));
    let beginning = &secret[..half];
    let mut found = text.find(beginning)?;
    let (mut clean, mut rest) = (String::with_capacity(text.len()), text);
    loop {
        let same = rest[found..].chars().zip(secret.chars()).take_while(|(one, other)| one == other);
        let bytes: usize = same.map(|(it, _)| it.len_utf8()).sum();
        clean.push_str(&rest[..found]);
        clean.push_str(REDACTED);
        rest = &rest[found + bytes..];
        match rest.find(beginning) {
            Some(next) => found = next,
            None => break,
        }
    }
    clean.push_str(rest);
    Some(clean)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redactor(secrets: &[&str]) -> Redactor {
        Redactor::new(secrets.iter().map(|secret| Secret::new(*secret)))
    }

    #[test]
    fn every_place_of_every_secret_is_replaced() {
        let text = redactor(&["sk-one", "sk-two"]).redact("a sk-one b sk-two c sk-one").into_owned();
        assert_eq!(text, "a [redacted] b [redacted] c [redacted]");
    }

    #[test]
    fn a_secret_that_begins_with_another_leaves_no_rest() {
        for order in [["key-1", "key-1-long"], ["key-1-long", "key-1"]] {
            assert_eq!(redactor(&order).redact("key-1-long, key-1"), "[redacted], [redacted]");
        }
    }

    #[test]
    fn text_without_a_secret_is_not_copied() {
        assert!(matches!(redactor(&["sk-one"]).redact("nothing"), Cow::Borrowed("nothing")));
    }

    // INV-16
    #[test]
    fn a_secret_is_found_in_base64_wherever_it_stands_in_a_longer_text() {
        let redactor = redactor(&["sk-canary?>~4711"]);
        // `xsk-canary?>~4711y` and its neighbours, by another encoder.
        for (encoded, rest) in [
            ("c2stY2FuYXJ5Pz5+NDcxMQ==", "[redacted]Q=="),
            ("c2stY2FuYXJ5Pz5-NDcxMQ", "[redacted]Q"),
            ("eHNrLWNhbmFyeT8+fjQ3MTF5", "eH[redacted]F5"),
            ("eHhzay1jYW5hcnk/Pn40NzExeQ==", "eHh[redacted]eQ=="),
        ] {
            let clean = redactor.redact(encoded).into_owned();
            assert!(clean.contains("[redacted]") && clean.len() <= rest.len() + 2, "{encoded}: {clean}");
        }
    }

    // INV-16
    #[test]
    fn a_secret_is_found_percent_encoded_and_cut() {
        let redactor = redactor(&["sk-canary/4711+äöü"]);
        for encoded in ["sk-canary%2F4711%2B%C3%A4%C3%B6%C3%BC", "sk-canary%2f4711%2b%c3%a4%c3%b6%c3%bc"] {
            assert_eq!(redactor.redact(encoded), "[redacted]");
        }
        assert_eq!(redactor.redact("key: sk-canary/4711+… [cut]"), "key: [redacted]… [cut]");
        assert_eq!(redactor.redact("sk-canary/4711 and sk-canary/471"), "[redacted] and [redacted]");
        // A common prefix of keys is no secret.
        assert_eq!(redactor.redact("keys begin with sk-canary/"), "keys begin with sk-canary/");
    }

    #[test]
    fn placeholders_are_no_secrets() {
        assert_eq!(redactor(&["", "x", "key"]).redact("the key is x"), "the key is x");
    }

    #[test]
    fn debug_shows_no_secret() {
        assert!(!format!("{:?}", redactor(&["sk-one"])).contains("sk-one"));
    }
}
