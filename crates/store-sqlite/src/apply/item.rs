//! Puts of items.

use singletree_durable::{ItemRow, Placement};

use super::session::name;
use crate::error::{Failure, refused};
use crate::meter::Scribe;
use crate::number::{bound, stored, stored_opt};

/// Adds an item under a free number.
pub(super) fn add(scribe: &Scribe<'_>, session: i64, row: &ItemRow) -> Result<(), Failure> {
    let place = row.placement.as_ref();
    let list = place.map(|it| name(scribe, &it.field)).transpose()?;
    scribe.write(
        "INSERT INTO item (session, no, turn, list, generation, seq, side, body) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        &[
            session.into(),
            stored(row.no)?.into(),
            stored(row.turn)?.into(),
            list.into(),
            stored_opt(place.map(|it| it.generation))?.into(),
            stored_opt(place.map(|it| it.seq))?.into(),
            row.side.as_ref().into(),
            (&row.body).into(),
        ],
    )?;
    Ok(())
}

/// Gives an item, which has none, its place.
pub(super) fn place(scribe: &Scribe<'_>, session: i64, no: u64, place: &Placement) -> Result<(), Failure> {
    let placed = scribe.write(
        "UPDATE item SET list = ?, generation = ?, seq = ? WHERE session = ? AND no = ? AND seq IS NULL",
        &[
            name(scribe, &place.field)?.into(),
            stored(place.generation)?.into(),
            stored(place.seq)?.into(),
            session.into(),
            bound(no).into(),
        ],
    )?;
    if placed == 0 {
        return refused(format!("item {no} exists and has no place"));
    }
    Ok(())
}
