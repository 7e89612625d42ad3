//! Writing a batch that was checked: nothing here can fail.

use std::collections::BTreeSet;

use super::state::{MemoryTables, SessionTables};
use crate::{
    Batch, Counters, DocumentKey, FieldValue, ItemPlacement, JsonDocument, ListItemRow, RecordRow,
    RowMutation, SessionId, SessionKey, StoredDocument, TurnRow, UsageRow, WaitRow,
};

impl MemoryTables {
    /// Writes all puts of a batch, in order.
    pub(super) fn write(&mut self, batch: Batch) {
        let Batch { key, puts, .. } = batch;
        let sources = puts.iter().filter_map(|put| match put {
            RowMutation::Inherit { from, .. } => Some(from.clone()),
            _ => None,
        });
        let sources: BTreeSet<SessionId> = sources.collect();
        for put in puts {
            self.put(&key, put);
        }
        for source in sources {
            let named = self.named(&key, &source);
            self.shelf.inherit(&key, &source, &named);
        }
    }

    /// Returns the digests of another session's blobs that occur in the rows of this session.
    fn named(&self, key: &SessionKey, from: &SessionId) -> Vec<String> {
        let Some(session) = self.session(key) else { return Vec::new() };
        let bodies = session.items.all().map(|(_, it)| it.body.as_str());
        let values = session.fields.values().filter_map(|field| match field {
            FieldValue::Value(json) => Some(json.as_str()),
            FieldValue::List { .. } => None,
        });
        let texts: Vec<&str> = bodies.chain(values).collect();
        let source = SessionKey::new(key.tenant.clone(), from.clone());
        let used = self.shelf.used(&source);
        used.filter(|digest| texts.iter().any(|text| text.contains(digest.as_str()))).cloned().collect()
    }

    fn put(&mut self, key: &SessionKey, put: RowMutation) {
        match put {
            RowMutation::Head(head) => self.make(key).head = Some(head),
            RowMutation::Counters(counters) => {
                let session = self.make(key);
                session.counters = session.counters.max(counters);
            }
            RowMutation::Field(row) => drop(self.make(key).fields.insert(row.name, row.value)),
            RowMutation::DropField(name) => self.change(key, |it| drop(it.fields.remove(&name))),
            RowMutation::Item(row) => self.make(key).add_item(row),
            RowMutation::Place { item, placement } => self.change(key, |it| it.place(item, placement)),
            RowMutation::Side { item, side } => self.change(key, |it| it.tell_beside(item, side)),
            RowMutation::Turn(row) => self.put_turn(key, row),
            RowMutation::FreeKey { turn } => self.change(key, |it| it.free_key(turn)),
            RowMutation::Wait(row) => self.put_wait(key, row),
            RowMutation::Mail(row) => drop(self.make(key).mail.insert(row.signal.clone(), row)),
            RowMutation::DropMail(signal) => self.change(key, |it| drop(it.mail.remove(&signal))),
            RowMutation::Position(row) => drop(self.make(key).positions.insert(row.invocation.clone(), row)),
            RowMutation::DropPosition(invocation) => {
                self.change(key, |it| drop(it.positions.remove(&invocation)))
            }
            RowMutation::Record(row) => self.make(key).put_record(row),
            RowMutation::DropRecords { turn } => self.change(key, |it| it.records.remove(turn)),
            RowMutation::Event(row) => drop(self.make(key).events.set(row.seq, row)),
            RowMutation::Inherit { from, field, generation, len } => {
                self.inherit(key, &from, (&field, generation, len))
            }
            RowMutation::DropTurn { turn } => self.drop_turn(key, turn),
            RowMutation::DropEvents { before } => self.change(key, |it| it.events.remove_before(before)),
            RowMutation::Usage(row) => self.add_usage(key, row),
            RowMutation::Delete => self.delete(key),
            RowMutation::Document { kind, id, body, expires_at, outlives } => {
                let name = DocumentKey::new(key.tenant.clone(), kind, id);
                self.shelf.write(StoredDocument {
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
    fn change(&mut self, key: &SessionKey, change: impl FnOnce(&mut SessionTables)) {
        if let Some(session) = self.session_mut(key) {
            change(session);
        }
    }

    fn put_turn(&mut self, key: &SessionKey, row: TurnRow) {
        let before =
            self.sessions.get(&key.tenant).and_then(|session| session.get(&key.session)?.turns.get(row.no));
        self.index.turn(key, before, &row);
        let session = self.make(key);
        session.free_key(row.no);
        if let Some(idempotency) = &row.key {
            session.keys.insert(idempotency.clone(), row.no);
        }
        session.turns.set(row.no, row);
    }

    fn put_wait(&mut self, key: &SessionKey, row: WaitRow) {
        let before =
            self.sessions.get(&key.tenant).and_then(|session| session.get(&key.session)?.waits.get(row.no));
        self.index.wait(key, before, &row);
        self.make(key).waits.set(row.no, row);
    }

    fn add_usage(&mut self, key: &SessionKey, row: UsageRow) {
        let none = || UsageRow { model: row.model.clone(), ..UsageRow::default() };
        self.make(key).usage.entry(row.model.clone()).or_insert_with(none).add(&row);
        let of_tenant = self.usage.entry(key.tenant.clone()).or_default();
        of_tenant.entry(row.model.clone()).or_insert_with(none).add(&row);
    }

    fn delete(&mut self, key: &SessionKey) {
        // Also of a session that is not there: a document may belong to one that never came.
        self.shelf.forget(key);
        let Some(of_tenant) = self.sessions.get_mut(&key.tenant) else { return };
        let Some(session) = of_tenant.remove(&key.session) else { return };
        if session.counters != Counters::default() {
            self.former.insert(key.clone(), session.counters);
        }
        for (_, row) in session.turns.all() {
            self.index.drop_turn(key, row);
        }
        for (_, row) in session.waits.all() {
            self.index.drop_wait(key, row);
        }
    }
}

impl SessionTables {
    pub(super) fn add_item(&mut self, row: ListItemRow) {
        if let Some(place) = &row.placement {
            self.occupy(row.no, place);
        }
        let made = self.made.or_default(row.turn);
        if let Err(at) = made.binary_search(&row.no) {
            made.insert(at, row.no);
        }
        self.items.set(row.no, row);
    }

    fn place(&mut self, item: u64, place: ItemPlacement) {
        self.occupy(item, &place);
        if let Some(row) = self.items.get_mut(item) {
            row.placement = Some(place);
        }
    }

    fn tell_beside(&mut self, item: u64, side: JsonDocument) {
        if let Some(row) = self.items.get_mut(item) {
            row.side = Some(side);
        }
    }

    fn occupy(&mut self, item: u64, place: &ItemPlacement) {
        if !self.lists.contains_key(&place.field) {
            self.lists.insert(place.field.clone(), Default::default());
        }
        if let Some(generations) = self.lists.get_mut(&place.field) {
            generations.or_default(place.generation).set(place.seq, item);
        }
    }

    fn put_record(&mut self, row: RecordRow) {
        self.records.or_default(row.turn).insert(row.name.clone(), row);
    }

    pub(super) fn free_key(&mut self, turn: u64) {
        let Some(row) = self.turns.get_mut(turn) else { return };
        row.digest = None;
        if let Some(key) = row.key.take() {
            self.keys.remove(&key);
        }
    }
}
