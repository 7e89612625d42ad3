//! Words of a server, fit to be shown: without secrets, without control characters, not too long.

use singletree_http::{Redactor, Secret};

/// How long a reason may be, in bytes.
const PROBLEM_BYTES: usize = 500;

/// Removes secrets from texts of the server before they are shown (INV-16).
#[derive(Debug, Clone)]
pub(crate) struct SecretRedactor {
    redactor: Redactor,
}

impl SecretRedactor {
    pub(crate) fn new(secrets: impl IntoIterator<Item = Secret>) -> Self {
        let mut redactor = Redactor::default();
        for secret in secrets {
            // A server may print the key without the scheme that stands before it in the header.
            let parts: Vec<Secret> = secret.expose().split_whitespace().skip(1).map(Secret::new).collect();
            for part in parts {
                redactor.add_secret(part);
            }
            redactor.add_secret(secret);
        }
        Self { redactor }
    }

    /// Cleans a reason.
    pub(crate) fn clean_problem(&self, text: &str) -> String {
        let mut clean = self.clean_text(text).replace('\n', " ");
        if clean.len() > PROBLEM_BYTES {
            clean.truncate(clean.floor_char_boundary(PROBLEM_BYTES));
            clean.push('…');
        }
        clean
    }

    /// Cleans an error with all that stands beneath it.
    pub(crate) fn clean_error(&self, error: &dyn std::error::Error) -> String {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(it) = source {
            let below = it.to_string();
            if !text.contains(&below) {
                text.push_str(": ");
                text.push_str(&below);
            }
            source = it.source();
        }
        self.clean_problem(&text)
    }

    /// Takes secrets and control characters out; lines stay.
    pub(crate) fn clean_text(&self, text: &str) -> String {
        let mut text = self.redactor.redact(text).into_owned();
        text.retain(|it| it == '\n' || !it.is_control());
        text.trim_end().to_owned()
    }
}
