//! Where a reader of a chat's events is: the last event of the log that it has seen whole, how much of the next one, how far the
//! messages on their way were shown to it, and who was said to speak. Opaque to readers, who give it back as `Last-Event-ID`.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use singletree_harness::EventId;

use crate::fold::Mark;
use crate::problem::Problem;

/// Where a reader is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ResumeId {
    /// The last event of the log that was told whole.
    pub(super) event: Option<EventId>,
    pub(super) within: Within,
}

/// Where behind an event a reader is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Within {
    /// How many frames of the next event of the log were told.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) told: usize,
    /// How far messages on their way were shown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) marks: Vec<Mark>,
    /// Who speaks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) speaker: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(it: &usize) -> bool {
    *it == 0
}

impl ResumeId {
    /// Writes it: the event's id, and behind a `;` what more there is. None when there is nothing to go on from.
    pub(super) fn write(&self) -> Option<String> {
        let event = self.event.as_ref()?;
        if self.within == Within::default() {
            return Some(event.to_string());
        }
        let within = serde_json::to_vec(&self.within).expect("marks and names are JSON");
        Some(format!("{event};{}", URL_SAFE_NO_PAD.encode(within)))
    }

    /// Reads what a reader gave back.
    ///
    /// # Errors
    /// `chat_event_unknown` when it is none of ours.
    pub(super) fn read(text: &str) -> Result<Self, Problem> {
        let (event, within) = match text.split_once(';') {
            Some((event, within)) => (event, Some(within)),
            None => (text, None),
        };
        let event: EventId = event.parse().map_err(|error| Problem::of(&error))?;
        let unknown = || Problem::of(&singletree_harness::Error::EventUnknown { event: text.to_owned() });
        let within = match within {
            Some(within) => {
                let json = URL_SAFE_NO_PAD.decode(within).map_err(|_| unknown())?;
                serde_json::from_slice(&json).map_err(|_| unknown())?
            }
            None => Within::default(),
        };
        Ok(Self { event: Some(event), within })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_and_nothing_else() {
        let event = Some(EventId { epoch: "m0".into(), seq: 7 });
        let plain = ResumeId { event: event.clone(), within: Within::default() };
        assert_eq!(plain.write().unwrap(), "m0.7");
        let within = Within { told: 2, marks: Vec::new(), speaker: Some("sales; or \"so\"".into()) };
        for id in [plain, ResumeId { event, within }] {
            assert_eq!(ResumeId::read(&id.write().unwrap()).unwrap(), id);
        }
        assert_eq!(ResumeId::default().write(), None);
        for wrong in ["", "m0", "m0.x", "m0.7;", "m0.7;!", "m0.7;e30x", "m0.7;bnVsbA"] {
            assert_eq!(ResumeId::read(wrong).unwrap_err().category, "chat_event_unknown", "{wrong}");
        }
    }
}
