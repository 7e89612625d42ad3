//! Pending waits for an answer: how they are shown, and how they are answered.

use std::collections::BTreeSet;
use std::io;

use serde_json::Value;
use singletree::draw::visible_value;
use singletree::harness::PendingWait;
use singletree::{Answer, Chat, SignalAddress, Turn};

use crate::args::AnswerArgument;
use crate::error::Result;
use crate::json;
use crate::print::{TerminalOutput, TextStyle, to_single_line};
use crate::shell_word::quote_shell_word;

/// How many waits are looked at at once.
pub(crate) const WAITS_MAX: u64 = 1000;

/// Shows a pending wait: for an approval the tool, its effect and the exact arguments.
pub(crate) fn show_pending_wait(wait: &PendingWait, screen: &mut TerminalOutput) -> io::Result<()> {
    let is_action = wait.wait.action.is_some();
    let about = (wait.descriptor.signal_id.as_str(), wait.descriptor.metadata.as_ref(), is_action);
    show_wait_parts(about, wait.wait.deadline.map(json::format_time), screen)
}

/// Shows a wait as [`show`] does, from its parts: the signal, the agent's metadata, and whether it concerns an action.
pub(crate) fn show_wait_parts(
    (signal, metadata, is_action): (&str, Option<&Value>, bool),
    deadline: Option<String>,
    screen: &mut TerminalOutput,
) -> io::Result<()> {
    let known = |name: &str| metadata.and_then(|metadata| metadata.get(name));
    let tool = known("tool").and_then(Value::as_str);
    match (tool, is_action) {
        (Some(tool), true) => {
            let effect = known("effect").and_then(Value::as_str).unwrap_or("unknown");
            let (tool, effect) = (to_single_line(tool), to_single_line(effect));
            screen.write_styled_line(
                TextStyle::Strong,
                &format!("approval wanted: {tool} (effect: {effect})"),
            )?;
            match known("arguments") {
                Some(Value::Object(arguments)) => {
                    arguments.iter().try_for_each(|(name, value)| show_action_field(name, value, screen))?;
                }
                Some(other) => show_action_field("arguments", other, screen)?,
                None => {}
            }
            for (name, value) in metadata.and_then(Value::as_object).into_iter().flatten() {
                if !["kind", "tool", "effect", "arguments", "call_id", "description", "place", "server"]
                    .contains(&name.as_str())
                {
                    show_action_field(name, value, screen)?;
                }
            }
            if let Some(notice) = known("notice").and_then(Value::as_str) {
                screen.write_styled_line(TextStyle::Wrong, &format!("    {notice}"))?;
            }
        }
        (Some(_), false) | (None, _) => {
            let kind = if is_action { "approval" } else { "answer" };
            screen.write_styled_line(
                TextStyle::Strong,
                &format!("{kind} wanted: {}", to_single_line(signal)),
            )?;
            if let Some(metadata) = metadata {
                screen.write_line(&format!("    {}", visible_value(&metadata.to_string())))?;
            }
        }
    }
    match deadline {
        Some(deadline) => screen.write_styled_line(TextStyle::Dim, &format!("    until {deadline}")),
        None => Ok(()),
    }
}

/// Shows one field of an action to approve on a line of its own, with every character of its value.
fn show_action_field(name: &str, value: &Value, screen: &mut TerminalOutput) -> io::Result<()> {
    let name = visible_value(name).replace('\n', "\\n");
    screen.write_line(&format!("    {name}: {}", visible_value(&value.to_string())))
}

/// Who could answer from here, and how they are named on a command line.
#[derive(Debug)]
pub(crate) struct AnswerInstructions {
    /// The options to add to a command so that it uses the same agents and the same database.
    pub(crate) again: String,
    /// The agents; none where nobody can tell, because their file is wrong.
    pub(crate) agents: Option<Vec<String>>,
}

