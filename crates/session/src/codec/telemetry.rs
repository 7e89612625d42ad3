//! Records for telemetry in the bodies of events.

use serde::Deserialize;
use serde_json::value::RawValue;
use singletree_durable::{EventRow, JsonDocument};

use crate::event::event_kinds;

/// The part of an event's body that holds records for telemetry, whose content this crate does not read.
#[derive(Debug, Deserialize)]
pub struct TelemetryPiece {
    #[serde(default, rename = "t")]
    records: Option<Box<RawValue>>,
}

impl TelemetryPiece {
    /// Returns the records that an event holds, as JSON.
    #[must_use]
    pub fn read_from(event: &EventRow) -> Option<String> {
        let body = event.body.as_ref().filter(|_| event_kinds::carries_telemetry(&event.kind))?;
        // Most bodies hold none, and need not be read.
        if !body.as_str().contains("\"t\":") {
            return None;
        }
        let piece: Self = body.decode().ok()?;
        piece.records.map(|piece| piece.get().to_owned())
    }

    /// Returns the body with records in it.
    pub(crate) fn write_into(body: Option<&JsonDocument>, piece: &str) -> JsonDocument {
        let before = body.map(|body| body.as_str().trim_end()).and_then(|text| text.strip_suffix('}'));
        JsonDocument::from_text(match before {
            Some(before) if before.trim() != "{" => format!("{before},\"t\":{piece}}}"),
            Some(_) | None => format!("{{\"t\":{piece}}}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use singletree_durable::Timestamp;

    use super::*;

    #[test]
    fn records_stand_beside_what_a_body_says() {
        let check = |body: Option<&str>, written: &str| {
            let body = TelemetryPiece::write_into(body.map(JsonDocument::from_text).as_ref(), "[[1],[]]");
            assert_eq!(body.as_str(), written);
            let kind = event_kinds::APPENDED.to_owned();
            let at = Timestamp::from_millis(0);
            let event = EventRow { seq: 0, turn: 0, kind, item: None, at, body: Some(body) };
            assert_eq!(TelemetryPiece::read_from(&event).as_deref(), Some("[[1],[]]"));
        };
        check(None, r#"{"t":[[1],[]]}"#);
        check(Some("{}"), r#"{"t":[[1],[]]}"#);
        check(Some(r#"{"k":0}"#), r#"{"k":0,"t":[[1],[]]}"#);
    }
}
