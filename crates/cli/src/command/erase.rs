//! `singletree erase`: removing everything that is kept for a person or a tenant.

use std::collections::BTreeSet;
use std::path::Path;

use singletree::ErasedName;
use singletree::durable::{JournalMaintenance, Result as StoreResult, SessionKey, SubjectId, TenantId};
use singletree::engine::{Clock, SystemClock};
use singletree::harness::{self, ErasureScope};
use singletree::http::Redactor;
use singletree::narration::NarrationOwner;
use singletree_server::NarrationLog;

use crate::args::{Erase, Switch};
use crate::conversation_store::ConversationStore;
use crate::error::Result;
use crate::exit::COMPLETED;
use crate::json::{self, PrintedCommandEffect};
use crate::place::DatabaseLocation;
use crate::print::TerminalOutput;
use crate::serving::build_narration_log;
use crate::who::{FILE, load_config};
use crate::wire::Workspace;

/// Who erases on the command line, as it is recorded.
pub(super) const BY: &str = "operator";

/// How many tenants are read at once.
const PAGE: u64 = 256;

/// Runs the command. It needs exclusive access to the database; running it again finishes an interrupted erasure.
pub(crate) async fn run_erase_command(args: Erase) -> Result<u8> {
    let place = DatabaseLocation::from_options(&args.common.db)?;
    // An unreadable file is reported before anything is erased.
    let narration = open_narration_file(args.config.as_deref()).await?;
    let workspace = Workspace::open_without_agents(&place, "erase").await?;
    let erased = erase_tenant_or_subject(&workspace, &place, &narration, (args.tenant, args.subject)).await;
    workspace.close_gracefully().await;
    let count = erased?;
    let mut screen = TerminalOutput::standard_output();
    match (args.common.json, count) {
        (true, _) => json::print_json(&mut screen, &PrintedCommandEffect::Erased(count))?,
        (false, 1) => screen.write_line("erased: 1 conversation")?,
        (false, _) => screen.write_line(&format!("erased: {count} conversations"))?,
    }
    Ok(COMPLETED)
}

async fn erase_tenant_or_subject(
    workspace: &Workspace,
    place: &DatabaseLocation,
    narration: &NarrationLog,
    (tenant, subject): (Option<TenantId>, Option<SubjectId>),
) -> Result<u64> {
    let tenants = match &tenant {
        Some(tenant) => BTreeSet::from([tenant.clone()]),
        None => read_all_tenants(&workspace.store).await.map_err(harness::Error::from)?,
    };
    let scope = subject.map_or(ErasureScope::Tenant, ErasureScope::Subject);
    let mut count = 0;
    for tenant in &tenants {
        let chat = workspace.chat.of(tenant.clone());
        let sessions = chat.erasable_sessions(&scope).await?;
        // The list is written before the deletion: after a crash in between, a restored backup still omits the data.
        let keys: Vec<SessionKey> =
            sessions.into_iter().map(|session| SessionKey::new(tenant.clone(), session)).collect();
        let whom = match &scope {
            ErasureScope::Tenant => ErasedName::Tenant(tenant.clone()),
            ErasureScope::Subject(subject) => ErasedName::Subject(tenant.clone(), subject.clone()),
        };
        let names = keys.iter().cloned().map(ErasedName::Session).chain([whom]).collect();
        workspace.store.list_erased(names, SystemClock.now()).await.map_err(harness::Error::from)?;
        for key in &keys {
            let owner = NarrationOwner { tenant: tenant.as_str(), session: key.session.as_str() };
            narration.sink().forget_session(owner);
        }
        count += chat.erase(&scope, Some(BY)).await?;
        if scope == ErasureScope::Tenant {
            singletree_server::erase_tenant(&workspace.store, tenant).await?;
        }
        if *tenant == TenantId::single() {
            keys.iter().try_for_each(|key| place.forget_session(key.session.as_str()))?;
            if scope == ErasureScope::Tenant {
                place.forget_input_history()?;
            }
        }
    }
    Ok(count)
}

/// Opens the narration file that the agents' file names, if it names one. No running server writes to it: the
/// database is open here.
async fn open_narration_file(config: Option<&Path>) -> Result<NarrationLog> {
    let usual = Path::new(FILE);
    let Some(config) = config.or_else(|| usual.exists().then_some(usual)) else {
        return Ok(NarrationLog::new_disabled());
    };
    let serving = load_config(config).await?.serving_settings().clone();
    build_narration_log(Some(Switch::On), &serving, &Redactor::default())
}

/// Returns the tenants that have sessions, and the default tenant.
pub(super) async fn read_all_tenants(store: &ConversationStore) -> StoreResult<BTreeSet<TenantId>> {
    let mut tenants = BTreeSet::from([TenantId::single()]);
    let mut past: Option<TenantId> = None;
    loop {
        let page = store.read_tenants(past.as_ref(), PAGE).await?;
        let Some(last) = page.last() else { return Ok(tenants) };
        past = Some(last.clone());
        tenants.extend(page);
    }
}
