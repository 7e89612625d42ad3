//! Puts of items.

use singletree_durable::{ItemRow, Json, Placement};

use super::session::name;
use crate::error::{Failure, refused};
use crate::meter::{Bind, Scribe};
use crate::number::{packed, stored, stored_opt};

/// Adds an item under a free number; a loose one goes with the record of its turn.
pub(super) fn add(scribe: &Scribe<'_>, session: i64, row: &ItemRow, loose: bool) -> Result<(), Failure> {
    let place = row.placement.as_ref();
    let list = place.map(|it| name(scribe, &it.field)).transpose()?;
    scribe.write(
        "INSERT INTO item (id, turn, list, generation, seq, loose, side, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        &[
            packed(session, row.no)?.into(),
            stored(row.turn)?.into(),
            list.into(),
            stored_opt(place.map(|it| it.generation))?.into(),
            stored_opt(place.map(|it| it.seq))?.into(),
            loose.then_some(Bind::Int(1)).into(),
            row.side.as_ref().into(),
            (&row.body).into(),
        ],
    )?;
    Ok(())
}

/// Gives an item, which has none, its place.
pub(super) fn place(scribe: &Scribe<'_>, session: i64, no: u64, place: &Placement) -> Result<(), Failure> {
    let placed = scribe.write(
        "UPDATE item SET list = ?, generation = ?, seq = ?, loose = NULL WHERE id = ? AND seq IS NULL",
        &[
            name(scribe, &place.field)?.into(),
            stored(place.generation)?.into(),
            stored(place.seq)?.into(),
            packed(session, no)?.into(),
        ],
    )?;
    if placed == 0 {
        return refused(format!("item {no} exists and has no place"));
    }
    Ok(())
}

/// Sets what is known beside an item.
pub(super) fn tell_beside(scribe: &Scribe<'_>, session: i64, no: u64, side: &Json) -> Result<(), Failure> {
    let told =
        scribe.write("UPDATE item SET side = ? WHERE id = ?", &[side.into(), packed(session, no)?.into()])?;
    if told == 0 {
        return refused(format!("item {no} exists"));
    }
    Ok(())
}
