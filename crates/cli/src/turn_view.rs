//! How a turn looks while it happens.

use std::collections::HashMap;
use std::io;

use serde_json::Value;
use singletree::durable::Timestamp;
use singletree::harness::MessageId;
use singletree::llm::{Role, ToolCall};
use singletree::{ChatEvent, ChatEventKind, ChatMessage, ChatTurnOutcome};

use crate::hint::hint_for_error;
use crate::json;
use crate::narration_screen::TerminalNarration;
use crate::print::{TerminalOutput, TextStyle, to_single_line};

/// The sign of life while a model thinks.
const THINKING: &str = "  ...";

/// How many lines of a tool's result are shown.
const RESULT_LINES_MAX: usize = 12;

/// Shows the events of one turn.
///
/// Deltas and tool activity are provisional: they may be missing, and a late subscriber may get them after the
/// messages that they led to. The recorded messages have the same content, so the final text on the screen does not
/// depend on deltas.
#[derive(Debug, Default)]
pub(crate) struct TurnView {
    /// The message that is on its way, as far as it is on the screen.
    piece: Option<PartialMessage>,
    /// The text so far of a message before which others are still to come.
    held: Option<PartialMessage>,
    /// Before which of the turn's messages all are recorded.
    recorded: u64,
    /// When the last recorded event was.
    at: Option<Timestamp>,
    calls: HashMap<String, ToolCallLine>,
    /// Whether to show the user's messages, which were not typed at this terminal.
    echo: bool,
    /// Whether the lines of a text after its first are indented: then none of them looks like a line of ours.
    indents: bool,
    /// The narration that is shown between the events, and of which session.
    narration: Option<(TerminalNarration, String)>,
    /// How many line breaks of the message on its way are not on the screen yet, since nothing came after them.
    breaks: usize,
}

#[derive(Debug)]
struct PartialMessage {
    id: MessageId,
    run: u32,
    /// The number of the next delta.
    next: u64,
    text: String,
    /// The text of a lower run that is on the screen, while this run repeats it.
    again: Option<String>,
}

/// A tool call of the turn. Ids are unique within their message only: one that ended may begin anew.
#[derive(Debug, Default)]
struct ToolCallLine {
    line: Option<String>,
    told: bool,
    ended: bool,
}

impl TurnView {
    /// Makes a view that also shows the user's messages.
    pub(crate) fn with_user_messages() -> Self {
        Self { echo: true, indents: true, ..Self::default() }
    }

    /// Makes a view for where lines of ours, such as prompts, stand between the texts.
    pub(crate) fn with_indentation() -> Self {
        Self { indents: true, ..Self::default() }
    }

    /// Shows narration between the events, as it comes.
    pub(crate) fn narrating(mut self, narration: Option<(TerminalNarration, String)>) -> Self {
        self.narration = narration;
        self
    }

    /// Knows the call that a wait stands before, for the case that the call has begun before the view looks: it is named by
    /// an earlier turn, and its beginning is not recorded.
    pub(crate) fn awaiting_call(mut self, metadata: &Value) -> Self {
        let text = |key: &str| metadata[key].as_str();
        if let Some((call, tool)) = text("call_id").zip(text("tool")) {
            let line = format_call_line(tool, &metadata["arguments"].to_string());
            self.calls.entry(call.to_owned()).or_default().line = Some(line);
        }
        self
    }

    /// Shows what was narrated since the last event.
    pub(crate) fn show_narration(&self, screen: &mut TerminalOutput) -> io::Result<()> {
        match &self.narration {
            Some((narration, session)) => narration.print_new(session, screen),
            None => Ok(()),
        }
    }

