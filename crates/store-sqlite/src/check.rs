//! Whether the file is as SQLite and the schema say it must be.

use std::path::Path;

use rusqlite::{Connection, Result as Found};
use singletree_durable::Result;

use crate::checksum;
use crate::error::translate_error;
use crate::format::{self, BLOB_ACCOUNTS, CHECKED, SHELF};
use crate::{SqliteStore, open};

/// Something in the file that nobody here could have written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Damage {
    /// The file contradicts itself: a page, an index or a constraint (`PRAGMA integrity_check`).
    Integrity(String),
    /// A row refers to a row that does not exist: the `table` and the missing reference.
    Reference(String),
    /// A row does not have the values that were written: its table and its name. Rows that a repair does not touch stay
    /// as they are.
    Changed(String),
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Integrity(what) => f.write_str(what),
            Self::Reference(what) => write!(f, "a row refers to one that is not there: {what}"),
            Self::Changed(what) => write!(f, "a row does not have the values that were written: {what}"),
        }
    }
}

/// How many damages of a kind are listed.
const LISTED: u32 = 100;

impl SqliteStore {
    /// Goes through the whole file and returns the damage found, at most a hundred findings of each kind; an empty list
    /// for a sound file. Other relations between rows are not checked.
    ///
    /// Others go on reading and writing. Takes time in proportion to the file.
    ///
    /// # Errors
    /// `store_corrupt` when the damage is such that the file cannot even be gone through, `store_unavailable`,
    /// `store_closed`.
    ///
    /// # Cancellation
    /// A dropped check runs to its end; nothing is left behind.
    pub async fn find_damage(&self) -> Result<Vec<Damage>> {
        let work = |path: &Path| {
            let mut connection = open::open_inspector(path)?;
            collect_damage(&mut connection).map_err(|error| translate_error(error, DOING))
        };
        self.run_on_own_thread(DOING, work).await
    }
}

impl SqliteStore {
    /// Returns how many rows have no checksum, since an older version of this crate wrote them and nobody has since: a
    /// change of those cannot be found. None for a file in an older format, in which no row has one.
    ///
    /// # Errors
    /// As [`Self::find_damage`].
    ///
    /// # Cancellation
    /// As [`Self::find_damage`].
    pub async fn count_unchecked_rows(&self) -> Result<Option<u64>> {
        let work = |path: &Path| {
            let count = |connection: &mut Connection| {
                let snapshot = connection.transaction()?;
                if format::read_metadata(&snapshot)?.version < CHECKED {
                    return Ok(None);
                }
                checksum::verify_rows(&snapshot, 0).map(|verified| Some(verified.unchecked))
            };
            count(&mut open::open_inspector(path)?).map_err(|error| translate_error(error, DOING))
        };
        self.run_on_own_thread(DOING, work).await
    }
}

const DOING: &str = "check its file";

fn collect_damage(connection: &mut Connection) -> Found<Vec<Damage>> {
    let snapshot = connection.transaction()?;
    let mut found = check_integrity(&snapshot)?;
    found.extend(check_references(&snapshot)?);
    if format::read_metadata(&snapshot)?.version >= CHECKED {
        found.extend(check_usage_sums(&snapshot)?);
        let changed = checksum::verify_rows(&snapshot, LISTED as usize)?.changed;
        found.extend(changed.into_iter().map(Damage::Changed));
    }
    Ok(found)
}

fn check_integrity(snapshot: &Connection) -> Found<Vec<Damage>> {
    let mut query = snapshot.prepare(&format!("PRAGMA integrity_check({LISTED})"))?;
    let lines: Vec<String> = query.query_map([], |row| row.get(0))?.collect::<Found<_>>()?;
    Ok(lines.into_iter().filter(|line| line != "ok").map(Damage::Integrity).collect())
}

