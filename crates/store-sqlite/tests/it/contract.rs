//! The public suite: every promise, by name.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use singletree_durable::{AuditRow, BoxFuture, Result, SessionId, SessionKey, TenantId};
use singletree_store_sqlite::SqliteStore;
use singletree_store_testing::{ContractClause, ContractStores, StoreFactory, check};

use crate::made::at;

/// Files in a scratch folder; the one that was opened last is the bench's store.
#[derive(Debug)]
struct Files {
    dir: tempfile::TempDir,
    last: Mutex<(u32, Option<SqliteStore>)>,
}

impl Files {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), last: Mutex::default() }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join(format!("{}.db", self.last.lock().unwrap().0))
    }

    async fn stores(&self) -> Result<ContractStores> {
        let store = SqliteStore::open(self.path()).await?;
        self.last.lock().unwrap().1 = Some(store.clone());
        Ok(Self::handles(store))
    }

    fn handles(store: SqliteStore) -> ContractStores {
        let sessions = Arc::new(store.session_store());
        let journal = Arc::new(store);
        let (upkeep, paused, checkpoints) = (journal.clone(), journal.clone(), journal.clone());
        let documents = journal.clone();
        ContractStores { sessions, upkeep, paused, checkpoints, documents, journal }
    }
}

impl StoreFactory for Files {
    fn open(&self) -> BoxFuture<'_, Result<ContractStores>> {
        self.last.lock().unwrap().0 += 1;
        Box::pin(self.stores())
    }

    fn reopen(&self, old: ContractStores) -> BoxFuture<'_, Result<ContractStores>> {
        drop(old);
        Box::pin(async {
            let last = self.last.lock().unwrap().1.take();
            if let Some(store) = last {
                store.close().await;
            }
            self.stores().await
        })
    }

    fn open_beside(&self) -> BoxFuture<'_, Result<ContractStores>> {
        Box::pin(async {
            let first = self.last.lock().unwrap().1.clone().expect("a store was opened");
            Ok(Self::handles(first.open_beside().await?))
        })
    }

    fn audit(&self) -> BoxFuture<'_, Result<Vec<AuditRow>>> {
        Box::pin(async {
            let file = rusqlite::Connection::open(self.path()).unwrap();
            let mut query =
                file.prepare("SELECT at, action, tenant, session, done_by FROM audit ORDER BY id").unwrap();
            let id = |text: String| SessionId::parse(text).unwrap();
            let rows = query.query_map([], |row| {
                let tenant = TenantId::parse(row.get::<_, String>(2)?).unwrap();
                let key = SessionKey::new(tenant, id(row.get(3)?));
                Ok(AuditRow { at: at(row.get(0)?), action: row.get(1)?, key, by: row.get(4)? })
            });
            Ok(rows.unwrap().collect::<rusqlite::Result<_>>().unwrap())
        })
    }
}

#[tokio::test]
async fn the_sqlite_store_keeps_every_promise() {
    let mut broken = Vec::new();
    for &clause in ContractClause::all() {
        broken.extend(check(clause, &Files::new()).await.err().map(|it| it.to_string()));
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