    /// Shows an event.
    pub(crate) fn show_event(&mut self, event: &ChatEvent, screen: &mut TerminalOutput) -> io::Result<()> {
        if event.id.is_some() {
            self.at = Some(event.at);
        }
        let late = self.at.is_some_and(|it| event.at < it);
        match &event.what {
            ChatEventKind::TurnAccepted { message: Some(message) } if self.echo => {
                screen.write_line(&indent_later_lines(&format!("{PROMPT}{}", message.text())))
            }
            ChatEventKind::Delta { id, .. } if id.k < self.recorded => Ok(()),
            ChatEventKind::Delta { id, run, n, text, so_far, side: _, unrecorded: _ } => {
                let delta = PartialMessage {
                    id: id.clone(),
                    run: *run,
                    next: n + 1,
                    text: text.clone(),
                    again: None,
                };
                if *so_far { self.show_text_so_far(delta, screen) } else { self.show_delta(delta, screen) }
            }
            ChatEventKind::MessageAppended { id, message, side } => {
                self.show_message(Some(id), message, side.as_ref(), screen)
            }
            ChatEventKind::ToolStarted { .. } | ChatEventKind::ToolFinished { .. } if late => Ok(()),
            ChatEventKind::ToolStarted { call, name, arguments } => {
                let line = format_call_line(name, &arguments.to_string());
                self.calls.entry(call.clone()).or_default().line = Some(line);
                self.show_call_line(call, screen)
            }
            ChatEventKind::ToolFinished { call, name: _, success, content } => {
                self.show_tool_result(call, content, Some(*success), screen)
            }
            ChatEventKind::TurnErrored { outcome } => match outcome.as_ref() {
                ChatTurnOutcome::Errored(turn) => {
                    let why = (turn.error_category.as_str(), turn.diagnostic.as_str());
                    self.show_turn_failure(&turn.reply.text(), why, screen)
                }
                ChatTurnOutcome::Completed(_) | ChatTurnOutcome::Suspended(_) => screen.end_line(),
            },
            ChatEventKind::SignalReceived { signal, how, .. } if *how != "consumed" => {
                screen.write_styled_line(TextStyle::Dim, &format!("  {signal}: {how}"))
            }
            ChatEventKind::TurnStarted | ChatEventKind::ThinkingDelta { .. } => screen.show_status(THINKING),
            ChatEventKind::TurnRestarted => self.show_restart(screen),
            ChatEventKind::TurnRetrying { attempt, until, category } if screen.is_interactive() => {
                let text = format!(
                    "  ({category}: attempt {attempt} failed, the next one is at {})",
                    json::format_time(*until)
                );
                screen.write_styled_line(TextStyle::Dim, &text)?;
                screen.show_status(THINKING)
            }
            ChatEventKind::TurnRetrying { .. } | ChatEventKind::MessageTaken { .. } => Ok(()),
            ChatEventKind::TurnAccepted { .. }
            | ChatEventKind::SignalReceived { .. }
            | ChatEventKind::TurnSuspended { .. }
            | ChatEventKind::TurnCompleted { .. }
            | ChatEventKind::SessionForked { .. } => screen.end_line(),
        }
    }

    /// Shows a recorded message: all of it, or the part that is not on the screen yet.
    pub(crate) fn show_message(
        &mut self,
        id: Option<&MessageId>,
        message: &ChatMessage,
        side: Option<&Value>,
        screen: &mut TerminalOutput,
    ) -> io::Result<()> {
        if let Some(id) = id {
            self.recorded = id.k + 1;
        }
        match message.role {
            Role::User if self.echo && id.is_none() => {
                screen.write_line(&indent_later_lines(&format!("{PROMPT}{}", message.text())))
            }
            // Its turn's acceptance has told it already.
            Role::User => Ok(()),
            Role::System => screen.write_styled_line(TextStyle::Dim, &indent_later_lines(&message.text())),
            Role::Assistant => {
                let text = message.text().into_owned();
                match id {
                    Some(id) => self.complete_shown_text(
                        PartialMessage { id: id.clone(), run: 0, next: 0, text, again: None },
                        screen,
                    )?,
                    None => self.write_text_piece(&text, screen)?,
                }
                self.end_text(screen)?;
                self.piece = None;
                if side.is_some_and(|side| side["interrupted"] == true) {
                    screen.write_styled_line(TextStyle::Dim, "  (interrupted)")?;
                }
                self.calls.extend(
                    message
                        .tool_calls
                        .iter()
                        .map(|tool_call| (tool_call.id.clone(), ToolCallLine::from_tool_call(tool_call))),
                );
                self.release_held_text(screen)
            }
            Role::Tool => {
                let (call, text) = (message.tool_call_id.as_deref().unwrap_or_default(), message.text());
                let ran = side.and_then(|side| side["success"].as_bool());
                self.show_tool_result(call, &text, ran, screen)?;
                self.release_held_text(screen)
            }
        }
    }

