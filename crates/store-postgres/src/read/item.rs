//! Items and events.

use singletree_durable::{EventRow, ItemPlacement, ItemRange, ListItemRow, Result, SessionKey, Timestamp};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::{read_json, read_number, read_optional_json, read_optional_number, to_bound};
use crate::database::{Parameter, StatementRunner, bind};
use crate::store::PostgresStoreInner;

const COLUMNS: &str = "i.no, i.turn, i.list, i.generation, i.seq, i.body, i.side";

/// The session of a query whose first parameters are its tenant and its name.
const OF_SESSION: &str =
    "i.session = (SELECT s.id FROM singletree.session s WHERE s.tenant = $1 AND s.session = $2)";

const OF_LIST: &str = "i.list = $3 AND i.generation = $4";

impl PostgresStoreInner {
    /// Reads a range of items.
    pub(crate) async fn read_items(&self, key: &SessionKey, range: &ItemRange) -> Result<Vec<ListItemRow>> {
        let (tenant, session) = (key.tenant.as_str(), key.session.as_str());
        let name = [bind(&tenant, Type::TEXT), bind(&session, Type::TEXT)];
        let statements = self.database.of_tenant(tenant);
        match range {
            ItemRange::List { field, generation, from, limit } => {
                let numbers = [to_bound(*generation), to_bound(*from), to_bound(*limit)];
                let sql = format!(
                    "SELECT {COLUMNS} FROM singletree.item i \
                     WHERE {OF_SESSION} AND {OF_LIST} AND i.seq >= $5 ORDER BY i.seq LIMIT $6"
                );
                let rows = statements.read_rows(&sql, &list_parameters(name, field, &numbers)).await?;
                rows.iter().map(item_from_row).collect()
            }
            ItemRange::Page { field, generation, from, limit, bytes } => {
                let numbers = [to_bound(*generation), to_bound(*from), to_bound(*limit)];
                read_page(statements, (">=", "ASC"), list_parameters(name, field, &numbers), *bytes).await
            }
            ItemRange::PageBefore { field, generation, before, limit, bytes } => {
                let numbers = [to_bound(*generation), to_bound(*before), to_bound(*limit)];
                read_page(statements, ("<", "DESC"), list_parameters(name, field, &numbers), *bytes).await
            }
            ItemRange::Numbers { from, to } => {
                let (from, to) = (to_bound(*from), to_bound(*to));
                let [tenant, session] = name;
                let parameters = [tenant, session, bind(&from, Type::INT8), bind(&to, Type::INT8)];
                let sql = format!(
                    "SELECT {COLUMNS} FROM singletree.item i \
                     WHERE {OF_SESSION} AND i.no >= $3 AND i.no < $4 ORDER BY i.no"
                );
                statements.read_rows(&sql, &parameters).await?.iter().map(item_from_row).collect()
            }
            ItemRange::Turn(turn) => {
                let turn = to_bound(*turn);
                let [tenant, session] = name;
                let sql = format!(
                    "SELECT {COLUMNS} FROM singletree.item i \
                     WHERE {OF_SESSION} AND i.turn = $3 ORDER BY i.no"
                );
                let parameters = [tenant, session, bind(&turn, Type::INT8)];
                statements.read_rows(&sql, &parameters).await?.iter().map(item_from_row).collect()
            }
        }
    }

    /// Reads events from a sequence number on.
    pub(crate) async fn read_events(&self, key: &SessionKey, from: u64, limit: u64) -> Result<Vec<EventRow>> {
        let (tenant, session) = (key.tenant.as_str(), key.session.as_str());
        let (from, limit) = (to_bound(from), to_bound(limit));
        let sql = format!(
            "SELECT i.seq, i.turn, i.kind, i.item, i.at, i.body FROM singletree.event i \
             WHERE {OF_SESSION} AND i.seq >= $3 ORDER BY i.seq LIMIT $4"
        );
        let parameters = [
            bind(&tenant, Type::TEXT),
            bind(&session, Type::TEXT),
            bind(&from, Type::INT8),
            bind(&limit, Type::INT8),
        ];
        let rows = self.database.of_tenant(tenant).read_rows(&sql, &parameters).await?;
        rows.iter().map(|row| event_from_row(row, 0)).collect()
    }
}

/// Reads a page of a list in a direction, until its items have so many bytes together; ordered by sequence number.
async fn read_page(
    statements: StatementRunner<'_>,
    (comparison, order): (&str, &str),
    list: [Parameter<'_>; 6],
    bytes: u64,
) -> Result<Vec<ListItemRow>> {
    let bytes = to_bound(bytes);
    let sql = format!(
        "SELECT {COLUMNS} FROM (\
           SELECT i.*, sum(octet_length(i.body) + coalesce(octet_length(i.side), 0)) OVER (\
             ORDER BY i.seq {order} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before \
           FROM (SELECT i.* FROM singletree.item i \
             WHERE {OF_SESSION} AND {OF_LIST} AND i.seq {comparison} $5 ORDER BY i.seq {order} LIMIT $6) i) i \
         WHERE i.before IS NULL OR i.before < $7 ORDER BY i.seq"
    );
    let [tenant, session, field, generation, place, limit] = list;
    let parameters = [tenant, session, field, generation, place, limit, bind(&bytes, Type::INT8)];
    statements.read_rows(&sql, &parameters).await?.iter().map(item_from_row).collect()
}

fn list_parameters<'a>(
    [tenant, session]: [Parameter<'a>; 2],
    field: &'a String,
    [generation, place, limit]: &'a [i64; 3],
) -> [Parameter<'a>; 6] {
    [
        tenant,
        session,
        bind(field, Type::TEXT),
        bind(generation, Type::INT8),
        bind(place, Type::INT8),
        bind(limit, Type::INT8),
    ]
}

fn item_from_row(row: &Row) -> Result<ListItemRow> {
    let placement = match row.get::<_, Option<String>>(2) {
        None => None,
        Some(field) => {
            Some(ItemPlacement { field, generation: read_number(row, 3)?, seq: read_number(row, 4)? })
        }
    };
    Ok(ListItemRow {
        no: read_number(row, 0)?,
        turn: read_number(row, 1)?,
        placement,
        body: read_json(row, 5),
        side: read_optional_json(row, 6),
    })
}

/// Reads an event whose columns begin with this one.
pub(crate) fn event_from_row(row: &Row, first: usize) -> Result<EventRow> {
    Ok(EventRow {
        seq: read_number(row, first)?,
        turn: read_number(row, first + 1)?,
        kind: row.get(first + 2),
        item: read_optional_number(row, first + 3)?,
        at: Timestamp::from_millis(row.get(first + 4)),
        body: read_optional_json(row, first + 5),
    })
}
