//! Items.

use rusqlite::{Connection, Params, Result, Row, params};
use singletree_durable::{ItemPlacement, ItemRange, ListItemRow, SessionKey};

use super::{query_rows_by_index, query_rows_by_sweep};
use crate::column;
use crate::number::{to_packed_bound, to_query_bound};

macro_rules! select {
    ($way:literal, $rest:literal) => {
        concat!(
            "SELECT i.no, i.turn, n.text, i.generation, i.seq, i.body, i.side FROM session s CROSS JOIN item i ",
            $way,
            " LEFT JOIN name n ON n.id = i.list WHERE s.tenant = ?1 AND s.session = ?2 AND ",
            $rest
        )
    };
}

/// Reads a range of items.
pub(crate) fn read_items(
    connection: &Connection,
    key: &SessionKey,
    range: &ItemRange,
) -> Result<Vec<ListItemRow>> {
    let (tenant, session) = (key.tenant.as_str(), key.session.as_str());
    let bound = to_query_bound;
    match range {
        // The longest read: values that are the same in all rows are not read row by row.
        ItemRange::List { field, generation, from, limit } => query_rows_by_index(
            connection,
            "SELECT no, turn, seq, body, side FROM item INDEXED BY item_place \
             WHERE session = (SELECT id FROM session WHERE tenant = ?1 AND session = ?2) \
             AND list = (SELECT id FROM name WHERE text = ?3) AND generation = ?4 AND seq >= ?5 ORDER BY seq LIMIT ?6",
            params![tenant, session, field, bound(*generation), bound(*from), bound(*limit)],
            |row| {
                let seq = column::read_number(row, 2)?;
                Ok(ListItemRow {
                    no: column::read_number(row, 0)?,
                    turn: column::read_number(row, 1)?,
                    placement: Some(ItemPlacement { field: field.clone(), generation: *generation, seq }),
                    body: column::read_json(row, 3)?,
                    side: column::read_optional_json(row, 4)?,
                })
            },
        ),
        ItemRange::Page { field, generation, from, limit, bytes } => read_page_by_bytes(
            connection,
            "SELECT no, turn, seq, body, side FROM item INDEXED BY item_place \
             WHERE session = (SELECT id FROM session WHERE tenant = ?1 AND session = ?2) \
             AND list = (SELECT id FROM name WHERE text = ?3) AND generation = ?4 AND seq >= ?5 ORDER BY seq LIMIT ?6",
            params![tenant, session, field, bound(*generation), bound(*from), bound(*limit)],
            (field, *generation, *bytes),
        ),
        ItemRange::PageBefore { field, generation, before, limit, bytes } => {
            let mut rows = read_page_by_bytes(
                connection,
                "SELECT no, turn, seq, body, side FROM item INDEXED BY item_place \
                 WHERE session = (SELECT id FROM session WHERE tenant = ?1 AND session = ?2) \
                 AND list = (SELECT id FROM name WHERE text = ?3) AND generation = ?4 AND seq < ?5 \
                 ORDER BY seq DESC LIMIT ?6",
                params![tenant, session, field, bound(*generation), bound(*before), bound(*limit)],
                (field, *generation, *bytes),
            )?;
            rows.reverse();
            Ok(rows)
        }
        ItemRange::Numbers { from, to } => query_rows_by_index(
            connection,
            select!("NOT INDEXED", "i.id >= (s.id << 32) + ?3 AND i.id < (s.id << 32) + ?4 ORDER BY i.id"),
            params![tenant, session, to_packed_bound(*from), to_packed_bound(*to)],
            item_from_row,
        ),
        // Through all items of the session: nothing that a turn waits for asks this.
        ItemRange::Turn(turn) => query_rows_by_sweep(
            connection,
            select!(
                "NOT INDEXED",
                "i.id >= s.id << 32 AND i.id < (s.id + 1) << 32 AND i.turn = ?3 ORDER BY i.id"
            ),
            params![tenant, session, to_query_bound(*turn)],
            item_from_row,
        ),
    }
}

/// Runs a query on one list and reads rows until they have so many bytes together.
fn read_page_by_bytes(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    (field, generation, bytes): (&str, u64, u64),
) -> Result<Vec<ListItemRow>> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut found = statement.query(params)?;
    let (mut rows, mut read) = (Vec::new(), 0);
    while let Some(row) = found.next()? {
        let seq = column::read_number(row, 2)?;
        let item = ListItemRow {
            no: column::read_number(row, 0)?,
            turn: column::read_number(row, 1)?,
            placement: Some(ItemPlacement { field: field.to_owned(), generation, seq }),
            body: column::read_json(row, 3)?,
            side: column::read_optional_json(row, 4)?,
        };
        read += item.count_bytes();
        rows.push(item);
        if read >= bytes {
            break;
        }
    }
    Ok(rows)
}

fn item_from_row(row: &Row<'_>) -> Result<ListItemRow> {
    let placement = match row.get::<_, Option<String>>(2)? {
        None => None,
        Some(field) => Some(ItemPlacement {
            field,
            generation: column::read_number(row, 3)?,
            seq: column::read_number(row, 4)?,
        }),
    };
    Ok(ListItemRow {
        no: column::read_number(row, 0)?,
        turn: column::read_number(row, 1)?,
        placement,
        body: column::read_json(row, 5)?,
        side: column::read_optional_json(row, 6)?,
    })
}
