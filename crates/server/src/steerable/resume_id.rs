//! The position of a reader in a chat's events: the last event of the log that was sent completely, the number of
//! frames sent of the next one, the marks of the messages in progress, and the current speaker. Opaque to readers,
//! who return it as `Last-Event-ID`.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use singletree_harness::ChatEventId;

use crate::fold::MessageStreamPosition;
use crate::problem::RequestProblem;

/// The position of a reader.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ResumeId {
    /// The last event of the log that was sent completely.
    pub(super) event: Option<ChatEventId>,
    pub(super) within: ResumeOffset,
}

/// The position of a reader after that event.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ResumeOffset {
    /// The number of frames of the next event of the log that were sent.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) told: usize,
    /// The positions in the messages in progress.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) marks: Vec<MessageStreamPosition>,
    /// The agent that was announced last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) speaker: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(it: &usize) -> bool {
    *it == 0
}

impl ResumeId {
    /// Writes the id: the event's id, and the rest after a `;`. `None` without an event.
    pub(super) fn encode_event_id(&self) -> Option<String> {
        let event = self.event.as_ref()?;
        if self.within == ResumeOffset::default() {
            return Some(event.to_string());
        }
        let within = serde_json::to_vec(&self.within).expect("marks and names are JSON");
        Some(format!("{event};{}", URL_SAFE_NO_PAD.encode(within)))
    }

    /// Reads an id that a reader returned.
    ///
    /// # Errors
    /// `chat_event_unknown` if it is not an id of this server.
    pub(super) fn decode_event_id(text: &str) -> Result<Self, RequestProblem> {
        let (event, within) = match text.split_once(';') {
            Some((event, within)) => (event, Some(within)),
            None => (text, None),
        };
        let event =
            event.parse::<ChatEventId>().map_err(|error| RequestProblem::from_chat_error(&error.into()))?;
        let unknown = || {
            RequestProblem::from_chat_error(&singletree_harness::Error::EventUnknown {
                event: text.to_owned(),
            })
        };
        let within = match within {
            Some(within) => {
                let json = URL_SAFE_NO_PAD.decode(within).map_err(|_| unknown())?;
                serde_json::from_slice(&json).map_err(|_| unknown())?
            }
            None => ResumeOffset::default(),
        };
        Ok(Self { event: Some(event), within })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_and_nothing_else() {
        let event = Some(ChatEventId { epoch: "m0".into(), seq: 7 });
        let plain = ResumeId { event: event.clone(), within: ResumeOffset::default() };
        assert_eq!(plain.encode_event_id().unwrap(), "m0.7");
        let within = ResumeOffset { told: 2, marks: Vec::new(), speaker: Some("sales; or \"so\"".into()) };
        for id in [plain, ResumeId { event, within }] {
            assert_eq!(ResumeId::decode_event_id(&id.encode_event_id().unwrap()).unwrap(), id);
        }
        assert_eq!(ResumeId::default().encode_event_id(), None);
        for wrong in ["", "m0", "m0.x", "m0.7;", "m0.7;!", "m0.7;e30x", "m0.7;bnVsbA"] {
            assert_eq!(
                ResumeId::decode_event_id(wrong).unwrap_err().category,
                "chat_event_unknown",
                "{wrong}"
            );
        }
    }
}
