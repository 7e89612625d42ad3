//! Items.

use rusqlite::{Connection, Result, Row, params};
use singletree_durable::{ItemRange, ItemRow, Placement, SessionKey};

use super::all;
use crate::column;
use crate::number::bound;

macro_rules! select {
    ($index:literal, $rest:literal) => {
        concat!(
            "SELECT i.no, i.turn, n.text, i.generation, i.seq, i.body, i.side ",
            "FROM session s JOIN item i INDEXED BY ",
            $index,
            " ON i.session = s.id LEFT JOIN name n ON n.id = i.list WHERE s.tenant = ? AND s.session = ? AND ",
            $rest
        )
    };
}

/// Reads a range of items.
pub(crate) fn range(connection: &Connection, key: &SessionKey, range: &ItemRange) -> Result<Vec<ItemRow>> {
    let (tenant, session) = (key.tenant.as_str(), key.session.as_str());
    match range {
        ItemRange::List { field, generation, from, limit } => all(
            connection,
            select!(
                "item_place",
                "i.list = (SELECT id FROM name WHERE text = ?) AND i.generation = ? AND i.seq >= ? \
                 ORDER BY i.seq LIMIT ?"
            ),
            params![tenant, session, field, bound(*generation), bound(*from), bound(*limit)],
            item,
        ),
        ItemRange::Numbers { from, to } => all(
            connection,
            select!("sqlite_autoindex_item_1", "i.no >= ? AND i.no < ? ORDER BY i.no"),
            params![tenant, session, bound(*from), bound(*to)],
            item,
        ),
        ItemRange::Turn(turn) => all(
            connection,
            select!("item_turn", "i.turn = ? ORDER BY i.no"),
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
