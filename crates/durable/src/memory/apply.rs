//! Writing a batch that was checked: nothing here can fail.

use std::collections::BTreeSet;

use super::state::{MemoryTables, SessionTables};
use crate::{
    Batch, Counters, DocumentKey, FieldValue, ItemPlacement, JsonDocument, ListItemRow, RecordRow,
    RowMutation, SessionId, SessionKey, StoredDocument, TurnRow, UsageRow, WaitRow,
};

impl MemoryTables {
    /// Writes all puts of a batch, in order.
    pub(super) fn write_batch(&mut self, batch: Batch) {
        let Batch { key, puts, .. } = batch;
        let sources = puts.iter().filter_map(|put| match put {
            RowMutation::Inherit { from, .. } => Some(from.clone()),
            _ => None,
        });
        let sources: BTreeSet<SessionId> = sources.collect();
        for put in puts {
            self.apply_mutation(&key, put);
        }
        for source in sources {
            let named = self.find_named_digests(&key, &source);
            self.shelf.inherit_blobs(&key, &source, &named);
        }
    }

    /// Returns the digests of another session's blobs that occur in the rows of this session.
    fn find_named_digests(&self, key: &SessionKey, from: &SessionId) -> Vec<String> {
        let Some(session) = self.find_session(key) else { return Vec::new() };
        let bodies = session.items.iter_rows().map(|(_, it)| it.body.as_str());
        let values = session.fields.values().filter_map(|field| match field {
            FieldValue::Value(json) => Some(json.as_str()),
            FieldValue::List { .. } => None,
        });
        let texts: Vec<&str> = bodies.chain(values).collect();
        let source = SessionKey::new(key.tenant.clone(), from.clone());
        let used = self.shelf.used_digests(&source);
        used.filter(|digest| texts.iter().any(|text| text.contains(digest.as_str()))).cloned().collect()
    }

    fn apply_mutation(&mut self, key: &SessionKey, put: RowMutation) {
        match put {
            RowMutation::Head(head) => self.ensure_session(key).head = Some(head),
            RowMutation::Counters(counters) => {
                let session = self.ensure_session(key);
                session.counters = session.counters.max(counters);
            }
            RowMutation::Field(row) => drop(self.ensure_session(key).fields.insert(row.name, row.value)),
            RowMutation::DropField(name) => self.change_session(key, |it| drop(it.fields.remove(&name))),
            RowMutation::Item(row) => self.ensure_session(key).insert_item(row),
            RowMutation::Place { item, placement } => {
                self.change_session(key, |it| it.place_item(item, placement))
            }
            RowMutation::Side { item, side } => {
                self.change_session(key, |it| it.replace_side_record(item, side))
            }
            RowMutation::Turn(row) => self.put_turn(key, row),
            RowMutation::FreeKey { turn } => self.change_session(key, |it| it.free_idempotency_key(turn)),
            RowMutation::Wait(row) => self.put_wait(key, row),
            RowMutation::Mail(row) => drop(self.ensure_session(key).mail.insert(row.signal.clone(), row)),
            RowMutation::DropMail(signal) => self.change_session(key, |it| drop(it.mail.remove(&signal))),
            RowMutation::Position(row) => {
                drop(self.ensure_session(key).positions.insert(row.invocation.clone(), row))
            }
            RowMutation::DropPosition(invocation) => {
                self.change_session(key, |it| drop(it.positions.remove(&invocation)))
            }
            RowMutation::Record(row) => self.ensure_session(key).put_record(row),
            RowMutation::DropRecords { turn } => self.change_session(key, |it| it.records.remove_row(turn)),
            RowMutation::Event(row) => drop(self.ensure_session(key).events.set_row(row.seq, row)),
            RowMutation::Inherit { from, field, generation, len } => {
                self.inherit_items(key, &from, (&field, generation, len))
            }
            RowMutation::DropTurn { turn } => self.remove_turn(key, turn),
            RowMutation::DropEvents { before } => {
                self.change_session(key, |it| it.events.remove_rows_before(before))
            }
            RowMutation::Usage(row) => self.add_usage(key, row),
            RowMutation::Delete => self.delete_session(key),
            RowMutation::Document { kind, id, body, expires_at, outlives } => {
                let name = DocumentKey::new(key.tenant.clone(), kind, id);
                self.shelf.write_document(StoredDocument {
                    key: name,
                    session: (!outlives).then(|| key.session.clone()),
                    body,
                    version: 0,
                    expires_at,
                });
            }
            RowMutation::Audit(row) => self.audit.push(row),
        }
    }

