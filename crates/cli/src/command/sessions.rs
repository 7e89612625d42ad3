//! `singletree sessions`: looking at sessions, moving and deleting them.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use singletree::Chat;
use singletree::agent::ConversationSummary;
use singletree::durable::{StoredTurnStatus, Timestamp};
use singletree::harness::{ExportedSession, FailedTurnEntry, SessionInfo, TurnPromptPolicy};

use crate::args::Sessions;
use crate::error::{Error, Result};
use crate::exit::COMPLETED;
use crate::json::{self, PrintedCommandEffect, PrintedSession, PrintedSessionDetails};
use crate::place::DatabaseLocation;
use crate::print::{TerminalOutput, TextStyle};
use crate::served::{self, ChatLocation};
use crate::turn_view::{TurnView, indent_later_lines};
use crate::wire::Workspace;

/// The field of a session in which an agent keeps the summary of its beginning.
const SUMMARY: &str = "summary";

/// How many failed turns of a session are shown, at most.
const FAILED_TURNS: usize = 1000;

/// The line instead of a list without sessions.
pub(crate) const NO_SESSION: &str = "there is no session yet";

/// How many sessions are read at once.
const PAGE: u64 = 256;

/// Runs the command; those that only read do it beside a writer or alone.
pub(crate) async fn run_sessions_command(args: Sessions) -> Result<u8> {
    let place = DatabaseLocation::from_options(&args.common_options().db)?;
    let mut screen = TerminalOutput::standard_output();
    match args {
        Sessions::List { common } => {
            let workspace = Workspace::open_read_only(&place).await?;
            list_sessions(&workspace.chat, common.json, &mut screen).await?;
        }
        Sessions::Show { session, common } => {
            let workspace = Workspace::open_read_only(&place).await?;
            show_session(&workspace.chat, &session, common.json, &mut screen).await?;
        }
        Sessions::Export { session, .. } => {
            let workspace = Workspace::open_read_only(&place).await?;
            json::print_json(&mut screen, &workspace.chat.session(&session).export().await?)?;
        }
        Sessions::Delete { session, server, common } => {
            let open = Workspace::open_without_agents(&place, "sessions delete");
            match served::locate_chat(&place, &server, open).await? {
                ChatLocation::There(served) => served.delete_session(&session).await?,
                ChatLocation::Here(workspace) => {
                    let deleted = workspace.chat.session(&session).delete(None).await;
                    workspace.close_gracefully().await;
                    deleted?;
                }
            }
            place.forget_session(&session)?;
            match common.json {
                true => json::print_json(&mut screen, &PrintedCommandEffect::Deleted(&session))?,
                false => screen.write_line(&format!("deleted: {session}"))?,
            }
        }
        Sessions::Import { file, session, common } => {
            let document = read_exported_session(&file)?;
            let id = session.unwrap_or_else(|| document.session.clone());
            let workspace = Workspace::open_without_agents(&place, "sessions import").await?;
            let imported = workspace.chat.import_session(document, Some(&id)).await;
            workspace.close_gracefully().await;
            imported?;
            match common.json {
                true => json::print_json(&mut screen, &PrintedCommandEffect::Imported(&id))?,
                false => screen.write_line(&format!("imported: {id}"))?,
            }
        }
    }
    Ok(COMPLETED)
}

