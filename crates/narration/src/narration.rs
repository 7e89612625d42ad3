//! One piece of narration.

use std::time::SystemTime;

use serde::{Serialize, Serializer};

/// Who speaks (agent-chat-output §6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NarrationSpeaker {
    /// The controller, reporting an event.
    System,
    /// The agent, telling why it proposes something.
    Agent,
    /// An echo of the person's words.
    User,
}

impl NarrationSpeaker {
    /// Returns its word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Agent => "agent",
            Self::User => "user",
        }
    }
}

/// The purpose of a piece of narration (agent-chat-output §3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NarrationPurpose {
    /// The present state.
    Status,
    /// Why something is about to be done, or was not.
    Explanation,
    /// A question to the person. The answer is a command of its own, given where answers are taken.
    Ask,
    /// That work goes on.
    Progress,
    /// A failure.
    Error,
}

impl NarrationPurpose {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Status, Self::Explanation, Self::Ask, Self::Progress, Self::Error];

    /// Returns its word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Explanation => "explanation",
            Self::Ask => "ask",
            Self::Progress => "progress",
            Self::Error => "error",
        }
    }
}

/// One piece of narration: its time, speaker, kind and content (agent-chat-output §6).
///
/// The content is opaque: nothing parses it. It can be written out, and not read in:
///
/// ```compile_fail
/// let said: singletree_narration::NarrationMessage = serde_json::from_str("{}").unwrap();
/// ```
///
/// It is written as `{"timestamp", "role", "kind", "content"}`, the time as RFC 3339 has it:
///
/// ```
/// use singletree_narration::{NarrationMessage, NarrationPurpose, NarrationSpeaker};
///
/// let (timestamp, content) = (std::time::UNIX_EPOCH, "Paused.".to_owned());
/// let said = NarrationMessage { timestamp, role: NarrationSpeaker::System, kind: NarrationPurpose::Status, content };
/// let written = serde_json::to_string(&said).unwrap();
/// let expected = r#"{"timestamp":"1970-01-01T00:00:00.000Z","role":"system","kind":"status","content":"Paused."}"#;
/// assert_eq!(written, expected);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NarrationMessage {
    /// When it was said.
    #[serde(serialize_with = "serialize_as_rfc3339")]
    pub timestamp: SystemTime,
    /// Who said it.
    pub role: NarrationSpeaker,
    /// Its purpose.
    pub kind: NarrationPurpose,
    /// Its text.
    pub content: String,
}

fn serialize_as_rfc3339<S: Serializer>(time: &SystemTime, to: S) -> Result<S::Ok, S::Error> {
    // The text form covers the years 1970 to 9999; a time outside is clamped to the nearest one.
    let last = SystemTime::UNIX_EPOCH + std::time::Duration::from_millis(253_402_300_799_999);
    let time = (*time).clamp(SystemTime::UNIX_EPOCH, last);
    to.collect_str(&humantime::format_rfc3339_millis(time))
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: agent-chat-output §3.1, §6
    #[test]
    fn the_words_written_are_those_that_are_told() {
        for kind in NarrationPurpose::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
        for role in [NarrationSpeaker::System, NarrationSpeaker::Agent, NarrationSpeaker::User] {
            assert_eq!(serde_json::to_value(role).unwrap(), role.as_str());
        }
    }

    #[test]
    fn a_time_that_has_no_text_is_told_as_its_nearest() {
        let written = |timestamp| {
            let (role, kind) = (NarrationSpeaker::System, NarrationPurpose::Status);
            let said = NarrationMessage { timestamp, role, kind, content: String::new() };
            serde_json::to_value(said).unwrap()["timestamp"].clone()
        };
        let day = std::time::Duration::from_secs(86_400);
        assert_eq!(written(SystemTime::UNIX_EPOCH - day), "1970-01-01T00:00:00.000Z");
        assert_eq!(written(SystemTime::UNIX_EPOCH + 4_000_000 * day), "9999-12-31T23:59:59.999Z");
    }
}
