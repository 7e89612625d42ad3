//! `singletree restore`: makes a database from a backup and removes data that was erased since.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use singletree::durable::{Journal, SessionKey, SubjectId, TenantId, Timestamp};
use singletree::engine::{RandomIds, SystemClock};
use singletree::env::SystemRandomSource;
use singletree::{Chat, ErasedName, ErasureList, SqliteStore, harness};
use singletree_server::{Keyring, ServerLimits};
use tokio::time::sleep;

use super::erase::{BY, read_all_tenants};
use crate::args::Restore;
use crate::conversation_store::ConversationStore;
use crate::error::{Error, Result};
use crate::exit::COMPLETED;
use crate::json::{self, PrintedCommandEffect};
use crate::place::{DatabaseLocation, DatabaseName};
use crate::print::TerminalOutput;
use crate::wire::Workspace;

/// For how many seconds a session of another server is waited for: longer than the longest usual lease, and a server that lives
/// keeps it.
const LEASE_SECONDS: u32 = 15;
/// How many sessions are read at once.
const PAGE: u64 = 256;
/// How many keys are read at once: a tenant has as many at most.
const KEYS: u64 = 1000;

/// Runs the command.
pub(crate) async fn run_restore_command(args: Restore) -> Result<u8> {
    let place = DatabaseLocation::from_options(&args.common.db)?;
    // A missing list beside a database is an empty one, but a named list must exist: without it, erased data returns.
    if let Some(missing) = args.erased.iter().find(|list| !list.exists()) {
        return Err(Error::Usage(format!("there is no list {}", missing.display())));
    }
    let count = match (place.name(), &args.file) {
        (DatabaseName::File(database), Some(backup)) => {
            restore_file(&place, database, backup, args.erased).await?
        }
        (DatabaseName::File(_), None) => {
            return Err(Error::Usage("name the backup that is to be restored".to_owned()));
        }
        (DatabaseName::Postgres(..), None) if !args.erased.is_empty() => {
            apply_lists(&place, &read_lists(args.erased)?).await?
        }
        (DatabaseName::Postgres(..), _) => {
            let advice = "restore a PostgreSQL database with its own programs; then this command removes what the lists \
                of --erased name";
            return Err(Error::Usage(advice.to_owned()));
        }
    };
    let (name, mut screen) = (place.shown_name(), TerminalOutput::standard_output());
    match args.common.json {
        true => json::print_json(&mut screen, &PrintedCommandEffect::Restored(&name))?,
        false => {
            let done = if args.file.is_some() { "restored to" } else { "erased data was removed from" };
            screen.write_line(&format!("{done} {name}"))?;
            if count > 0 {
                screen.write_line(&format!("left out, since it was erased: {count}"))?;
            }
        }
    }
    Ok(COMPLETED)
}

/// Makes a file of a backup. The copy comes under its name when everything was applied to it: a process that dies leaves a
/// draft, which the next one begins anew.
async fn restore_file(
    place: &DatabaseLocation,
    database: &Path,
    backup: &Path,
    named: Vec<PathBuf>,
) -> Result<u64> {
    if database.exists() {
        let writer = SqliteStore::find_writer(database).map_err(|source| Error::Open { source })?;
        return Err(Error::DatabaseExists { path: database.to_owned(), writer });
    }
    place.create_folder()?;
    let draft = append_to_path(database, ".restoring");
    remove_draft_files(&draft)?;
    let beside = [database, backup].map(ErasureList::path_beside);
    let lists = read_lists(beside.into_iter().chain(named))?;
    let failed = |source| Error::Open { source };
    let store = SqliteStore::open_read_only(backup).await.map_err(failed)?;
    let copied = store.backup(&draft).await;
    store.close().await;
    copied.map_err(failed)?;
    let count = apply_lists(&DatabaseLocation::from_path_or_default(Some(&draft))?, &lists).await?;
    publish_database(&draft, database).map_err(|source| {
        let path = database.to_owned();
        Error::Place { doing: "put the restored database in the place of", path, source }
    })?;
    Ok(count)
}

fn read_lists(files: impl IntoIterator<Item = PathBuf>) -> Result<Vec<ErasureList>> {
    let lists = files.into_iter().map(ErasureList::read_from_file).collect::<Result<_, _>>();
    lists.map_err(|source| Error::Open { source })
}

/// Removes erased data from a restored database, by lists. Returns the number of removed conversations and keys.
async fn apply_lists(place: &DatabaseLocation, lists: &[ErasureList]) -> Result<u64> {
    let workspace = Workspace::open_without_agents(place, "restore").await?;
    let applied = apply_erasures(&workspace, lists).await;
    workspace.close_gracefully().await;
    applied
}