/// Lists all sessions, ordered by id.
pub(crate) async fn list_sessions(chat: &Chat, as_json: bool, screen: &mut TerminalOutput) -> Result<()> {
    let mut sessions: Vec<SessionInfo> = Vec::new();
    let mut from = None;
    loop {
        let page = chat.sessions(from.as_deref(), PAGE).await?;
        sessions.extend(page.items);
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    if as_json {
        let sessions = sessions.iter().map(PrintedSession::from_session_info).collect();
        json::print_json(screen, &json::PrintedSessionList { sessions })?;
        return Ok(());
    }
    for it in &sessions {
        let takes_commands = it.prompt_policy == TurnPromptPolicy::Command;
        let about = (it.messages, takes_commands);
        screen.write_line(&format_session_line(&it.session, &it.agent, it.updated_at, about))?;
    }
    if sessions.is_empty() {
        screen.write_line(NO_SESSION)?;
    }
    Ok(())
}

/// Writes the line of a session in a list; one that takes commands is marked.
pub(crate) fn format_session_line(
    session: &str,
    agent: &str,
    updated_at: Timestamp,
    (messages, takes_commands): (u64, bool),
) -> String {
    let mark = if takes_commands { "  commands" } else { "" };
    let count = format_message_count(messages);
    format!("{session}  {agent}  {}  {count}{mark}", json::format_time(updated_at))
}

/// Writes a number of messages.
pub(crate) fn format_message_count(messages: u64) -> String {
    match messages {
        1 => "1 message".to_owned(),
        many => format!("{many} messages"),
    }
}

async fn show_session(chat: &Chat, session: &str, as_json: bool, screen: &mut TerminalOutput) -> Result<()> {
    let info = chat.session(session).info().await?;
    let history = chat.session(session).history(0..info.messages).await?;
    let summary = load_summary(chat, session).await?;
    let failed = chat.session(session).failed_turns(0..u64::MAX, FAILED_TURNS).await?;
    let earlier = count_failed_before(chat, session, failed.first()).await?;
    if as_json {
        json::print_json(
            screen,
            &PrintedSessionDetails::from_session_parts(&info, summary.as_ref(), &history, (&failed, earlier)),
        )?;
        return Ok(());
    }
    let (created, updated) = (json::format_time(info.created_at), json::format_time(info.updated_at));
    let about = format!("{session}  {}  made {created}, changed {updated}", info.agent);
    screen.write_styled_line(TextStyle::Dim, &about)?;
    if earlier > 0 {
        let text = match earlier {
            1 => "(1 failed turn before the ones below is not shown)".to_owned(),
            many => format!("({many} failed turns before the ones below are not shown)"),
        };
        screen.write_styled_line(TextStyle::Dim, &text)?;
    }
    let mut view = TurnView::with_user_messages();
    let mut failed = failed.iter().peekable();
    for entry in &history {
        while let Some(turn) = failed.next_if(|turn| turn.place <= entry.seq) {
            show_failed_turn(turn, &mut view, screen)?;
        }
        if let Some(summary) = summary.as_ref().filter(|summary| summary.to == entry.seq) {
            show_summary(summary, screen)?;
        }
        view.show_message(None, &entry.message, entry.side.as_ref(), screen)?;
    }
    for turn in failed {
        show_failed_turn(turn, &mut view, screen)?;
    }
    Ok(())
}

/// Counts the failed turns before the first one that is shown: the list of failed turns holds the newest only.
async fn count_failed_before(chat: &Chat, session: &str, first: Option<&FailedTurnEntry>) -> Result<u64> {
    let Some(first) = first else { return Ok(0) };
    let (mut count, mut from) = (0, 0);
    loop {
        let page = chat.session(session).turns(from, PAGE).await?;
        let before = page.items.iter().take_while(|turn| turn.no < first.turn.no);
        count += before.filter(|turn| turn.status == StoredTurnStatus::Errored).count() as u64;
        match page.next.filter(|next| *next < first.turn.no) {
            Some(next) => from = next,
            None => return Ok(count),
        }
    }
}

/// Shows a turn that failed: its message and its answer, as far as they are no part of the history, and its error.
fn show_failed_turn(
    turn: &FailedTurnEntry,
    view: &mut TurnView,
    screen: &mut TerminalOutput,
) -> io::Result<()> {
    for (message, side) in turn.message.iter().chain(&turn.made) {
        view.show_message(None, message, side.as_ref(), screen)?;
    }
    screen.write_styled_line(TextStyle::Wrong, &format!("failed: {}", turn.error))
}

/// Reads the summary that replaces the beginning of a session in the prompt, if there is one (D27).
async fn load_summary(chat: &Chat, session: &str) -> Result<Option<ConversationSummary>> {
    let value = chat.session(session).value(SUMMARY).await?;
    // An agent of another kind may keep anything under that name.
    Ok(value.and_then(|value| serde_json::from_value(value).ok()))
}

/// Shows a summary, before the messages that it does not stand for.
fn show_summary(summary: &ConversationSummary, screen: &mut TerminalOutput) -> io::Result<()> {
    let ConversationSummary { from, to, text, .. } = summary;
    screen.write_styled_line(
        TextStyle::Dim,
        &indent_later_lines(&format!("summary of messages {from}-{}: {text}", to.saturating_sub(1))),
    )
}

fn read_exported_session(file: &Path) -> Result<ExportedSession> {
    let text = if file == Path::new("-") {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        fs::read_to_string(file)
    };
    let text = text.map_err(|source| Error::Input { source })?;
    serde_json::from_str(&text).map_err(|source| Error::Document { source })
}
