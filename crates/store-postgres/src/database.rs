//! Connections, and statements with a time limit.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime};
use futures_util::future::join4;
use singletree_durable::{Error, Result};
use singletree_env::Timer;
use tokio_postgres::config::SslMode;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Config, Row, Statement};

use crate::address::{DatabaseAddress, is_on_this_machine};
use crate::connection::{UnconfirmedCommits, WatchedConnections};
use crate::error::{StatementFailure, pool_error, unavailable_error};
use crate::tls::Encryption;

/// How long connecting may take.
const CONNECT_TIME: Duration = Duration::from_secs(10);

/// How long a silent connection is believed: then its peer is asked, and given up when it does not answer.
const KEEPALIVE: Duration = Duration::from_secs(5);

/// How often a write is sent that conflicted with others.
const ATTEMPTS: u32 = 8;

/// Why the answer to a statement counts for nothing.
const NOT_CONFIRMED: &str = "the database stopped waiting for its standby";

/// A parameter of a statement, with its type: no statement has to ask the database for it.
pub(crate) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// Binds a parameter.
pub(crate) fn bind<T: ToSql + Sync>(value: &T, kind: Type) -> Parameter<'_> {
    (value, kind)
}

/// What the connections may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DatabaseAccess {
    /// They read and write.
    Write,
    /// They only read: the database refuses their writes.
    Read,
}

/// The connections to one database.
#[derive(Debug)]
pub(crate) struct Database {
    pool: Pool,
    timer: Arc<dyn Timer>,
    statement_time: Duration,
    /// Whether a pooler gives each transaction another connection of the database, which does not know statements that were
    /// prepared before.
    is_pooled: bool,
    /// The role of statements for one tenant, if the database is to confine them to its rows.
    tenant_role: Option<String>,
    unconfirmed: UnconfirmedCommits,
}

/// A statement that was sent, or could not be.
pub(crate) type StatementResult<T> = std::result::Result<T, StatementFailure>;

impl Database {
    /// Prepares connections; none is made yet. Making one takes at most as long as a statement.
    pub(crate) fn new(
        (url, access): (&str, DatabaseAccess),
        connections: usize,
        timer: Arc<dyn Timer>,
        statement_time: Duration,
    ) -> Result<Self> {
        let doing = "read its address";
        let DatabaseAddress { url, is_pooled, tenant_role } = DatabaseAddress::parse(url)?;
        let mut config = Config::from_str(&url).map_err(|error| unavailable_error(doing, error))?;
        if config.get_ssl_mode() == SslMode::Prefer && is_on_this_machine(&config) {
            config.ssl_mode(SslMode::Disable);
        }
        config
            .connect_timeout(CONNECT_TIME)
            .keepalives_idle(KEEPALIVE)
            .tcp_user_timeout(KEEPALIVE * 4)
            .application_name("singletree");
        // A pooler hands no options on.
        if access == DatabaseAccess::Read && !is_pooled {
            let named = config.get_options().unwrap_or_default().to_owned();
            config.options(format!("{named} -c default_transaction_read_only=on").trim_start());
        }
        let unconfirmed = UnconfirmedCommits::default();
        let manager = Manager::from_connect(
            config,
            WatchedConnections {
                encryption: Encryption::from_system_trust()?,
                unconfirmed: unconfirmed.clone(),
            },
            ManagerConfig { recycling_method: RecyclingMethod::Fast },
        );
        let pool = Pool::builder(manager)
            .max_size(connections)
            .runtime(Runtime::Tokio1)
            .create_timeout(Some(CONNECT_TIME.min(statement_time)))
            .wait_timeout(Some(statement_time))
            .build()
            .map_err(|error| unavailable_error("prepare its connections", error))?;
        Ok(Self { pool, timer, statement_time, is_pooled, tenant_role, unconfirmed })
    }

    /// Takes a connection.
    pub(crate) async fn connect(&self, doing: &'static str) -> Result<Object> {
        self.pool.get().await.map_err(|error| pool_error(error, doing))
    }

