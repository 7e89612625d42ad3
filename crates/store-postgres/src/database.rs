//! Connections, and statements with a time limit.

use std::borrow::Cow;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime};
use singletree_durable::{Error, Result};
use singletree_env::Timer;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Config, Row};

use crate::connection::{UnconfirmedCommits, WatchedConnections};
use crate::error::{StatementFailure, pool_error, unavailable_error};
use crate::tls::Encryption;

/// How long connecting may take.
const CONNECT_TIME: Duration = Duration::from_secs(10);

/// How long a silent connection is believed: then its peer is asked, and given up when it does not answer.
const KEEPALIVE: Duration = Duration::from_secs(5);

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
    unconfirmed: UnconfirmedCommits,
}

/// The parameter of an address that tells of such a pooler.
const POOLED: &str = "pooler=transaction";

/// Takes the parameter out of an address; tells whether it was there. Any other pooler is the driver's to refuse.
fn take_pooler(url: &str) -> (Cow<'_, str>, bool) {
    if let Some((place, query)) = url.split_once('?').filter(|(place, _)| place.contains("://")) {
        let rest: Vec<&str> = query.split('&').filter(|pair| *pair != POOLED).collect();
        let is_pooled = rest.len() < query.split('&').count();
        let mark = if rest.is_empty() { "" } else { "?" };
        return (Cow::Owned(format!("{place}{mark}{}", rest.join("&"))), is_pooled);
    }
    // A list of parameters.
    match url.strip_suffix(POOLED).filter(|rest| rest.ends_with(' ')) {
        Some(rest) => (Cow::Borrowed(rest), true),
        None => (Cow::Borrowed(url), false),
    }
}

/// Tells whether all connections stay on this machine: they need no encryption, and a certificate that a package made
/// for the server proves nothing.
fn is_on_this_machine(config: &Config) -> bool {
    let is_local = |host: &Host| match host {
        Host::Tcp(name) => {
            name.eq_ignore_ascii_case("localhost")
                || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    };
    let named = config.get_hostaddrs();
    config.get_hosts().iter().all(is_local) && named.iter().all(IpAddr::is_loopback)
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
        let (url, is_pooled) = take_pooler(url);
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
        Ok(Self { pool, timer, statement_time, is_pooled, unconfirmed })
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

    /// Runs one statement, which is prepared once for each connection, or, behind a pooler, sent whole with its values.
    pub(crate) async fn run_statement(
        &self,
        sql: &str,
        parameters: &[Parameter<'_>],
        doing: &'static str,
    ) -> StatementResult<Vec<Row>> {
        let client = self.connect(doing).await.map_err(StatementFailure::Failed)?;
        self.run_on_connection(client, sql, parameters, doing).await
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
        let mut client = self.connect(doing).await.map_err(StatementFailure::Failed)?;
        let unconfirmed = self.unconfirmed.count();
        let failed = |error| StatementFailure::from_statement(error, doing);
        let running = async {
            let typed: Vec<_> = parameters.iter().map(|(value, kind)| (*value, kind.clone())).collect();
            // One that is dropped is rolled back.
            let transaction = client.transaction().await.map_err(failed)?;
            transaction.query_typed(sql, &typed).await.map_err(failed)?;
            before_commit.await.map_err(StatementFailure::Failed)?;
            transaction.commit().await.map_err(failed)
        };
        match self.timer.run_with_timeout(self.statement_time, running).await {
            Ok(Ok(())) if self.unconfirmed.count() != unconfirmed => {
                Err(StatementFailure::Unknown(NOT_CONFIRMED.into()))
            }
            Ok(ended) => ended,
            Err(elapsed) => {
                drop(Object::take(client));
                Err(StatementFailure::Unknown(elapsed.into()))
            }
        }
    }

    async fn run_on_connection(
        &self,
        client: Object,
        sql: &str,
        parameters: &[Parameter<'_>],
        doing: &'static str,
    ) -> StatementResult<Vec<Row>> {
        let unconfirmed = self.unconfirmed.count();
        let running = async {
            if self.is_pooled {
                let typed: Vec<_> = parameters.iter().map(|(value, kind)| (*value, kind.clone())).collect();
                return client.query_typed(sql, &typed).await;
            }
            let types: Vec<Type> = parameters.iter().map(|(_, kind)| kind.clone()).collect();
            let values: Vec<&(dyn ToSql + Sync)> = parameters.iter().map(|(value, _)| *value).collect();
            let statement = client.prepare_typed_cached(sql, &types).await?;
            client.query(&statement, &values).await
        };
        match self.timer.run_with_timeout(self.statement_time, running).await {
            Ok(Ok(rows)) if self.unconfirmed.count() == unconfirmed => Ok(rows),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_whether_a_pooler_is_in_between() {
        for (url, expected) in [
            ("postgres://u@h/d?pooler=transaction", ("postgres://u@h/d", true)),
            (
                "postgres://u@h/d?sslmode=require&pooler=transaction&port=1",
                ("postgres://u@h/d?sslmode=require&port=1", true),
            ),
            ("postgres://u@h/d?sslmode=require", ("postgres://u@h/d?sslmode=require", false)),
            ("postgres://u@h/d?pooler=session", ("postgres://u@h/d?pooler=session", false)),
            ("host=h dbname=d pooler=transaction", ("host=h dbname=d ", true)),
            ("host=h dbname=d", ("host=h dbname=d", false)),
        ] {
            let (rest, is_pooled) = take_pooler(url);
            assert_eq!((rest.as_ref(), is_pooled), expected, "{url}");
        }
        Config::from_str("postgres://u@h/d?pooler=session").unwrap_err();
    }

    #[test]
    fn only_addresses_of_this_machine_need_no_encryption() {
        let check = |url: &str, is_local: bool| {
            assert_eq!(is_on_this_machine(&Config::from_str(url).unwrap()), is_local, "{url}");
        };
        check("postgres://u@127.0.0.1/d", true);
        check("postgres://u@LOCALHOST:5433/d", true);
        check("postgres://u@[::1]/d", true);
        check("postgres:///d?host=/run/postgresql", true);
        check("postgres://u@127.0.0.1,10.0.0.1/d", false);
        check("postgres://u@10.0.0.1/d", false);
        check("postgres://u@localhost.example.com/d", false);
        check("host=localhost hostaddr=10.0.0.1", false);
    }
}