/// Shows how somebody who is not asked can answer: a line to paste for each answer. Where another program has the
/// agent, no line would do, and that is said.
pub(crate) async fn show_answer_commands(
    chat: &Chat,
    wait: &PendingWait,
    here: &AnswerInstructions,
    screen: &mut TerminalOutput,
) -> Result<()> {
    let agent = match chat.session(&wait.session).info().await {
        Ok(info) => info.agent,
        // It was deleted meanwhile: nothing waits any more.
        Err(singletree::harness::Error::SessionUnknown { .. }) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    if here.agents.as_ref().is_some_and(|agents| !agents.contains(&agent)) {
        let text = format!(
            "    the agent {agent} is not here: answer in the program that has it, or name its file by --config"
        );
        return Ok(screen.write_styled_line(TextStyle::Dim, &text)?);
    }
    let signal = wait.descriptor.signal_id.as_str();
    for line in format_answer_commands((signal, &wait.session), wait.wait.action.is_some(), &here.again) {
        screen.write_styled_line(TextStyle::Dim, &format!("    {line}"))?;
    }
    Ok(())
}

/// Returns the commands that answer. A shell runs each as it stands; the one that wants an object is refused until
/// there is one.
fn format_answer_commands((signal, session): (&str, &str), is_action: bool, again: &str) -> Vec<String> {
    let forms = if is_action { ["approve", "reject"].as_slice() } else { &["'JSON'"] };
    let (signal, session) = (quote_shell_word(signal), quote_shell_word(session));
    let line = |form: &&str| format!("singletree answer {signal} {form} --session {session}{again}");
    forms.iter().map(line).collect()
}

/// Returns the pending waits of a session, or of all sessions.
pub(crate) async fn list_pending_waits(chat: &Chat, session: Option<&str>) -> Result<Vec<PendingWait>> {
    let waits = match session {
        Some(session) => chat.session(session).pending().await?,
        None => chat.pending(WAITS_MAX).await?,
    };
    Ok(waits.iter().map(|wait| wait.wait().clone()).collect())
}

/// Says how much waits, and in how many sessions; `other` stands before those.
pub(crate) fn describe_wait_count(waits: &[PendingWait], other: &str) -> String {
    let sessions: BTreeSet<&str> = waits.iter().map(|wait| wait.session.as_str()).collect();
    let more = if waits.len() as u64 >= WAITS_MAX { " or more" } else { "" };
    match (waits.len(), sessions.len()) {
        (1, _) => format!("1 waits for an answer, in 1 {other}session"),
        (count, 1) => format!("{count}{more} wait for an answer, in 1 {other}session"),
        (count, sessions) => format!("{count}{more} wait for an answer, in {sessions} {other}sessions"),
    }
}

/// Answers a wait that was shown: an approval is bound to the action that was shown with the wait.
pub(crate) async fn answer_shown_wait(
    chat: &Chat,
    wait: &PendingWait,
    reply: AnswerArgument,
    from: Option<String>,
) -> Result<Turn> {
    let session = wait.session.clone();
    let address = SignalAddress::Session { session, signal: wait.descriptor.signal_id.clone() };
    let mut answer = Answer::new(reply.into_payload());
    if let Some(action) = &wait.wait.action {
        answer = answer.to(wait.wait.no, action.clone());
    }
    if let Some(from) = from {
        answer = answer.from(from);
    }
    Ok(chat.answer(address, answer).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_for_one_answer_and_a_shell_takes_it_as_it_stands() {
        let both = [
            "singletree answer apr-1 approve --session s --db x.db",
            "singletree answer apr-1 reject --session s --db x.db",
        ];
        assert_eq!(format_answer_commands(("apr-1", "s"), true, " --db x.db"), both);
        assert_eq!(
            format_answer_commands(("a|b", "s"), false, ""),
            ["singletree answer 'a|b' 'JSON' --session s"]
        );
        assert!("JSON".parse::<AnswerArgument>().is_err(), "what is pasted as it is answers nothing");
    }
}
