//! Takes known secrets out of text.

use std::borrow::Cow;

use crate::secret::Secret;

/// What stands where a secret was.
const REDACTED: &str = "[redacted]";

/// Below this many bytes a value is no secret: placeholders such as `x` or `key` would tear holes into every text.
const SHORTEST: usize = 4;

/// Replaces known secrets by `[redacted]` (INV-16): the exact text, wherever it stands, longer secrets first.
///
/// Values of fewer than four bytes are not looked for.
#[derive(Debug, Clone, Default)]
pub struct Redactor {
    secrets: Vec<Secret>,
}

impl Redactor {
    /// Makes a redactor of these secrets.
    #[must_use]
    pub fn new(secrets: impl IntoIterator<Item = Secret>) -> Self {
        let mut redactor = Self::default();
        for secret in secrets {
            redactor.add(secret);
        }
        redactor
    }

    /// Takes one more secret.
    pub fn add(&mut self, secret: Secret) {
        let known = self.secrets.iter().any(|it| it.expose() == secret.expose());
        if secret.expose().len() >= SHORTEST && !known {
            let longer = |it: &Secret| it.expose().len() >= secret.expose().len();
            self.secrets.insert(self.secrets.partition_point(longer), secret);
        }
    }

    /// Returns the text without the secrets.
    #[must_use]
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut clean = Cow::Borrowed(text);
        for secret in &self.secrets {
            if clean.contains(secret.expose()) {
                clean = Cow::Owned(clean.replace(secret.expose(), REDACTED));
            }
        }
        clean
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redactor(secrets: &[&str]) -> Redactor {
        Redactor::new(secrets.iter().map(|it| Secret::new(*it)))
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

    #[test]
    fn placeholders_are_no_secrets() {
        assert_eq!(redactor(&["", "x", "key"]).redact("the key is x"), "the key is x");
    }

    #[test]
    fn debug_shows_no_secret() {
        assert!(!format!("{:?}", redactor(&["sk-one"])).contains("sk-one"));
    }
}