    /// Takes the text so far, which may have overtaken the recorded messages before it.
    fn show_text_so_far(&mut self, all: PartialMessage, screen: &mut TerminalOutput) -> io::Result<()> {
        if all.id.k > self.recorded && self.piece.as_ref().is_none_or(|piece| piece.id != all.id) {
            self.held = Some(all);
            return Ok(());
        }
        self.complete_shown_text(all, screen)
    }

    /// Shows the text that was held back, once it is its turn.
    fn release_held_text(&mut self, screen: &mut TerminalOutput) -> io::Result<()> {
        match self.held.take_if(|held| held.id.k <= self.recorded) {
            Some(all) if all.id.k == self.recorded => self.complete_shown_text(all, screen),
            Some(_) | None => Ok(()),
        }
    }

    fn show_delta(&mut self, delta: PartialMessage, screen: &mut TerminalOutput) -> io::Result<()> {
        // Deltas from the first one on contain the whole text; otherwise the text that was held back goes before
        // them.
        if let Some(all) = self.held.take_if(|held| held.id == delta.id && held.run == delta.run)
            && delta.next > 1
        {
            self.complete_shown_text(all, screen)?;
        }
        match &mut self.piece {
            Some(piece) if piece.id == delta.id && piece.run == delta.run => {
                // Who got the text so far may get pieces of it again.
                if delta.next <= piece.next {
                    return Ok(());
                }
                piece.next = delta.next;
                piece.text.push_str(&delta.text);
                match piece.again.take() {
                    None => self.write_text_piece(&delta.text, screen),
                    Some(shown) => self.show_restarted_text(shown, screen),
                }
            }
            Some(piece) if piece.id == delta.id && piece.run > delta.run => Ok(()),
            Some(piece) if piece.id == delta.id => {
                // A higher run replaces the text of a lower one, unless it repeats it.
                let shown = piece.again.take().unwrap_or_else(|| std::mem::take(&mut piece.text));
                self.piece = Some(delta);
                self.show_restarted_text(shown, screen)
            }
            Some(_) | None => {
                self.end_text(screen)?;
                let said = self.write_text_piece(&delta.text, screen);
                self.piece = Some(delta);
                said
            }
        }
    }

    /// Lets the pieces of the next run replace the text on the screen, whatever the number of that run: another process may
    /// count from another number.
    fn show_restart(&mut self, screen: &mut TerminalOutput) -> io::Result<()> {
        if let Some(piece) = &mut self.piece {
            piece.run = 0;
        }
        if !screen.is_interactive() {
            return Ok(());
        }
        screen.write_styled_line(TextStyle::Dim, "  (it runs again, from the last step that was kept)")?;
        screen.show_status(THINKING)
    }

    /// Shows only the new text of a run that was restarted: nothing while it repeats the previous run, and all of it
    /// once it differs.
    fn show_restarted_text(&mut self, shown: String, screen: &mut TerminalOutput) -> io::Result<()> {
        let Some(piece) = &mut self.piece else { return Ok(()) };
        if shown.starts_with(piece.text.as_str()) {
            piece.again = Some(shown);
            return Ok(());
        }
        let text = piece.text.clone();
        match text.strip_prefix(shown.as_str()) {
            Some(missing) => self.write_text_piece(missing, screen),
            None => {
                self.end_text(screen)?;
                self.write_text_piece(&text, screen)
            }
        }
    }

    /// Brings a message on the screen to this text: adds the missing part, or writes the whole text where it differs.
    fn complete_shown_text(&mut self, all: PartialMessage, screen: &mut TerminalOutput) -> io::Result<()> {
        let before = self.piece.as_ref().filter(|piece| piece.id == all.id);
        let shown = before.map(|piece| piece.again.as_deref().unwrap_or(&piece.text));
        match shown.and_then(|shown| all.text.strip_prefix(shown)) {
            Some(missing) => {
                let missing = missing.to_owned();
                self.write_text_piece(&missing, screen)?;
            }
            None => {
                self.end_text(screen)?;
                self.write_text_piece(&all.text, screen)?;
            }
        }
        self.piece = Some(all);
        Ok(())
    }