/// Removes from a restored database the data that was erased since its backup was made. Returns the number of removed
/// conversations and keys.
async fn apply_erasures(workspace: &Workspace, lists: &[ErasureList]) -> Result<u64> {
    let erased_at = |name: ErasedName| lists.iter().filter_map(|list| list.erased_at(&name)).max();
    let mut tenants = read_all_tenants(&workspace.store).await.map_err(harness::Error::from)?;
    tenants.extend(singletree_server::tenants_with_keys(&workspace.store).await?);
    let documents = Arc::new(workspace.store.clone());
    let (clock, ids, entropy) = (Arc::new(SystemClock), Arc::new(RandomIds), Arc::new(SystemRandomSource));
    let keyring = Keyring::open_offline(documents, clock, ids, entropy, ServerLimits::default().audit_kept);
    let mut count = 0;
    for tenant in &tenants {
        let chat = workspace.chat.of(tenant.clone());
        for session in find_erased_sessions(&workspace.store, tenant, &erased_at).await? {
            delete_when_free(&chat, &session).await?;
            count += 1;
        }
        let keys = keyring.list_keys(tenant, None, KEYS).await?.items;
        if let Some(at) = erased_at(ErasedName::Tenant(tenant.clone())) {
            // A tenant that was used again before the backup was made: the backup holds nothing of before.
            let first =
                workspace.store.read_session_page(tenant, None, 1).await.map_err(harness::Error::from)?;
            let began_anew = keys.iter().any(|key| is_time_after(&key.created_at.0, at));
            if first.sessions.is_empty() && !began_anew {
                singletree_server::erase_tenant(&workspace.store, tenant).await?;
                continue;
            }
        }
        for key in keys {
            if erased_at(ErasedName::Key(tenant.clone(), key.id.clone())).is_some() {
                keyring.revoke_key(tenant, &key.id, BY).await?;
                count += 1;
            }
        }
    }
    Ok(count)
}

/// Deletes a session. A PostgreSQL database was copied with the leases of its servers, and until they have ended nobody can tell
/// whether these servers live.
async fn delete_when_free(chat: &Chat, session: &SessionKey) -> Result<()> {
    for _ in 0..LEASE_SECONDS {
        match chat.session(session.session.as_str()).delete(Some(BY)).await {
            Err(error) if error.category() == "session_moving" => sleep(Duration::from_secs(1)).await,
            deleted => return Ok(deleted.map(drop)?),
        }
    }
    Ok(chat.session(session.session.as_str()).delete(Some(BY)).await.map(drop)?)
}

/// Tells whether a time in RFC 3339 is after another.
fn is_time_after(time: &str, at: Timestamp) -> bool {
    humantime::parse_rfc3339(time).is_ok_and(|time| time > at.to_system_time())
}

/// Lists the sessions of a tenant that were erased. One that was made under the name after that stays.
async fn find_erased_sessions(
    store: &ConversationStore,
    tenant: &TenantId,
    erased_at: &impl Fn(ErasedName) -> Option<Timestamp>,
) -> Result<Vec<SessionKey>> {
    let (mut erased, mut from) = (Vec::new(), None);
    loop {
        let page =
            store.read_session_page(tenant, from.as_ref(), PAGE).await.map_err(harness::Error::from)?;
        for row in page.sessions {
            let subject: Option<&SubjectId> = row.head.subject.as_ref();
            let names =
                [Some(ErasedName::Session(row.key.clone())), Some(ErasedName::Tenant(tenant.clone()))];
            let names = names
                .into_iter()
                .chain([subject.map(|subject| ErasedName::Subject(tenant.clone(), subject.clone()))]);
            let last = names.flatten().filter_map(erased_at).max();
            if last.is_some_and(|last| row.head.created_at <= last) {
                erased.push(row.key);
            }
        }
        from = page.next;
        if from.is_none() {
            return Ok(erased);
        }
    }
}

fn append_to_path(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    name.into()
}

/// Removes the draft that a crashed process left.
fn remove_draft_files(draft: &Path) -> Result<()> {
    let folder = draft.parent().unwrap_or(draft);
    let name = draft.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let of_draft = |it: &fs::DirEntry| it.file_name().to_string_lossy().starts_with(&name);
    let removed = fs::read_dir(folder).and_then(|entries| {
        let mut left = entries.filter_map(io::Result::ok).filter(of_draft);
        left.try_for_each(|item| fs::remove_file(item.path()))
    });
    removed.map_err(|source| Error::Place { doing: "remove", path: draft.to_owned(), source })
}

/// Puts a closed database in its place, for good.
fn publish_database(draft: &Path, to: &Path) -> io::Result<()> {
    // SQLite writes the log into the database when the last connection closes; a log that is left would be lost here.
    if fs::metadata(append_to_path(draft, "-wal")).is_ok_and(|metadata| metadata.len() > 0) {
        return Err(io::Error::other("its log was not written into it"));
    }
    File::open(draft)?.sync_all()?;
    fs::rename(draft, to)?;
    remove_draft_files(draft).map_err(|error| io::Error::other(error.to_string()))?;
    #[cfg(unix)]
    if let Some(folder) = to.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}
