//! `singletree telemetry`: turns that wait to be exported, and sending those of before.

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use serde::Serialize;
use singletree::Chat;
use singletree::config::TelemetrySettings;
use singletree::durable::{TenantId, Timestamp};
use singletree::env::{Clock, SystemClock};
use singletree::export::{BackfillRange, BackfillReport, TenantBacklog};
use singletree::http::{Redactor, is_this_machine};

use crate::args::{PastTime, Telemetry};
use crate::conversation_store::ConversationStore;
use crate::error::{Error, Result};
use crate::exit::COMPLETED;
use crate::json::print_json;
use crate::place::DatabaseLocation;
use crate::print::TerminalOutput;
use crate::traces::{build_trace_exporter, settings_of_endpoint};
use crate::who::{FILE, load_config};
use crate::wire::Workspace;

/// How many tenants are listed at once.
const TENANTS: u64 = 256;

/// Runs the command.
pub(crate) async fn run_telemetry_command(args: Telemetry) -> Result<u8> {
    match args {
        Telemetry::Status { common } => {
            let place = DatabaseLocation::from_options(&common.db)?;
            let workspace = Workspace::open_read_only(&place).await?;
            show_status(&workspace.chat, &workspace.store, common.json).await
        }
        Telemetry::Backfill { since, until, to, config, common } => {
            let range = BackfillRange { since: to_timestamp(since), until: until.map(to_timestamp) };
            let (settings, redactor) = find_destination(to, config.as_deref()).await?;
            let place = DatabaseLocation::from_options(&common.db)?;
            let workspace = Workspace::open_read_only(&place).await?;
            let documents = Arc::new(workspace.store.clone());
            let exporter = build_trace_exporter(&settings, workspace.chat, (documents, false), &redactor)?;
            let sent = exporter.backfill(range).await.map_err(Error::from);
            let sent = sent.map_err(|error| error.into_redacted(&redactor))?;
            show_backfill(sent, common.json)
        }
    }
}

fn to_timestamp(time: PastTime) -> Timestamp {
    let whole = |millis: u128| i64::try_from(millis).unwrap_or(i64::MAX);
    let millis = match time {
        PastTime::At(at) => whole(at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis()),
        PastTime::Before(span) => SystemClock.now().as_millis().saturating_sub(whole(span.as_millis())),
    };
    Timestamp::from_millis(millis)
}

/// Finds where a backfill sends to: the address of the command line, else that of the file.
async fn find_destination(
    to: Option<String>,
    config: Option<&Path>,
) -> Result<(TelemetrySettings, Redactor)> {
    let usual = Path::new(FILE);
    let file = config.or_else(|| usual.exists().then_some(usual));
    let loaded = match file {
        Some(file) => Some(load_config(file).await?),
        None => None,
    };
    let redactor = loaded.as_ref().map(|config| config.redactor()).unwrap_or_default();
    let settings = loaded.as_ref().and_then(|config| config.telemetry_settings()).cloned();
    match (to, settings) {
        (Some(to), settings) => {
            is_this_machine(&to)
                .map_err(|_| Error::Usage("--to is no address that can be called".to_owned()))?;
            Ok((settings_of_endpoint(settings, to), redactor))
        }
        (None, Some(settings)) => Ok((settings, redactor)),
        (None, None) => Err(Error::Usage(
            "there is no [telemetry] in a file here: say with --to where traces go".to_owned(),
        )),
    }
}

/// `{"tenants": […]}`.
#[derive(Debug, Serialize)]
struct PrintedStatus {
    tenants: Vec<PrintedBacklog>,
}

#[derive(Debug, Serialize)]
struct PrintedBacklog {
    tenant: TenantId,
    turns: u64,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    oldest: Option<String>,
}

async fn show_status(chat: &Chat, store: &ConversationStore, json: bool) -> Result<u8> {
    let mut tenants = Vec::new();
    let mut past: Option<TenantId> = None;
    loop {
        let page = chat.tenants(past.as_ref(), TENANTS).await?;
        let Some(last) = page.last() else { break };
        past = Some(last.clone());
        for tenant in page {
            let read = TenantBacklog::read(store, &tenant).await;
            let backlog = read.map_err(|source| Error::Open { source })?;
            if backlog.turns > 0 {
                let oldest = backlog.oldest.map(|at| at.to_string());
                tenants.push(PrintedBacklog { tenant, turns: backlog.turns, bytes: backlog.bytes, oldest });
            }
        }
    }
    let mut screen = TerminalOutput::standard_output();
    if json {
        print_json(&mut screen, &PrintedStatus { tenants })?;
        return Ok(COMPLETED);
    }
    if tenants.is_empty() {
        screen.write_line("no turn waits to be exported")?;
    }
    for it in &tenants {
        let turns =
            if it.turns == 1 { "1 turn waits".to_owned() } else { format!("{} turns wait", it.turns) };
        let since = it.oldest.iter().map(|at| format!(", the oldest since {at}")).collect::<String>();
        screen.write_line(&format!("{}  {turns}, {} bytes{since}", it.tenant, it.bytes))?;
    }
    Ok(COMPLETED)
}

#[derive(Debug, Serialize)]
struct PrintedBackfill {
    turns: u64,
    spans: u64,
    rejected_spans: u64,
    refused_turns: u64,
}

fn show_backfill(report: BackfillReport, json: bool) -> Result<u8> {
    let BackfillReport { turns, spans, rejected_spans, refused_turns, .. } = report;
    let mut screen = TerminalOutput::standard_output();
    if json {
        print_json(&mut screen, &PrintedBackfill { turns, spans, rejected_spans, refused_turns })?;
        return Ok(COMPLETED);
    }
    screen.write_line(&format!("{turns} turns with {spans} spans were sent"))?;
    if rejected_spans > 0 {
        screen.write_line(&format!("the receiver dropped {rejected_spans} of the spans"))?;
    }
    if refused_turns > 0 {
        screen.write_line(&format!("the receiver refused {refused_turns} turns"))?;
    }
    Ok(COMPLETED)
}