    /// Tells whether a pooler gives each transaction another connection.
    pub(crate) fn is_pooled(&self) -> bool {
        self.is_pooled
    }

    /// Closes all connections; later calls fail with `store_closed`.
    pub(crate) fn close(&self) {
        self.pool.close();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.pool.is_closed()
    }

    /// Returns the role of statements for one tenant, if there is one.
    pub(crate) fn tenant_role(&self) -> Option<&str> {
        self.tenant_role.as_deref()
    }

    /// Statements that concern the rows of any tenant, or of none.
    pub(crate) fn of_all_tenants(&self) -> StatementRunner<'_> {
        StatementRunner { database: self, confined: None }
    }

    /// Statements that concern the rows of one tenant.
    pub(crate) fn of_tenant<'a>(&'a self, tenant: &'a str) -> StatementRunner<'a> {
        let confined = self.tenant_role.as_deref().map(|role| ConfinedTo { role, tenant });
        StatementRunner { database: self, confined }
    }

    /// Statements that concern the rows of some tenants: those of one, if all are the same.
    pub(crate) fn of_tenants<'a>(
        &'a self,
        tenants: impl IntoIterator<Item = &'a str>,
    ) -> StatementRunner<'a> {
        let mut tenants = tenants.into_iter();
        match tenants.next() {
            Some(first) if tenants.all(|tenant| tenant == first) => self.of_tenant(first),
            _ => self.of_all_tenants(),
        }
    }
}

/// Whose rows a statement may see and change, as the database is told.
#[derive(Debug, Clone, Copy)]
struct ConfinedTo<'a> {
    role: &'a str,
    tenant: &'a str,
}

impl ConfinedTo<'_> {
    /// Confines the transaction that is under way. If it fails, nothing more runs in that transaction.
    const SQL: &'static str =
        "SELECT set_config('role', $1, true), set_config('singletree.tenant', $2, true)";

    fn parameters(&self) -> [Parameter<'_>; 2] {
        [bind(&self.role, Type::TEXT), bind(&self.tenant, Type::TEXT)]
    }
}

/// Runs statements on a database.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StatementRunner<'a> {
    database: &'a Database,
    /// None where the whole database is open to them.
    confined: Option<ConfinedTo<'a>>,
}