    /// Writes a piece of a text.
    fn write_text_piece(&mut self, text: &str, screen: &mut TerminalOutput) -> io::Result<()> {
        if !self.indents {
            return screen.write_piece(text);
        }
        let rest = text.trim_end_matches('\n');
        let breaks = text.len() - rest.len();
        if rest.is_empty() {
            self.breaks += breaks;
            return Ok(());
        }
        let before = std::mem::replace(&mut self.breaks, breaks);
        screen.write_piece(&indent_later_lines(&format!("{}{rest}", "\n".repeat(before))))
    }

    /// Ends the text that was written by pieces, if one was.
    fn end_text(&mut self, screen: &mut TerminalOutput) -> io::Result<()> {
        self.breaks = 0;
        screen.end_line()
    }

    fn show_call_line(&mut self, id: &str, screen: &mut TerminalOutput) -> io::Result<()> {
        let call = self.calls.entry(id.to_owned()).or_default();
        match &call.line {
            Some(line) if !call.told => {
                call.told = true;
                screen.write_styled_line(TextStyle::Dim, line)
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Shows the result of a tool call. `ran` is its success, where the call is known to have run: then no content
    /// counts as a call that was closed without running.
    fn show_tool_result(
        &mut self,
        id: &str,
        content: &str,
        ran: Option<bool>,
        screen: &mut TerminalOutput,
    ) -> io::Result<()> {
        let closed = if ran.is_none() { parse_closed_call(content) } else { None };
        let success = ran.unwrap_or(!content.starts_with(FAILED));
        if closed.is_none() {
            self.show_call_line(id, screen)?;
        }
        let call = self.calls.entry(id.to_owned()).or_default();
        if std::mem::replace(&mut call.ended, true) {
            return Ok(());
        }
        if let Some(closed) = closed {
            return screen.write_styled_line(TextStyle::Dim, &format!("  ! {}", to_single_line(&closed)));
        }
        let mark = if success { '=' } else { '!' };
        for (at, line) in content.lines().take(RESULT_LINES_MAX).enumerate() {
            let mark = if at == 0 { mark } else { ' ' };
            screen.write_styled_line(TextStyle::Dim, &format!("  {mark} {line}"))?;
        }
        match content.lines().count().saturating_sub(RESULT_LINES_MAX) {
            0 => Ok(()),
            more => screen.write_styled_line(TextStyle::Dim, &format!("    ({more} more lines)")),
        }
    }

    /// Shows that the turn failed: the reply for the user, then the category and the diagnostic.
    pub(crate) fn show_turn_failure(
        &mut self,
        reply: &str,
        (category, diagnostic): (&str, &str),
        screen: &mut TerminalOutput,
    ) -> io::Result<()> {
        self.end_text(screen)?;
        screen.write_styled_line(TextStyle::Wrong, reply)?;
        screen.write_styled_line(TextStyle::Dim, &format!("  ({category}: {diagnostic})"))?;
        match hint_for_error(category) {
            Some(hint) => screen.write_styled_line(TextStyle::Dim, &format!("  hint: {hint}")),
            None => Ok(()),
        }
    }
}

impl ToolCallLine {
    fn from_tool_call(call: &ToolCall) -> Self {
        let arguments = call.arguments.clone().map_or(Value::Null, Value::Object);
        Self { line: Some(format_call_line(&call.name, &arguments.to_string())), ..Self::default() }
    }
}

/// How the result of a call that failed begins.
const FAILED: &str = "error: ";

/// The prefix of a user's message.
pub(crate) const PROMPT: &str = "you> ";

fn format_call_line(name: &str, arguments: &str) -> String {
    format!("  * {} {arguments}", to_single_line(name))
}

/// Indents the lines of a text after its first one.
pub(crate) fn indent_later_lines(text: &str) -> String {
    let mut lines = text.split('\n');
    let mut hung = lines.next().unwrap_or_default().to_owned();
    for line in lines {
        hung.push('\n');
        if !line.is_empty() {
            hung.push_str("    ");
        }
        hung.push_str(line);
    }
    hung
}

/// Reads the content of a call that was closed without a result (D8).
fn parse_closed_call(content: &str) -> Option<String> {
    let object: serde_json::Map<String, Value> = serde_json::from_str(content).ok()?;
    let text = |name| object.get(name).and_then(Value::as_str);
    let (status, reason) = (text("status")?, text("reason")?);
    let known = matches!(status, "cancelled" | "denied" | "failed" | "unknown");
    (known && object.len() == 2).then(|| format!("{status}: {reason}"))
}

#[cfg(test)]
mod tests;
