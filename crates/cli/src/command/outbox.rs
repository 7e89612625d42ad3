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
use crate::who::tool_documents;
use crate::wire::Workspace;

/// How many messages are listed at most; those that follow are listed when some were delivered.
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
}

#[derive(Debug, Serialize)]
struct PrintedDelivery<'a> {
    delivered: &'a str,
}

impl<'a> PrintedMessage<'a> {
    fn of(waiting: &'a WaitingMessage) -> Self {
        Self {
            id: &waiting.id,
            session: waiting.session.as_str(),
            sent_at: json::time(waiting.sent_at),
            message: &waiting.message,
        }
    }
}

/// Runs the command.
pub(crate) async fn run(args: Outbox) -> Result<u8> {
    match args {
        Outbox::List { tenant, common } => {
            let house = Workspace::look(&DatabaseLocation::of(common.db.db.as_deref())?).await?;
            let tenant = tenant_named(tenant)?;
            let waiting = tool_documents(&house.store).waiting_messages(&tenant, None, LISTED_MAX).await;
            let mut waiting = waiting.map_err(|source| Error::Agent { source })?;
            waiting.sort_by(|a, b| (a.sent_at, &a.id).cmp(&(b.sent_at, &b.id)));
            print_list(&waiting, common.json)?;
        }
        Outbox::Show { id, tenant, common } => {
            let house = Workspace::look(&DatabaseLocation::of(common.db.db.as_deref())?).await?;
            let waiting = tool_documents(&house.store).waiting_message(&tenant_named(tenant)?, &id).await;
            let waiting = waiting.map_err(|source| Error::Agent { source })?.ok_or_else(|| unknown(&id))?;
            print_message(&waiting, common.json)?;
        }
        Outbox::Delivered { id, tenant, common } => {
            let house =
                Workspace::open_empty(&DatabaseLocation::of(common.db.db.as_deref())?, "outbox").await?;
            let delivered = tool_documents(&house.store).mark_delivered(&tenant_named(tenant)?, &id).await;
            house.close().await;
            if !delivered.map_err(|source| Error::Agent { source })? {
                return Err(unknown(&id));
            }
            let mut screen = TerminalOutput::out();
            match common.json {
                true => json::print(&mut screen, &PrintedDelivery { delivered: &id })?,
                false => screen.line(&format!("delivered: {id}"))?,
            }
        }
    }
    Ok(COMPLETED)
}

fn print_list(waiting: &[WaitingMessage], as_json: bool) -> Result<()> {
    let mut screen = TerminalOutput::out();
    if as_json {
        let messages = waiting.iter().map(PrintedMessage::of).collect();
        json::print(&mut screen, &PrintedOutbox { messages })?;
        return Ok(());
    }
    if waiting.is_empty() {
        screen.line("no message waits for delivery")?;
    }
    for it in waiting {
        let subject = it.message.subject.as_deref().unwrap_or_default();
        let (id, at, session) = (&it.id, json::time(it.sent_at), it.session.as_str());
        screen.line(format!("{id}  {at}  {session}  {}  {subject}", it.message.to).trim_end())?;
    }
    Ok(())
}

fn print_message(waiting: &WaitingMessage, as_json: bool) -> Result<()> {
    let mut screen = TerminalOutput::out();
    if as_json {
        json::print(&mut screen, &PrintedMessage::of(waiting))?;
        return Ok(());
    }
    let OutboxMessage { to, subject, body } = &waiting.message;
    screen
        .styled(TextStyle::Dim, &format!("{}  {}", json::time(waiting.sent_at), waiting.session.as_str()))?;
    screen.line(&format!("to: {to}"))?;
    if let Some(subject) = subject {
        screen.line(&format!("subject: {subject}"))?;
    }
    screen.line(body)?;
    Ok(())
}

fn tenant_named(name: Option<String>) -> Result<TenantId> {
    match name {
        Some(name) => Ok(singletree_server::tenant(&name)?),
        None => Ok(TenantId::single()),
    }
}

fn unknown(id: &str) -> Error {
    Error::Usage(format!("no message of the id '{id}' waits for delivery"))
}