impl StatementRunner<'_> {
    /// Runs one statement, which is prepared once for each connection, or, behind a pooler, sent whole with its values.
    pub(crate) async fn run_statement(
        &self,
        sql: &str,
        parameters: &[Parameter<'_>],
        doing: &'static str,
    ) -> StatementResult<Vec<Row>> {
        let client = self.database.connect(doing).await.map_err(StatementFailure::Failed)?;
        let running = async {
            match self.confined {
                None => self.query(&client, sql, parameters).await,
                Some(confined) => self.query_confined(&client, confined, (sql, parameters)).await,
            }
        };
        let unconfirmed = self.database.unconfirmed.count();
        match self.database.timer.run_with_timeout(self.database.statement_time, running).await {
            Ok(Ok(rows)) if self.database.unconfirmed.count() == unconfirmed => Ok(rows),
            // Perhaps the commit of another statement at the same time.
            Ok(Ok(_)) => Err(StatementFailure::Unknown(NOT_CONFIRMED.into())),
            Ok(Err(error)) => Err(StatementFailure::from_statement(error, doing)),
            Err(elapsed) => {
                // Its answer may still come: nothing else may run on this connection.
                drop(Object::take(client));
                Err(StatementFailure::Unknown(elapsed.into()))
            }
        }
    }

    /// Runs one statement, and then `before_commit`, before the transaction of the statement is committed. Where either
    /// fails nothing is stored.
    pub(crate) async fn run_and_commit_after(
        &self,
        sql: &str,
        parameters: &[Parameter<'_>],
        doing: &'static str,
        before_commit: impl Future<Output = Result<()>>,
    ) -> StatementResult<()> {
        let mut client = self.database.connect(doing).await.map_err(StatementFailure::Failed)?;
        let unconfirmed = self.database.unconfirmed.count();
        let failed = |error| StatementFailure::from_statement(error, doing);
        let running = async {
            // One that is dropped is rolled back.
            let transaction = client.transaction().await.map_err(failed)?;
            if let Some(confined) = self.confined {
                let parameters = confined.parameters();
                transaction.query_typed(ConfinedTo::SQL, &parameters).await.map_err(failed)?;
            }
            transaction.query_typed(sql, parameters).await.map_err(failed)?;
            before_commit.await.map_err(StatementFailure::Failed)?;
            transaction.commit().await.map_err(failed)
        };
        match self.database.timer.run_with_timeout(self.database.statement_time, running).await {
            Ok(Ok(())) if self.database.unconfirmed.count() != unconfirmed => {
                Err(StatementFailure::Unknown(NOT_CONFIRMED.into()))
            }
            Ok(ended) => ended,
            Err(elapsed) => {
                drop(Object::take(client));
                Err(StatementFailure::Unknown(elapsed.into()))
            }
        }
    }

    async fn query(
        &self,
        client: &Object,
        sql: &str,
        parameters: &[Parameter<'_>],
    ) -> std::result::Result<Vec<Row>, tokio_postgres::Error> {
        if self.database.is_pooled {
            return client.query_typed(sql, parameters).await;
        }
        let statement = prepare(client, sql, parameters).await?;
        let values: Vec<&(dyn ToSql + Sync)> = parameters.iter().map(|(value, _)| *value).collect();
        client.query(&statement, &values).await
    }

    /// Runs a statement in a transaction that is confined to the rows of a tenant. All parts are sent at once, in order; after
    /// one that fails the database does nothing of those that follow.
    async fn query_confined(
        &self,
        client: &Object,
        confined: ConfinedTo<'_>,
        (sql, parameters): (&str, &[Parameter<'_>]),
    ) -> std::result::Result<Vec<Row>, tokio_postgres::Error> {
        let names = confined.parameters();
        if !self.database.is_pooled {
            // Prepared before, so that nothing waits between the parts.
            prepare(client, ConfinedTo::SQL, &names).await?;
            prepare(client, sql, parameters).await?;
        }
        let (begun, is_confined, rows, ended) = join4(
            client.batch_execute("BEGIN"),
            self.query(client, ConfinedTo::SQL, &names),
            self.query(client, sql, parameters),
            client.batch_execute("COMMIT"),
        )
        .await;
        begun?;
        is_confined?;
        let rows = rows?;
        ended.map(|()| rows)
    }

    /// Runs a write that is not of a session's batch. One that conflicted with others is tried again; the outcome of one
    /// whose answer was lost is not known.
    pub(crate) async fn write_rows(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<Vec<Row>> {
        const DOING: &str = "write";
        let mut attempt = 1;
        loop {
            match self.run_statement(sql, parameters, DOING).await {
                Ok(rows) => return Ok(rows),
                Err(StatementFailure::Conflict(_)) if attempt < ATTEMPTS => attempt += 1,
                Err(failure) => return Err(failure.into_error(DOING)),
            }
        }
    }

    /// Runs a statement that only reads. One that failed with its connection is tried once more.
    pub(crate) async fn read_rows(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<Vec<Row>> {
        const DOING: &str = "read";
        let first = self.run_statement(sql, parameters, DOING).await;
        let again = match first {
            Ok(rows) => return Ok(rows),
            Err(StatementFailure::Conflict(_) | StatementFailure::Unknown(_)) => {
                self.run_statement(sql, parameters, DOING).await
            }
            Err(failure) => Err(failure),
        };
        again.map_err(|failure| match failure.into_error(DOING) {
            // A parameter that no column can hold is found nowhere, but it is no precondition of a write.
            Error::Refused { requirement } => unavailable_error(DOING, requirement),
            other => other,
        })
    }
}

/// Prepares a statement, once for each connection.
async fn prepare(
    client: &Object,
    sql: &str,
    parameters: &[Parameter<'_>],
) -> std::result::Result<Statement, tokio_postgres::Error> {
    let types: Vec<Type> = parameters.iter().map(|(_, kind)| kind.clone()).collect();
    client.prepare_typed_cached(sql, &types).await
}
