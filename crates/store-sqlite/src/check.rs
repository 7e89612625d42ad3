//! Whether the file itself is whole: what SQLite can say about it.

use rusqlite::{Connection, Result};

/// Checks pages, indexes and constraints, then that every row hangs on one that is there. Returns what is wrong, in
/// SQLite's words.
pub(crate) fn check(connection: &Connection) -> Result<Vec<String>> {
    let mut pages = connection.prepare("PRAGMA integrity_check")?;
    let pages = pages.query_map([], |row| row.get::<_, String>(0))?;
    let mut found: Vec<String> = pages.collect::<Result<_>>()?;
    found.retain(|it| it != "ok");
    let mut keys = connection.prepare("PRAGMA foreign_key_check")?;
    let keys = keys.query_map([], |row| {
        let (table, row_id, parent): (String, Option<i64>, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let row_id = row_id.map_or_else(|| "a row".to_owned(), |it| format!("row {it}"));
        Ok(format!("{row_id} of {table} refers to a row of {parent} that is missing"))
    })?;
    found.extend(keys.collect::<Result<Vec<_>>>()?);
    Ok(found)
}
