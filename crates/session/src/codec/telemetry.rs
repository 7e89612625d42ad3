//! Records for telemetry: in the bodies of events, and in records of the turn (D7) where a commit has no such event.

use serde::Deserialize;
use serde_json::value::RawValue;
use singletree_durable::{EventRow, JsonDocument, RecordRow, RowMutation, Timestamp};
use singletree_env::TraceHeaders;

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

/// The trace in which an invocation was called: the first event of each of its turns holds it, where there is one.
#[derive(Debug, Deserialize)]
pub struct StoredTrace {
    #[serde(default)]
    trace: Option<TraceHeaders>,
}

impl StoredTrace {
    /// The field of the event's body.
    pub(crate) const FIELD: &'static str = "trace";

    /// Returns the trace that the first event of a turn holds.
    #[must_use]
    pub fn read_from(first: &EventRow) -> Option<TraceHeaders> {
        first.body.as_ref()?.decode::<Self>().ok()?.trace
    }

    pub(crate) fn to_json(trace: &TraceHeaders) -> Option<serde_json::Value> {
        serde_json::to_value(trace).ok()
    }

    /// Returns the body of an event that holds nothing else.
    pub(crate) fn to_body(trace: &TraceHeaders) -> Option<JsonDocument> {
        Some(JsonDocument::from(&serde_json::json!({ Self::FIELD: Self::to_json(trace)? })))
    }
}

/// The names of the records of a turn that hold records for telemetry begin with this; no node may use such a name.
const RECORD_PREFIX: &str = "singletree.telemetry.";

/// Records for telemetry that a commit without an event stored: a record of the turn holds them until an event does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TelemetryRecord {
    /// The number of the record within the turn.
    pub number: u64,
    /// The time of the commit.
    pub at: Timestamp,
    /// The records, as JSON.
    pub piece: String,
}

impl TelemetryRecord {
    /// Tells whether a record of a turn holds records for telemetry, by its name.
    #[must_use]
    pub fn is_telemetry_name(name: &str) -> bool {
        name.starts_with(RECORD_PREFIX)
    }

    /// Reads the records of a turn that hold records for telemetry, in their order. One that cannot be read is left out.
    pub fn read_from<'a>(records: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<Self> {
        let mut read: Vec<Self> = records
            .into_iter()
            .filter_map(|(name, body)| {
                let number = name.strip_prefix(RECORD_PREFIX)?.parse().ok()?;
                let (at, piece): (i64, Box<RawValue>) = serde_json::from_str(body).ok()?;
                Some(Self { number, at: Timestamp::from_millis(at), piece: piece.get().to_owned() })
            })
            .collect();
        read.sort_by_key(|record| record.number);
        read
    }

    /// Returns the name of the record.
    #[must_use]
    pub fn record_name(&self) -> String {
        format!("{RECORD_PREFIX}{}", self.number)
    }

    /// Returns the body of the record.
    #[must_use]
    pub fn record_body(&self) -> JsonDocument {
        JsonDocument::from_text(format!("[{},{}]", self.at.as_millis(), self.piece))
    }

    /// Returns the change that stores it with a turn.
    #[must_use]
    pub fn to_mutation(&self, turn: u64) -> RowMutation {
        RowMutation::Record(RecordRow { turn, name: self.record_name(), body: self.record_body() })
    }
}

#[cfg(test)]
mod tests {
    use singletree_durable::Timestamp;

    use super::*;

    #[test]
    fn records_of_a_turn_are_read_in_their_order() {
        let record = |number, at, piece: &str| TelemetryRecord {
            number,
            at: Timestamp::from_millis(at),
            piece: piece.to_owned(),
        };
        let stored = [record(10, 7, "[[1],[]]"), record(9, 5, r#"["a",0]"#)];
        let named = stored.each_ref().map(|it| (it.record_name(), it.record_body()));
        let others =
            [("call-0-1", "{}"), ("singletree.telemetry.x", "[1,[]]"), ("singletree.telemetry.3", "{")];
        let all = named.iter().map(|(name, body)| (name.as_str(), body.as_str())).chain(others);
        assert_eq!(TelemetryRecord::read_from(all), [stored[1].clone(), stored[0].clone()]);
    }

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
