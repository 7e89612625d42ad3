//! A timeline as bands and rows: the shared content of both pictures.

use singletree_durable::Timestamp;
use singletree_harness::{
    CallSpan, CallStatus, OpenCallState, SpanStatus, Timeline, TimelineEntry, TimelineEntryKind, TurnSpan,
    WaitSpan,
};

use super::words;

/// A turn, or the wait after it.
pub(super) enum TimelineBand<'a> {
    Turn(&'a TurnSpan, Vec<TimelineRow>),
    Wait(&'a WaitSpan),
}

/// Something that took from one time to another.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TimelineRow {
    pub(super) tint: TimelineTint,
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
    /// Its name, in a word or two.
    pub(super) name: String,
    /// Its details.
    pub(super) about: String,
}

/// The kind of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimelineTint {
    /// A moment: accepted, a signal.
    Moment,
    Message,
    Tool,
    /// A tool call that did nothing: denied, cancelled.
    Left,
    Good,
    Bad,
    /// Suspended, or not over yet.
    Waiting,
}

/// Returns turns and waits in the order of time.
pub(super) fn collect_bands(timeline: &Timeline) -> Vec<TimelineBand<'_>> {
    let last = timeline.turns.len().saturating_sub(1);
    let mut bands: Vec<(Timestamp, u8, TimelineBand<'_>)> = Vec::new();
    for (at, turn) in timeline.turns.iter().enumerate() {
        let stands = timeline.stands.as_ref().filter(|_| at == last);
        let open = stands.map_or(&[][..], |stands| &stands.open_calls);
        let mut rows: Vec<TimelineRow> = Vec::new();
        let mut before = turn.accepted_at;
        for entry in &turn.entries {
            rows.push(row_of_entry(turn, entry, before));
            before = before.max(entry.at);
        }
        let end = turn.ended_at.unwrap_or(before);
        for it in open {
            let tint =
                if it.state == OpenCallState::Asked { TimelineTint::Waiting } else { TimelineTint::Tool };
            let from = it.call.asked_at.unwrap_or(before).max(turn.accepted_at);
            let about = format!("{}: {}", words::describe_open_call(it.state), format_arguments(&it.call));
            rows.push(TimelineRow { tint, from, to: end.max(from), name: it.call.tool.clone(), about });
        }
        let place = stands.map(|it| {
            let at: Vec<String> = it.at.iter().map(words::format_provenance).collect();
            format!("stands {} {}", it.place, at.join("/"))
        });
        rows.push(row_of_ending(turn, end, place));
        bands.push((turn.accepted_at, 0, TimelineBand::Turn(turn, rows)));
    }
    for wait in &timeline.waits {
        bands.push((wait.since, 1, TimelineBand::Wait(wait)));
    }
    // A turn that suspends and the turn that a signal resumes may have the same time: the turn recorded first has the
    // lower numbers.
    let ordinal = |band: &TimelineBand<'_>| match band {
        TimelineBand::Turn(turn, _) => u64::from(turn.turn.ordinal) * 2,
        TimelineBand::Wait(wait) => timeline
            .turns
            .iter()
            .filter(|turn| {
                turn.ended_at.is_some_and(|ended| ended <= wait.since) && turn.status == SpanStatus::Suspended
            })
            .map(|turn| u64::from(turn.turn.ordinal) * 2 + 1)
            .max()
            .unwrap_or(0),
    };
    bands.sort_by_key(|(at, second, band)| (ordinal(band), *at, *second));
    bands.into_iter().map(|(_, _, band)| band).collect()
}

fn row_of_entry(turn: &TurnSpan, entry: &TimelineEntry, before: Timestamp) -> TimelineRow {
    let at = entry.at;
    let by = entry.made_by.as_ref().map(words::format_provenance);
    let row = |tint, from: Timestamp, name: String, about| TimelineRow {
        tint,
        from: from.min(at),
        to: at,
        name,
        about,
    };
    match &entry.what {
        TimelineEntryKind::Accepted { text } => {
            row(TimelineTint::Moment, at, "accepted".into(), text.clone().unwrap_or_default())
        }
        TimelineEntryKind::Signal { signal, how, from, .. } => {
            let by = from.as_ref().map(|it| format!(" by {it}")).unwrap_or_default();
            row(TimelineTint::Moment, at, "signal".into(), format!("{signal} {how}{by}"))
        }
        TimelineEntryKind::Message { role, text, calls, interrupted } => {
            let name = by.unwrap_or_else(|| (*role).to_owned());
            let about = message_summary(text, calls);
            let about = if *interrupted { format!("{about} (interrupted)") } else { about };
            row(TimelineTint::Message, before, name, about)
        }
        TimelineEntryKind::ToolResult { call, status, text } => {
            let tint = match status {
                CallStatus::Done => TimelineTint::Tool,
                CallStatus::Error | CallStatus::Failed | CallStatus::Unknown => TimelineTint::Bad,
                CallStatus::Denied | CallStatus::Cancelled => TimelineTint::Left,
            };
            let name = if call.tool.is_empty() { "tool".to_owned() } else { call.tool.clone() };
            let from = call.asked_at.unwrap_or(at).max(turn.accepted_at);
            let answer = match status {
                CallStatus::Done => text.clone(),
                CallStatus::Error => format!("error: {}", text.strip_prefix("error: ").unwrap_or(text)),
                other => format!("{}: {}", other.as_str(), closing_reason(text)),
            };
            let about = format!("{} \u{2192} {answer}", format_arguments(call)).trim_start().to_owned();
            row(tint, from, name, about)
        }
        TimelineEntryKind::Discarded { role, text, calls } => {
            row(TimelineTint::Left, at, format!("{role}, dropped"), message_summary(text, calls))
        }
    }
}

/// Returns the row that tells how a turn ended, or where it stands.
fn row_of_ending(turn: &TurnSpan, at: Timestamp, stands: Option<String>) -> TimelineRow {
    let place = turn.ended_in.as_ref().map(|ended_in| format!("at {}", words::format_provenance(ended_in)));
    let (tint, about) = match turn.status {
        SpanStatus::Completed => (TimelineTint::Good, String::new()),
        SpanStatus::Suspended => (TimelineTint::Waiting, place.unwrap_or_default()),
        SpanStatus::Open => {
            (TimelineTint::Waiting, stands.unwrap_or_else(|| "nothing of it was committed yet".into()))
        }
        SpanStatus::Errored => {
            let category = turn.error.as_ref().map(|error| error.category.clone());
            let parts: Vec<String> = place.into_iter().chain(category).collect();
            (TimelineTint::Bad, parts.join(": "))
        }
    };
    TimelineRow { tint, from: at, to: at, name: turn.status.as_str().to_owned(), about }
}

fn message_summary(text: &str, calls: &[String]) -> String {
    match (text.trim().is_empty(), calls.is_empty()) {
        (_, true) => text.to_owned(),
        (true, false) => format!("calls {}", calls.join(", ")),
        (false, false) => format!("{text} (calls {})", calls.join(", ")),
    }
}

fn format_arguments(call: &CallSpan) -> String {
    let pairs = call.arguments.iter().map(|(name, value)| match value.as_str() {
        Some(text) => format!("{name}: {text}"),
        None => format!("{name}: {value}"),
    });
    pairs.collect::<Vec<_>>().join(", ")
}

/// Takes the reason out of the answer of a call that was closed.
fn closing_reason(text: &str) -> &str {
    let after = text.strip_prefix("{\"reason\":\"").and_then(|text| text.split_once("\",\"status\""));
    after.map_or(text, |after| after.0)
}
