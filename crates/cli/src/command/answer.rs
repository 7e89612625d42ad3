//! `singletree answer`: answers a pending wait, for scripts.

use std::sync::Arc;

use singletree::{ChatTurnOutcome, SignalAddress, Turn};

use crate::args::{Answer, AnswerArgument};
use crate::ask;
use crate::error::{Error, Result};
use crate::follow::{InterruptEffect, follow_turn};
use crate::place::DatabaseLocation;
use crate::print::TerminalOutput;
use crate::served::{self, ChatLocation};
use crate::turn_view::TurnView;
use crate::wire::Workspace;

/// Runs the command.
pub(crate) async fn run_answer_command(args: Answer) -> Result<u8> {
    let place = DatabaseLocation::from_options(&args.common.db)?;
    let open = Workspace::open_with_agents(&place, &args.who, "answer");
    let workspace = match served::locate_chat(&place, &args.server, open).await? {
        ChatLocation::Here(workspace) => *workspace,
        ChatLocation::There(served) => {
            let (waits, mut screen) = ((args.signal, args.session), TerminalOutput::standard_output());
            return served.answer_pending_wait(waits, args.reply, (args.common.json, &mut screen)).await;
        }
    };
    let code = answer_in_workspace(args, &place, &workspace).await;
    let code = workspace.redact_result(code);
    workspace.close_gracefully().await;
    code
}

async fn answer_in_workspace(args: Answer, place: &DatabaseLocation, workspace: &Workspace) -> Result<u8> {
    let Answer { signal, reply, session, from, who: _, server: _, common } = args;
    workspace.chat.sweep().await?;
    let turn = answer_named_wait(workspace, (signal, session), reply, from)
        .await
        .map_err(|error| add_searched_database(error, place))?;
    let mut screen = TerminalOutput::standard_output();
    let outcome: Arc<ChatTurnOutcome> = if common.json {
        turn.outcome().await
    } else {
        follow_turn(&workspace.chat, &turn, TurnView::default(), &mut screen, InterruptEffect::EndsProcess)
            .await?
    };
    super::print_turn_outcome(workspace, turn.session(), &outcome, (common.json, &mut screen)).await
}

/// Says in which database was looked, where nothing waits for an answer: it may wait in another one.
fn add_searched_database(error: Error, place: &DatabaseLocation) -> Error {
    match error {
        Error::Refused(turn) if turn.error_category == "harness_signal_correlation_failed" => {
            Error::Unawaited { turn, db: place.shown_name() }
        }
        other => other,
    }
}

/// Answers the one wait of this name. Where no wait has the name, it was answered already, or several have it, the
/// harness returns the result or the error.
async fn answer_named_wait(
    workspace: &Workspace,
    (signal, session): (Option<String>, Option<String>),
    reply: AnswerArgument,
    from: Option<String>,
) -> Result<Turn> {
    let mut waits = ask::list_pending_waits(&workspace.chat, session.as_deref()).await?;
    let Some(signal) = signal else {
        let [wait] = waits.as_slice() else {
            let text = match waits.len() {
                0 => "nothing waits for an answer".to_owned(),
                _ => {
                    format!("{}; name one of them: singletree pending", ask::describe_wait_count(&waits, ""))
                }
            };
            return Err(Error::Usage(text));
        };
        return ask::answer_shown_wait(&workspace.chat, wait, reply, from).await;
    };
    waits.retain(|wait| wait.descriptor.signal_id == signal);
    if let [wait] = waits.as_slice() {
        return ask::answer_shown_wait(&workspace.chat, wait, reply, from).await;
    }
    let mut answer = singletree::Answer::new(reply.into_payload());
    let address = match session {
        None => SignalAddress::Signal(signal),
        Some(session) => {
            if let Some((wait, action)) = workspace.find_last_action(&session, &signal).await? {
                answer = answer.to(wait, action);
            }
            SignalAddress::Session { session, signal }
        }
    };
    Ok(workspace.chat.answer(address, answer).await?)
}
