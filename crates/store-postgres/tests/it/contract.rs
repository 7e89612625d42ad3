//! The public suite: every promise, by name.

use std::error::Error as _;
use std::sync::{Arc, Mutex};

use singletree_durable::{AuditRow, BoxFuture, Result, Timestamp};
use singletree_durable::{SessionId, SessionKey, TenantId};
use singletree_env::Env;
use singletree_store_postgres::{PostgresOptions, PostgresStore};
use singletree_store_testing::{ContractClause, ContractStores, StoreFactory, check};
use tokio_postgres::Client;

use crate::pooler::Pooler;
use crate::server::{Server, open};

/// One database, whose schema is made anew for each clause.
#[derive(Debug)]
struct Databases {
    /// The address of the database: the server's, or a pooler's.
    url: String,
    admin: Client,
    /// Former handles, which behave as processes that do not know yet that their lease has ended.
    former: Mutex<Vec<PostgresStore>>,
    /// The functions of the schema with a fault, which replace those that were made.
    faulty: Option<String>,
}

impl Databases {
    async fn new(server: &Server, name: &str) -> Self {
        let admin = server.database(name).await;
        Self { url: server.url(name), admin, former: Mutex::default(), faulty: None }
    }

    async fn stores(&self) -> ContractStores {
        let store = open(&self.url).await;
        self.former.lock().unwrap().push(store.clone());
        let sessions = Arc::new(store.session_store());
        let journal = Arc::new(store);
        let (upkeep, paused, checkpoints) = (journal.clone(), journal.clone(), journal.clone());
        let documents = journal.clone();
        ContractStores { sessions, upkeep, paused, checkpoints, documents, journal }
    }

    /// Ends the leases of all handles, without their knowledge.
    async fn end_leases(&self) {
        self.admin.batch_execute("DELETE FROM singletree.node").await.unwrap();
    }
}

