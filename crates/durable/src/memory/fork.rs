//! Items of another session, copied (D12).

use super::check::ProjectedSession;
use super::refusal_error;
use super::state::{MemoryTables, SessionTables};
use crate::{ListItemRow, Result, SessionId, SessionKey};

/// Returns the first `len` items of a list, if it has as many.
fn find_list_prefix<'a>(
    session: &'a SessionTables,
    field: &str,
    generation: u64,
    len: u64,
) -> Option<Vec<&'a ListItemRow>> {
    let list = session.find_list(field, generation).into_iter().flat_map(|item| item.iter_rows_from(0));
    let numbers = list.take_while(|(seq, _)| *seq < len).map(|(_, no)| *no);
    let items: Vec<_> = numbers.filter_map(|no| session.items.get(no)).collect();
    (u64::try_from(items.len()) == Ok(len)).then_some(items)
}

impl<'a> ProjectedSession<'a> {
    /// Checks that the items are there, and free here.
    pub(super) fn project_inheritance(
        &mut self,
        from: &SessionId,
        field: &str,
        generation: u64,
        len: u64,
    ) -> Result<()> {
        let source: Option<&'a SessionTables> = self.state.find_sibling_session(self.key, from);
        let source = source.filter(|_| *from != self.key.session);
        let items = source.and_then(|source| find_list_prefix(source, field, generation, len));
        let items =
            items.ok_or_else(|| refusal_error(format!("list {field:?} of {from} has {len} items")))?;
        self.has_rows = true;
        items.into_iter().try_for_each(|item| self.project_item(item))
    }
}

impl MemoryTables {
    /// Copies the beginning of a list of another session.
    pub(super) fn inherit_items(
        &mut self,
        key: &SessionKey,
        from: &SessionId,
        (field, generation, len): (&str, u64, u64),
    ) {
        let source = self.find_sibling_session(key, from);
        let items =
            source.and_then(|source| find_list_prefix(source, field, generation, len)).unwrap_or_default();
        let items: Vec<ListItemRow> = items.into_iter().cloned().collect();
        let session = self.ensure_session(key);
        items.into_iter().for_each(|item| session.insert_item(item));
    }
}
