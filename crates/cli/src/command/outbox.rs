//! `singletree outbox`: the messages that agents have sent, for whoever delivers them.

use serde::Serialize;
use singletree::agent::WaitingMessage;
use singletree::durable::TenantId;
use singletree::tools::OutboxMessage;

use crate::args::Outbox;
use crate::error::{Error, Result};
use crate::exit::COMPLETED;
use crate::json;
use crate::place::DatabaseLocation;
use crate::print::{TerminalOutput, TextStyle};
use crate::who::build_tool_documents;
use crate::wire::Workspace;

/// The maximum number of messages that are listed. The others are listed once some were delivered.
const LISTED_MAX: usize = 1000;

/// A message, as `--json` prints it.
#[derive(Debug, Serialize)]
struct PrintedMessage<'a> {
    id: &'a str,
    session: &'a str,
    sent_at: String,
    #[serde(flatten)]
    message: &'a OutboxMessage,
}

#[derive(Debug, Serialize)]
struct PrintedOutbox<'a> {
    messages: Vec<PrintedMessage<'a>>,
    /// Whether more messages wait than are listed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    more: bool,
}

#[derive(Debug, Serialize)]
struct PrintedDelivery<'a> {
    delivered: &'a str,
}

impl<'a> PrintedMessage<'a> {
    fn from_waiting_message(waiting: &'a WaitingMessage) -> Self {
        Self {
            id: &waiting.id,
            session: waiting.session.as_str(),
            sent_at: json::format_time(waiting.sent_at),
            message: &waiting.message,
        }
    }
}

/// Runs the command.
pub(crate) async fn run_outbox_command(args: Outbox) -> Result<u8> {
    match args {
        Outbox::List { tenant, common } => {
            let workspace = Workspace::open_read_only(&DatabaseLocation::from_options(&common.db)?).await?;
            let tenant = parse_tenant_or_default(tenant)?;
            let waiting = build_tool_documents(&workspace.store)
                .list_waiting_messages(&tenant, None, LISTED_MAX + 1)
                .await;
            let mut waiting = waiting.map_err(|source| Error::Agent { source })?;
            let more = waiting.len() > LISTED_MAX;
            waiting.truncate(LISTED_MAX);
            waiting.sort_by(|a, b| (a.sent_at, &a.id).cmp(&(b.sent_at, &b.id)));
            print_message_list(&waiting, more, common.json)?;
        }
        Outbox::Show { id, tenant, common } => {
            let workspace = Workspace::open_read_only(&DatabaseLocation::from_options(&common.db)?).await?;
            let waiting = build_tool_documents(&workspace.store)
                .find_waiting_message(&parse_tenant_or_default(tenant)?, &id)
                .await;
            let waiting = waiting
                .map_err(|source| Error::Agent { source })?
                .ok_or_else(|| unknown_message_error(&id))?;
            print_message(&waiting, common.json)?;
        }
        Outbox::Delivered { id, tenant, common } => {
            let workspace =
                Workspace::open_without_agents(&DatabaseLocation::from_options(&common.db)?, "outbox")
                    .await?;
            let delivered = build_tool_documents(&workspace.store)
                .mark_delivered(&parse_tenant_or_default(tenant)?, &id)
                .await;
            workspace.close_gracefully().await;
            if !delivered.map_err(|source| Error::Agent { source })? {
                return Err(unknown_message_error(&id));
            }
            let mut screen = TerminalOutput::standard_output();
            match common.json {
                true => json::print_json(&mut screen, &PrintedDelivery { delivered: &id })?,
                false => screen.write_line(&format!("delivered: {id}"))?,
            }
        }
    }
    Ok(COMPLETED)
}

fn print_message_list(waiting: &[WaitingMessage], more: bool, as_json: bool) -> Result<()> {
    let mut screen = TerminalOutput::standard_output();
    if as_json {
        let messages = waiting.iter().map(PrintedMessage::from_waiting_message).collect();
        json::print_json(&mut screen, &PrintedOutbox { messages, more })?;
        return Ok(());
    }
    if waiting.is_empty() {
        screen.write_line("no message waits for delivery")?;
    }
    for it in waiting {
        let subject = it.message.subject.as_deref().unwrap_or_default();
        let (id, at, session) = (&it.id, json::format_time(it.sent_at), it.session.as_str());
        screen.write_line(format!("{id}  {at}  {session}  {}  {subject}", it.message.to).trim_end())?;
    }
    if more {
        screen.write_line(&format!("more than {LISTED_MAX} messages wait; these are some of them"))?;
    }
    Ok(())
}

fn print_message(waiting: &WaitingMessage, as_json: bool) -> Result<()> {
    let mut screen = TerminalOutput::standard_output();
    if as_json {
        json::print_json(&mut screen, &PrintedMessage::from_waiting_message(waiting))?;
        return Ok(());
    }
    let OutboxMessage { to, subject, body } = &waiting.message;
    screen.write_styled_line(
        TextStyle::Dim,
        &format!("{}  {}", json::format_time(waiting.sent_at), waiting.session.as_str()),
    )?;
    screen.write_line(&format!("to: {to}"))?;
    if let Some(subject) = subject {
        screen.write_line(&format!("subject: {subject}"))?;
    }
    screen.write_line(body)?;
    Ok(())
}

fn parse_tenant_or_default(name: Option<String>) -> Result<TenantId> {
    match name {
        Some(name) => Ok(singletree_server::parse_tenant_name(&name)?),
        None => Ok(TenantId::single()),
    }
}

fn unknown_message_error(id: &str) -> Error {
    Error::Usage(format!("no message of the id '{id}' waits for delivery"))
}
