//! Items.

use rusqlite::{Connection, Result, Row, params};
use singletree_durable::{ItemRange, ItemRow, Placement, SessionKey};

use super::{all, sweep};
use crate::column;
use crate::number::{bound, within};

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
pub(crate) fn range(connection: &Connection, key: &SessionKey, range: &ItemRange) -> Result<Vec<ItemRow>> {
    let (tenant, session) = (key.tenant.as_str(), key.session.as_str());
    match range {
        // The longest read there is: of what is the same in all rows, nothing is read row by row.
        ItemRange::List { field, generation, from, limit } => all(
            connection,
            "SELECT no, turn, seq, body, side FROM item INDEXED BY item_place \
             WHERE session = (SELECT id FROM session WHERE tenant = ?1 AND session = ?2) \
             AND list = (SELECT id FROM name WHERE text = ?3) AND generation = ?4 AND seq >= ?5 ORDER BY seq LIMIT ?6",
            params![tenant, session, field, bound(*generation), bound(*from), bound(*limit)],
            |row| {
                let seq = column::number(row, 2)?;
                Ok(ItemRow {
                    no: column::number(row, 0)?,
                    turn: column::number(row, 1)?,
                    placement: Some(Placement { field: field.clone(), generation: *generation, seq }),
                    body: column::json(row, 3)?,
                    side: column::json_opt(row, 4)?,
                })
            },
        ),
        ItemRange::Numbers { from, to } => all(
            connection,
            select!("NOT INDEXED", "i.id >= (s.id << 32) + ?3 AND i.id < (s.id << 32) + ?4 ORDER BY i.id"),
            params![tenant, session, within(*from), within(*to)],
            item,
        ),
        // Through all items of the session: nothing that a turn waits for asks this.
        ItemRange::Turn(turn) => sweep(
            connection,
            select!(
                "NOT INDEXED",
                "i.id >= s.id << 32 AND i.id < (s.id + 1) << 32 AND i.turn = ?3 ORDER BY i.id"
            ),
            params![tenant, session, bound(*turn)],
            item,
        ),
    }
}

fn item(row: &Row<'_>) -> Result<ItemRow> {
    let placement = match row.get::<_, Option<String>>(2)? {
        None => None,
        Some(field) => {
            Some(Placement { field, generation: column::number(row, 3)?, seq: column::number(row, 4)? })
        }
    };
    Ok(ItemRow {
        no: column::number(row, 0)?,
        turn: column::number(row, 1)?,
        placement,
        body: column::json(row, 5)?,
        side: column::json_opt(row, 6)?,
    })
}