    /// Changes a session, if there is one.
    fn change_session(&mut self, key: &SessionKey, change: impl FnOnce(&mut SessionTables)) {
        if let Some(session) = self.find_session_mut(key) {
            change(session);
        }
    }

    fn put_turn(&mut self, key: &SessionKey, row: TurnRow) {
        let before =
            self.sessions.get(&key.tenant).and_then(|session| session.get(&key.session)?.turns.get(row.no));
        self.index.update_turn(key, before, &row);
        let session = self.ensure_session(key);
        session.free_idempotency_key(row.no);
        if let Some(idempotency) = &row.key {
            session.keys.insert(idempotency.clone(), row.no);
        }
        session.turns.set_row(row.no, row);
    }

    fn put_wait(&mut self, key: &SessionKey, row: WaitRow) {
        let before =
            self.sessions.get(&key.tenant).and_then(|session| session.get(&key.session)?.waits.get(row.no));
        self.index.update_wait(key, before, &row);
        self.ensure_session(key).waits.set_row(row.no, row);
    }

    fn add_usage(&mut self, key: &SessionKey, row: UsageRow) {
        let none = || UsageRow { model: row.model.clone(), ..UsageRow::default() };
        self.ensure_session(key).usage.entry(row.model.clone()).or_insert_with(none).add_usage(&row);
        let of_tenant = self.usage.entry(key.tenant.clone()).or_default();
        of_tenant.entry(row.model.clone()).or_insert_with(none).add_usage(&row);
    }

    fn delete_session(&mut self, key: &SessionKey) {
        // Also of a session that is not there: a document may belong to one that never came.
        self.shelf.remove_session_data(key);
        let Some(of_tenant) = self.sessions.get_mut(&key.tenant) else { return };
        let Some(session) = of_tenant.remove(&key.session) else { return };
        if session.counters != Counters::default() {
            self.former.insert(key.clone(), session.counters);
        }
        for (_, row) in session.turns.iter_rows() {
            self.index.remove_turn(key, row);
        }
        for (_, row) in session.waits.iter_rows() {
            self.index.remove_wait(key, row);
        }
    }
}

impl SessionTables {
    pub(super) fn insert_item(&mut self, row: ListItemRow) {
        if let Some(place) = &row.placement {
            self.occupy_place(row.no, place);
        }
        let made = self.made.get_or_default(row.turn);
        if let Err(at) = made.binary_search(&row.no) {
            made.insert(at, row.no);
        }
        self.items.set_row(row.no, row);
    }

    fn place_item(&mut self, item: u64, place: ItemPlacement) {
        self.occupy_place(item, &place);
        if let Some(row) = self.items.get_mut(item) {
            row.placement = Some(place);
        }
    }

    fn replace_side_record(&mut self, item: u64, side: JsonDocument) {
        if let Some(row) = self.items.get_mut(item) {
            row.side = Some(side);
        }
    }

    fn occupy_place(&mut self, item: u64, place: &ItemPlacement) {
        if !self.lists.contains_key(&place.field) {
            self.lists.insert(place.field.clone(), Default::default());
        }
        if let Some(generations) = self.lists.get_mut(&place.field) {
            generations.get_or_default(place.generation).set_row(place.seq, item);
        }
    }

    fn put_record(&mut self, row: RecordRow) {
        self.records.get_or_default(row.turn).insert(row.name.clone(), row);
    }

    pub(super) fn free_idempotency_key(&mut self, turn: u64) {
        let Some(row) = self.turns.get_mut(turn) else { return };
        row.digest = None;
        if let Some(key) = row.key.take() {
            self.keys.remove(&key);
        }
    }
}