fn check_references(snapshot: &Connection) -> Found<Vec<Damage>> {
    let mut found = Vec::new();
    let mut query = snapshot.prepare(
        "SELECT \"table\" || ': no ' || parent || ' for ' || count(*) || ' rows' \
         FROM pragma_foreign_key_check GROUP BY \"table\", parent",
    )?;
    let lines: Vec<String> = query.query_map([], |row| row.get(0))?.collect::<Found<_>>()?;
    found.extend(lines.into_iter().map(Damage::Reference));
    for (table, column, parent) in UNDECLARED {
        let sql = format!(
            "SELECT DISTINCT '{table}: no {parent} ' || ({column}) FROM {table} \
             WHERE ({column}) NOT IN (SELECT id FROM {parent}) LIMIT {LISTED}"
        );
        let lines: Vec<String> =
            snapshot.prepare(&sql)?.query_map([], |row| row.get(0))?.collect::<Found<_>>()?;
        found.extend(lines.into_iter().map(Damage::Reference));
    }
    if format::read_metadata(snapshot)?.version < SHELF {
        return Ok(found);
    }
    let unkept = "SELECT 'blob_use: no blob ' || digest FROM blob_use \
        WHERE (tenant, digest) NOT IN (SELECT tenant, digest FROM blob) LIMIT 100";
    let lines: Vec<String> =
        snapshot.prepare(unkept)?.query_map([], |row| row.get(0))?.collect::<Found<_>>()?;
    found.extend(lines.into_iter().map(Damage::Reference));
    if format::read_metadata(snapshot)?.version >= BLOB_ACCOUNTS {
        let lines: Vec<String> =
            snapshot.prepare(MISCOUNTED)?.query_map([], |row| row.get(0))?.collect::<Found<_>>()?;
        found.extend(lines.into_iter().map(Damage::Reference));
    }
    Ok(found)
}

/// Compares the usage of each tenant with the sum of its sessions. It may be greater, because it includes deleted
/// sessions.
fn check_usage_sums(snapshot: &Connection) -> Found<Vec<Damage>> {
    let sql = "SELECT DISTINCT 'usage: ' || s.tenant || ' has used less of ' || s.model || ' than its sessions' \
        FROM (SELECT tenant, model, sum(calls) AS calls FROM usage WHERE session <> '' GROUP BY tenant, model) s \
        LEFT JOIN usage t ON t.tenant = s.tenant AND t.session = '' AND t.model = s.model \
        WHERE coalesce(t.calls, -1) < s.calls LIMIT 100";
    let lines: Vec<String> = snapshot.prepare(sql)?.query_map([], |row| row.get(0))?.collect::<Found<_>>()?;
    Ok(lines.into_iter().map(Damage::Changed).collect())
}

/// Blob accounts that differ from the sizes of their blobs. The bytes themselves are not read.
const MISCOUNTED: &str = "SELECT 'blob_account: ' || tenant || ' ' || holder || ' says ' || sum(said) || ', and the blobs have ' \
    || sum(found) FROM (SELECT tenant, holder, bytes AS said, 0 AS found FROM blob_account \
    UNION ALL SELECT tenant, '', 0, length(bytes) FROM blob \
    UNION ALL SELECT tenant, holder, 0, length(bytes) FROM blob WHERE holder <> '') \
    GROUP BY tenant, holder HAVING sum(said) <> sum(found) LIMIT 100";

/// References that the schema does not declare as foreign keys: table, column, table it refers to by id.
const UNDECLARED: &[(&str, &str, &str)] = &[
    ("item", "session", "session"),
    ("item", "list", "name"),
    ("turn", "session", "session"),
    ("turn", "agent", "name"),
    ("turn", "graph", "name"),
    ("wait", "session", "session"),
    ("event", "session", "session"),
    ("event", "kind", "name"),
    ("checkpoint_position", "checkpoint", "checkpoint"),
    ("session", "agent", "name"),
    ("session", "graph", "name"),
];
