//! Names of deleted sessions, and of those who deleted them: kept as keyed hashes, so that a file does not tell who
//! they were.
//!
//! The key is drawn when a file comes to format version 4, and stands in the file: the hash hides names from those who
//! read the tables, and lets those who know a name find its row.

use rusqlite::{Connection, Result};
use singletree_durable::{SessionKey, TenantId};
use singletree_erasures::hmac_of_texts;

/// The first version of the format that keeps hashes.
const HASHED: i32 = 4;

/// Returns the hash under which a file keeps the name of a deleted session; the name itself where the file is older.
pub(crate) fn hash_session_name(connection: &Connection, key: &SessionKey) -> Result<String> {
    if !names_are_hashed(connection)? {
        return Ok(key.session.as_str().to_owned());
    }
    Ok(hmac_of_texts(&read_name_key(connection)?, &[SESSION, key.tenant.as_str(), key.session.as_str()]))
}

/// Tells whether a file is of a version that keeps hashes, and subjects.
pub(crate) fn names_are_hashed(connection: &Connection) -> Result<bool> {
    connection
        .prepare_cached("PRAGMA user_version")?
        .query_row([], |row| row.get::<_, i32>(0))
        .map(|version| version >= HASHED)
}

/// Returns the hash under which a file keeps who deleted something.
pub(crate) fn hash_actor_name(connection: &Connection, tenant: &TenantId, name: &str) -> Result<String> {
    Ok(hmac_of_texts(&read_name_key(connection)?, &[NAME, tenant.as_str(), name]))
}

const SESSION: &str = "session";
const NAME: &str = "name";

/// Replaces the names that versions before the fourth kept by their hashes.
pub(crate) fn hash_old_names(connection: &Connection) -> Result<()> {
    for (table, column, kind) in
        [("former", "session", SESSION), ("audit", "session", SESSION), ("audit", "done_by", NAME)]
    {
        hash_column_names(connection, table, column, kind)?;
    }
    Ok(())
}

fn hash_column_names(connection: &Connection, table: &str, column: &str, kind: &str) -> Result<()> {
    let name_key = read_name_key(connection)?;
    let select = format!("SELECT DISTINCT tenant, {column} FROM {table} WHERE {column} IS NOT NULL");
    let mut select = connection.prepare(&select)?;
    let names = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let names = names.collect::<Result<Vec<(String, String)>>>()?;
    let update = format!("UPDATE {table} SET {column} = ? WHERE tenant = ? AND {column} = ?");
    let mut update = connection.prepare(&update)?;
    for (tenant, name) in names {
        update.execute([&hmac_of_texts(&name_key, &[kind, &tenant, &name]), &tenant, &name])?;
    }
    Ok(())
}

fn read_name_key(connection: &Connection) -> Result<String> {
    connection.prepare_cached("SELECT name_key FROM meta")?.query_row([], |row| row.get(0))
}
