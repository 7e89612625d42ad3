//! Puts of items.

use singletree_durable::{ItemPlacement, JsonDocument, ListItemRow};

use super::session::name;
use crate::checksum;
use crate::error::{BatchFailure, refused};
use crate::meter::{BoundValue, WriteTransaction};
use crate::number::{packed, stored, stored_opt};

/// Adds an item under a free number; a loose one goes with the record of its turn.
pub(super) fn add(
    scribe: &WriteTransaction<'_>,
    session: i64,
    row: &ListItemRow,
    loose: bool,
) -> Result<(), BatchFailure> {
    let place = row.placement.as_ref();
    let list = place.map(|place| name(scribe, &place.field)).transpose()?;
    let turn = BoundValue::Int(stored(row.turn)?);
    let generation = stored_opt(place.map(|place| place.generation))?;
    let placed: [BoundValue<'_>; 3] =
        [list.into(), generation.into(), stored_opt(place.map(|place| place.seq))?.into()];
    let side = BoundValue::from(row.side.as_ref());
    let lasting = [BoundValue::Int(stored(row.no)?), turn, (&row.body).into()];
    let checksum = checksum::of(&[&lasting, &placed, &[side]]);
    scribe.write(
        "INSERT INTO item (id, turn, list, generation, seq, loose, side, body, checksum) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        &[
            packed(session, row.no)?.into(),
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
pub(super) fn place(
    scribe: &WriteTransaction<'_>,
    session: i64,
    no: u64,
    place: &ItemPlacement,
) -> Result<(), BatchFailure> {
    let placed: [BoundValue<'_>; 3] =
        [name(scribe, &place.field)?.into(), stored(place.generation)?.into(), stored(place.seq)?.into()];
    let change = checksum::change(1, &[BoundValue::Null; 3], &placed);
    let done = scribe.write(
        "UPDATE item SET list = ?, generation = ?, seq = ?, loose = NULL, \
         checksum = (checksum + ?) & 2147483647 WHERE id = ? AND seq IS NULL",
        &[placed[0], placed[1], placed[2], change, packed(session, no)?.into()],
    )?;
    if done == 0 {
        return refused(format!("item {no} exists and has no place"));
    }
    Ok(())
}

/// Replaces the side record of an item.
pub(super) fn tell_beside(
    scribe: &WriteTransaction<'_>,
    session: i64,
    no: u64,
    side: &JsonDocument,
) -> Result<(), BatchFailure> {
    let id = BoundValue::Int(packed(session, no)?);
    let held: Option<Option<String>> =
        scribe.find("SELECT side FROM item WHERE id = ?", &[id], |row| row.get(0))?;
    let Some(held) = held else { return refused(format!("item {no} exists")) };
    let change = checksum::change(2, &[held.as_ref().into()], &[side.into()]);
    let sql = "UPDATE item SET side = ?, checksum = (checksum + ?) & 2147483647 WHERE id = ?";
    scribe.write(sql, &[side.into(), change, id]).map(drop)
}
