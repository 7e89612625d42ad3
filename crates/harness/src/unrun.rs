//! Turns that end without being run, or without being run further.

use std::sync::Arc;

use singletree_durable::TurnRow;
use singletree_engine::Entered;

use crate::Error;
use crate::keeper::Keeper;
use crate::position::Position;
use crate::prepare::Preparing;
use crate::stored::StoredFields;
use crate::turning::Turning;
use crate::usage::Used;

/// A turn that is ended without being run further.
#[derive(Clone)]
pub(crate) struct Unrun {
    row: TurnRow,
    /// What it has used of models in this process, if it has run here; what it had committed is in it.
    used: Used,
}

impl Unrun {
    pub(crate) fn after(keeper: &Keeper) -> Self {
        Self { row: keeper.row(), used: keeper.budget().used() }
    }

    pub(crate) fn row(&self) -> &TurnRow {
        &self.row
    }
}

impl From<TurnRow> for Unrun {
    fn from(row: TurnRow) -> Self {
        Self { row, used: Used::default() }
    }
}

impl Preparing<'_> {
    /// Makes a keeper for a turn that is ended without being run, or without being run further.
    pub(crate) async fn unrun(&self, unrun: Unrun) -> Result<Arc<Keeper>, Error> {
        let Unrun { row, used } = unrun;
        let mut turning = match self.fields().await {
            Ok(stored) => self.turning_on(stored, row)?,
            // A history that nobody can read has no calls to close, and its turns end all the same (INV-8).
            Err(error) if error.is_corrupt() => {
                Turning { unread: true, ..self.turning_on(StoredFields::new(), row)? }
            }
            Err(error) => return Err(error),
        };
        let journal = &self.house.journal;
        let position = self.house.read(journal.position(&self.hot.key, &turning.row.invocation)).await?;
        turning.positioned = position.is_some();
        if turning.positioned {
            turning.records = self.records(turning.row.no).await?;
        }
        let own = position.filter(|it| it.turn == turning.row.no);
        // What it had committed is its own to close (D8); a position that cannot be read says nothing of that.
        if let Some(position) = own.and_then(|it| it.body.decode::<Position>().ok()) {
            turning.marks.first = position.marks.first.min(turning.marks.first);
            turning.used = position.used.clone();
            turning.taken = self.taken(&position).await?;
        }
        if !used.is_empty() {
            turning.used = used;
        }
        Ok(self.keep(turning, Entered::Fresh(None), None).0)
    }
}