impl StoreFactory for Databases {
    fn open(&self) -> BoxFuture<'_, Result<ContractStores>> {
        Box::pin(async {
            let former = std::mem::take(&mut *self.former.lock().unwrap());
            for store in former {
                store.close().await;
            }
            self.admin.batch_execute("DROP SCHEMA IF EXISTS singletree CASCADE").await.unwrap();
            let stores = self.stores().await;
            if let Some(functions) = &self.faulty {
                self.admin.batch_execute(functions).await.unwrap();
            }
            Ok(stores)
        })
    }

    fn reopen(&self, old: ContractStores) -> BoxFuture<'_, Result<ContractStores>> {
        drop(old);
        Box::pin(async {
            self.end_leases().await;
            Ok(self.stores().await)
        })
    }

    fn open_beside(&self) -> BoxFuture<'_, Result<ContractStores>> {
        Box::pin(async {
            self.end_leases().await;
            Ok(self.stores().await)
        })
    }

    fn audit(&self) -> BoxFuture<'_, Result<Vec<AuditRow>>> {
        Box::pin(async {
            let sql = "SELECT at, action, tenant, session, done_by FROM singletree.audit ORDER BY id";
            let rows = self.admin.query(sql, &[]).await.unwrap();
            let from_row = |row: &tokio_postgres::Row| AuditRow {
                at: Timestamp::from_millis(row.get(0)),
                action: row.get(1),
                key: SessionKey::new(
                    TenantId::parse(row.get::<_, &str>(2)).unwrap(),
                    SessionId::parse(row.get::<_, &str>(3)).unwrap(),
                ),
                by: row.get(4),
            };
            Ok(rows.iter().map(from_row).collect())
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_postgres_store_keeps_every_promise() {
    let Some(server) = Server::start("the_postgres_store_keeps_every_promise").await else { return };
    check_clauses(ContractClause::all(), &Databases::new(&server, "contract").await).await;
}

async fn check_clauses(clauses: impl IntoIterator<Item = &ContractClause>, factory: &Databases) {
    let mut broken = Vec::new();
    for &clause in clauses {
        broken.extend(check(clause, factory).await.err().map(|it| it.to_string()));
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_keeps_every_promise_behind_a_pooler() {
    let test = "the_store_keeps_every_promise_behind_a_pooler";
    let Some(server) = Server::start(test).await else { return };
    let Some(pooler) = Pooler::start(test, &server).await else { return };
    let direct = Databases::new(&server, "pooled").await;
    let factory = Databases { url: format!("{} pooler=transaction", pooler.url("pooled")), ..direct };
    // Every fourth: the statements are the same, and all of them take most of a minute.
    check_clauses(ContractClause::all().iter().step_by(4), &factory).await;
    // Without the word, statements have names, which another connection does not know, or knows as another statement.
    for access in ["writing", "reading"] {
        let options = PostgresOptions::new(pooler.url("pooled"), Env::from_system()).connections(4);
        let opened = if access == "writing" { options.open().await } else { options.open_read_only().await };
        let said = opened.map(drop).map_err(|error| format!("{}: {:?}", error.category(), error.source()));
        let said = said.expect_err(access);
        assert!(said.starts_with("store_unavailable") && said.contains("pooler=transaction"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_keeps_every_promise_under_a_role_of_one_tenant() {
    let test = "the_store_keeps_every_promise_under_a_role_of_one_tenant";
    let Some(server) = Server::start(test).await else { return };
    let direct = Databases::new(&server, "confined").await;
    direct.admin.batch_execute("CREATE ROLE confined NOLOGIN").await.unwrap();
    let url = format!("{} tenant_role=confined", direct.url);
    let factory = Databases { url, ..direct };
    check_clauses(ContractClause::all(), &factory).await;
    let Some(pooler) = Pooler::start(test, &server).await else { return };
    let url = format!("{} pooler=transaction tenant_role=confined", pooler.url("confined"));
    let factory = Databases { url, ..factory };
    check_clauses(ContractClause::all().iter().step_by(8), &factory).await;
}

/// The functions of the schema.
pub(crate) const FUNCTIONS: &str = include_str!("../../src/schema/functions.sql");

/// Faults: a text of the functions, the text in its place, and a clause that finds it. Those that the handle covers, as long
/// as no statement lands late, are in `cut.rs`.
const FAULTS: &[(&str, &str, ContractClause)] = &[
    ("AND owner = by_owner AND fence = under_fence;", ";", ContractClause::LeaseTaken),
    (
        "fence = CASE WHEN l.owner = by_owner THEN l.fence ELSE nextval('singletree.fence') END",
        "fence = l.fence",
        ContractClause::FenceRises,
    ),
    (
        "PERFORM singletree.check_batch(of_tenant, of_session, own, requirements);",
        "NULL;",
        ContractClause::DecidedOnce,
    ),
    ("IF holds IS NOT TRUE THEN", "IF holds IS FALSE THEN", ContractClause::RequireNewestTurn),
    (
        "WHERE i.session = sid AND i.no = (p->>'item')::bigint AND i.seq IS NULL;",
        "WHERE i.session = sid AND i.no = (p->>'item')::bigint;",
        ContractClause::PlaceOnce,
    ),
    ("WHERE s.id = made AND f.tenant = of_tenant AND", "WHERE FALSE AND", ContractClause::NumbersGoOn),
    (
        "next_turn = greatest(s.next_turn, (counters->>'turns')::bigint)",
        "next_turn = (counters->>'turns')::bigint",
        ContractClause::CountersRise,
    ),
    (
        "next_item = greatest(s.next_item, (head->>'items')::bigint)",
        "next_item = s.next_item",
        ContractClause::CountersRise,
    ),
    (
        "\n      AND NOT EXISTS (SELECT 1 FROM singletree.blob_use u WHERE u.tenant = b.tenant AND u.digest = b.digest)",
        "",
        ContractClause::BlobOfSession,
    ),
    (
        "IF other_id IS NULL OR touched <> (p->>'len')::bigint THEN",
        "IF other_id IS NULL THEN",
        ContractClause::InheritWhole,
    ),
    (
        "WHERE w.session = id AND w.status = 'pending' AND w.invocation = of_invocation)",
        "WHERE FALSE)",
        ContractClause::TurnInUse,
    ),
];

// Each fault that is planted in the functions is found: the suite can fail on this store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_suite_finds_faults_in_the_functions_of_the_schema() {
    let Some(server) = Server::start("the_suite_finds_faults_in_the_functions_of_the_schema").await else {
        return;
    };
    let mut factory = Databases::new(&server, "faults").await;
    let mut missed = Vec::new();
    for (text, fault, clause) in FAULTS {
        assert!(FUNCTIONS.contains(text), "the functions have no {text:?}");
        factory.faulty = Some(FUNCTIONS.replace(text, fault));
        if check(*clause, &factory).await.is_ok() {
            missed.push(format!("{clause:?} does not find {fault:?} instead of {text:?}"));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}
