//! Usage of models.

use rusqlite::{Connection, Result, Row, params};
use singletree_durable::{UsageRow, UsageRowQuery};

use super::query_rows_by_index;
use crate::column;

/// Reads the usage of a session or a tenant. The session of a tenant's sum is the empty text.
pub(crate) fn read_model_usage(connection: &Connection, of: &UsageRowQuery) -> Result<Vec<UsageRow>> {
    let (tenant, session) = match of {
        UsageRowQuery::Session(key) => (&key.tenant, key.session.as_str()),
        UsageRowQuery::Tenant(tenant) => (tenant, ""),
    };
    let sql = "SELECT model, calls, prompt_tokens, completion_tokens, cached_tokens, cache_creation_tokens \
        FROM usage WHERE tenant = ? AND session = ? ORDER BY model";
    query_rows_by_index(connection, sql, params![tenant.as_str(), session], usage_from_row)
}

fn usage_from_row(row: &Row<'_>) -> Result<UsageRow> {
    Ok(UsageRow {
        model: row.get(0)?,
        calls: column::read_number(row, 1)?,
        prompt_tokens: column::read_number(row, 2)?,
        completion_tokens: column::read_number(row, 3)?,
        cached_tokens: column::read_number(row, 4)?,
        cache_creation_tokens: column::read_number(row, 5)?,
    })
}
