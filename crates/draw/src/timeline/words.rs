//! How times, lengths and states are told.

use std::time::{Duration, SystemTime};

use singletree_durable::Timestamp;
use singletree_harness::{
    KeptEvents, NodeProvenance, OpenCallState, SpanStatus, Timeline, TimelineEntryKind, TurnCause, TurnSpan,
    WaitSpan,
};

/// Writes a length: two units at most.
pub(super) fn format_duration(span: Duration) -> String {
    let (millis, seconds) = (span.as_millis(), span.as_secs());
    let two = |many: u64, unit: &str, rest: u64, small: &str| match rest {
        0 => format!("{many} {unit}"),
        rest => format!("{many} {unit} {rest} {small}"),
    };
    match seconds {
        0 => format!("{millis} ms"),
        1..=59 => format!("{}.{:02} s", seconds, millis % 1000 / 10),
        60..=3599 => two(seconds / 60, "min", seconds % 60, "s"),
        3600..=86_399 => two(seconds / 3600, "h", seconds % 3600 / 60, "min"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3600, "h"),
    }
}

/// Writes a time: UTC, to the second.
pub(super) fn format_timestamp(at: Timestamp) -> String {
    // Beyond these the form ends, and no clock stands there.
    let last = SystemTime::UNIX_EPOCH + Duration::from_secs(253_402_300_799);
    let at = at.to_system_time().clamp(SystemTime::UNIX_EPOCH, last);
    humantime::format_rfc3339_seconds(at).to_string().replace('T', " ")
}

/// Writes a place in a graph.
pub(super) fn format_provenance(made: &NodeProvenance) -> String {
    match made.attempt {
        None | Some(0) => made.node.clone(),
        Some(attempt) => format!("{}, attempt {}", made.node, attempt + 1),
    }
}

/// Says how the invocation is, in one line.
pub(super) fn summarize_timeline(timeline: &Timeline) -> String {
    let pending = timeline.waits.iter().find(|wait| wait.status == "pending");
    let state = match (timeline.turns.last().map(|turn| turn.status), pending) {
        (_, Some(wait)) => format!("suspended: waits for {}", wait.signal),
        (Some(SpanStatus::Open), None) => "not over: it runs, or waits for its place".to_owned(),
        (Some(status), None) => status.as_str().to_owned(),
        (None, None) => "unknown".to_owned(),
    };
    let spans =
        timeline.turns.iter().filter_map(|turn| Some(turn.ended_at?.duration_since(turn.accepted_at)));
    let (turns, worked) = (timeline.turns.len(), spans.sum::<Duration>());
    let turns = if turns == 1 { "1 turn".to_owned() } else { format!("{turns} turns") };
    let ended = timeline.waits.iter().filter_map(|wait| Some(wait.ended_at?.duration_since(wait.since)));
    let waited: Vec<Duration> = ended.collect();
    let waits = match waited.len() {
        0 => String::new(),
        1 => format!(", {} in a wait", format_duration(waited[0])),
        many => format!(", {} in {many} waits", format_duration(waited.iter().sum())),
    };
    if worked.is_zero() && timeline.turns.iter().all(|turn| turn.ended_at.is_none()) {
        return format!("{state}{waits}");
    }
    format!("{state} \u{b7} {} in {turns}{waits}", format_duration(worked))
}

/// Describes the input that a turn answers, and how the turn ended.
pub(super) fn describe_turn(timeline: &Timeline, span: &TurnSpan) -> String {
    let count = timeline.turns.len();
    let place = timeline.turns.iter().position(|turn| turn.turn == span.turn).unwrap_or(0) + 1;
    let which = if count > 1 { format!("turn {place} of {count} \u{b7} ") } else { String::new() };
    let answers = match span.answers {
        TurnCause::Message => "message",
        TurnCause::Signal => "signal",
        TurnCause::Close => "end of a wait",
    };
    let took = span
        .ended_at
        .map(|ended_at| format!(" after {}", format_duration(ended_at.duration_since(span.accepted_at))))
        .unwrap_or_default();
    format!("{which}{answers} \u{b7} {}{took}", span.status.as_str())
}

/// Says how a wait is.
pub(super) fn describe_wait(span: &WaitSpan) -> String {
    let by = span.answered_by.as_ref().map(|answered_by| format!(" by {answered_by}")).unwrap_or_default();
    match (span.ended_at, span.deadline) {
        (Some(ended), _) => {
            format!("{}{by} after {}", span.status, format_duration(ended.duration_since(span.since)))
        }
        (None, Some(deadline)) => {
            format!(
                "{} since {}, until {}",
                span.status,
                format_timestamp(span.since),
                format_timestamp(deadline)
            )
        }
        (None, None) => format!("{} since {}", span.status, format_timestamp(span.since)),
    }
}

/// Describes the purpose of a wait, as far as its node declares it.
pub(super) fn describe_purpose(span: &WaitSpan) -> Option<String> {
    let metadata = span.metadata.as_ref()?;
    let tool = metadata["tool"].as_str();
    let kind = metadata["kind"].as_str();
    match (kind, tool) {
        (Some(kind), Some(tool)) => Some(format!("{kind} of {tool}")),
        (Some(word), None) | (None, Some(word)) => Some(word.to_owned()),
        (None, None) => None,
    }
}

/// Describes the state of a call that has no answer yet.
pub(super) fn describe_open_call(state: OpenCallState) -> &'static str {
    match state {
        OpenCallState::Asked => "asked for",
        OpenCallState::Begun => "has begun",
        OpenCallState::Gave => "gave a result",
    }
}

/// Returns the notes about missing data that a reader must know.
pub(super) fn missing_data_notes(timeline: &Timeline) -> Vec<String> {
    let mut notes = Vec::new();
    for turn in &timeline.turns {
        match turn.kept {
            KeptEvents::Whole => {}
            KeptEvents::Partly => notes.push(format!(
                "The first events of turn {} were forgotten by a retention; what is shown is what is left.",
                turn.turn
            )),
            KeptEvents::Nothing => notes.push(format!(
                "The events of turn {} were forgotten by a retention; only its record is left.",
                turn.turn
            )),
        }
        match turn.deaths {
            0 => {}
            1 => notes.push(format!("The process of turn {} died once; another one went on.", turn.turn)),
            many => {
                notes.push(format!("The process of turn {} died {many} times; others went on.", turn.turn));
            }
        }
    }
    let first = timeline.turns.first().map_or(0, |turns| turns.turn.ordinal);
    if first > 0 {
        notes.push("Earlier turns of the invocation were forgotten by a retention.".to_owned());
    }
    let entries = || timeline.turns.iter().flat_map(|turn| &turn.entries);
    let made = |it: &&singletree_harness::TimelineEntry| {
        matches!(it.what, TimelineEntryKind::Message { .. } | TimelineEntryKind::ToolResult { .. })
    };
    if entries().any(|entry| entry.made_by.is_some()) {
        notes.push(
            "Times are those of commits, one after each node. Not shown here: nodes that added no message, and \
             the attempts of nodes that completed."
                .to_owned(),
        );
    } else if entries().any(|entry| made(&entry)) {
        notes.push(
            "Times are those of commits. Not shown here: which nodes ran, and their attempts; an agent at level \
             `turn` is committed once, at the end."
                .to_owned(),
        );
    }
    notes
}
