//! Puts of items.

use singletree_durable::{ItemPlacement, JsonDocument, ListItemRow};

use super::session::find_or_add_name;
use crate::checksum;
use crate::error::{BatchFailure, refuse_batch};
use crate::meter::{BoundValue, WriteTransaction};
use crate::number::{pack_row_key, to_stored_number, to_stored_optional};

/// Adds an item under a free number; a loose one goes with the record of its turn.
pub(super) fn insert_item(
    scribe: &WriteTransaction<'_>,
    session: i64,
    row: &ListItemRow,
    loose: bool,
) -> Result<(), BatchFailure> {
    let place = row.placement.as_ref();
    let list = place.map(|place| find_or_add_name(scribe, &place.field)).transpose()?;
    let turn = BoundValue::Int(to_stored_number(row.turn)?);
    let generation = to_stored_optional(place.map(|place| place.generation))?;
    let placed: [BoundValue<'_>; 3] =
        [list.into(), generation.into(), to_stored_optional(place.map(|place| place.seq))?.into()];
    let side = BoundValue::from(row.side.as_ref());
    let lasting = [BoundValue::Int(to_stored_number(row.no)?), turn, (&row.body).into()];
    let checksum = checksum::checksum_of_parts(&[&lasting, &placed, &[side]]);
    scribe.execute_write(
        "INSERT INTO item (id, turn, list, generation, seq, loose, side, body, checksum) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        &[
            pack_row_key(session, row.no)?.into(),
            turn,
            placed[0],
            placed[1],
            placed[2],
            loose.then_some(BoundValue::Int(1)).into(),
            side,
            (&row.body).into(),
            checksum,
        ],
    )?;
    Ok(())
}

/// Gives an item, which has none, its place.
pub(super) fn place_item(
    scribe: &WriteTransaction<'_>,
    session: i64,
    no: u64,
    place: &ItemPlacement,
) -> Result<(), BatchFailure> {
    let placed: [BoundValue<'_>; 3] = [
        find_or_add_name(scribe, &place.field)?.into(),
        to_stored_number(place.generation)?.into(),
        to_stored_number(place.seq)?.into(),
    ];
    let change = checksum::difference_of_part(1, &[BoundValue::Null; 3], &placed);
    let done = scribe.execute_write(
        "UPDATE item SET list = ?, generation = ?, seq = ?, loose = NULL, \
         checksum = (checksum + ?) & 2147483647 WHERE id = ? AND seq IS NULL",
        &[placed[0], placed[1], placed[2], change, pack_row_key(session, no)?.into()],
    )?;
    if done == 0 {
        return refuse_batch(format!("item {no} exists and has no place"));
    }
    Ok(())
}

/// Replaces the side record of an item.
pub(super) fn replace_side_record(
    scribe: &WriteTransaction<'_>,
    session: i64,
    no: u64,
    side: &JsonDocument,
) -> Result<(), BatchFailure> {
    let id = BoundValue::Int(pack_row_key(session, no)?);
    let held: Option<Option<String>> =
        scribe.query_one_row("SELECT side FROM item WHERE id = ?", &[id], |row| row.get(0))?;
    let Some(held) = held else { return refuse_batch(format!("item {no} exists")) };
    let change = checksum::difference_of_part(2, &[held.as_ref().into()], &[side.into()]);
    let sql = "UPDATE item SET side = ?, checksum = (checksum + ?) & 2147483647 WHERE id = ?";
    scribe.execute_write(sql, &[side.into(), change, id]).map(drop)
}
