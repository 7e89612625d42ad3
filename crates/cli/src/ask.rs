//! What waits for an answer: how it is shown, and how it is answered.

use std::collections::BTreeSet;
use std::io;

use serde_json::Value;
use singletree::engine::Descriptor;
use singletree::harness::PendingWait;
use singletree::{Answer, Chat, SignalAddress, Turn};

use crate::args::Reply;
use crate::error::Result;
use crate::json;
use crate::print::{Screen, Style};

/// How many waits are looked at at once.
pub(crate) const WAITS_MAX: u64 = 1000;

/// Shows what waits: for an approval the tool, its effect and the exact arguments.
pub(crate) fn show(wait: &PendingWait, screen: &mut Screen) -> io::Result<()> {
    let known = |name: &str| wait.descriptor.metadata.as_ref().and_then(|it| it.get(name));
    let tool = known("tool").and_then(Value::as_str);
    match (tool, &wait.wait.action) {
        (Some(tool), Some(_)) => {
            let effect = known("effect").and_then(Value::as_str).unwrap_or("unknown");
            screen.styled(Style::Strong, &format!("approval wanted: {tool} (effect: {effect})"))?;
            let arguments = known("arguments").and_then(Value::as_object).into_iter().flatten();
            for (name, value) in arguments {
                screen.line(&format!("    {name}: {value}"))?;
            }
        }
        (Some(_), None) | (None, _) => {
            let kind = if wait.wait.action.is_some() { "approval" } else { "answer" };
            screen.styled(Style::Strong, &format!("{kind} wanted: {}", wait.descriptor.signal_id))?;
            if let Some(metadata) = &wait.descriptor.metadata {
                screen.line(&format!("    {metadata}"))?;
            }
        }
    }
    match wait.wait.deadline {
        Some(deadline) => screen.styled(Style::Dim, &format!("    until {}", json::time(deadline))),
        None => Ok(()),
    }
}

/// Shows how somebody who is not asked can answer; `again` makes the same agents go on.
pub(crate) fn show_how(wait: &PendingWait, again: &str, screen: &mut Screen) -> io::Result<()> {
    let Descriptor { signal_id, .. } = &wait.descriptor;
    let forms = if wait.wait.action.is_some() { "approve|reject" } else { "JSON" };
    let session = &wait.session;
    screen
        .styled(Style::Dim, &format!("    singletree answer {signal_id} {forms} --session {session}{again}"))
}

/// Returns what waits in a session, or in all of them.
pub(crate) async fn waiting(chat: &Chat, session: Option<&str>) -> Result<Vec<PendingWait>> {
    Ok(chat.pending(session, WAITS_MAX).await?)
}

/// Says how much waits, and in how many sessions; `other` stands before those.
pub(crate) fn count(waits: &[PendingWait], other: &str) -> String {
    let sessions: BTreeSet<&str> = waits.iter().map(|it| it.session.as_str()).collect();
    let more = if waits.len() as u64 >= WAITS_MAX { " or more" } else { "" };
    match (waits.len(), sessions.len()) {
        (1, _) => format!("1 waits for an answer, in 1 {other}session"),
        (count, 1) => format!("{count}{more} wait for an answer, in 1 {other}session"),
        (count, sessions) => format!("{count}{more} wait for an answer, in {sessions} {other}sessions"),
    }
}

/// Answers a wait that was seen: an approval is bound to what it showed.
pub(crate) async fn answer(
    chat: &Chat,
    wait: &PendingWait,
    reply: Reply,
    from: Option<String>,
) -> Result<Turn> {
    let session = wait.session.clone();
    let address = SignalAddress::Session { session, signal: wait.descriptor.signal_id.clone() };
    let mut answer = Answer::new(reply.payload());
    if let Some(action) = &wait.wait.action {
        answer = answer.to(wait.wait.no, action.clone());
    }
    if let Some(from) = from {
        answer = answer.from(from);
    }
    Ok(chat.answer(address, answer).await?)
}
