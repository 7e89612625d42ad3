//! Writing a batch that was checked: nothing here can fail.

use std::collections::BTreeSet;

use super::state::{Session, State};
use crate::{
    Batch, Counters, Document, DocumentKey, FieldValue, ItemRow, Json, Placement, Put, RecordRow, SessionId,
    SessionKey, TurnRow, UsageRow, WaitRow,
};

impl State {
    /// Writes all puts of a batch, in order.
    pub(super) fn write(&mut self, batch: Batch) {
        let Batch { key, puts, .. } = batch;
        let sources = puts.iter().filter_map(|put| match put {
            Put::Inherit { from, .. } => Some(from.clone()),
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

    fn put(&mut self, key: &SessionKey, put: Put) {
        match put {
            Put::Head(head) => self.make(key).head = Some(head),
            Put::Counters(counters) => {
                let session = self.make(key);
                session.counters = session.counters.max(counters);
            }
            Put::Field(row) => drop(self.make(key).fields.insert(row.name, row.value)),
            Put::DropField(name) => self.change(key, |it| drop(it.fields.remove(&name))),
            Put::Item(row) => self.make(key).add_item(row),
            Put::Place { item, placement } => self.change(key, |it| it.place(item, placement)),
            Put::Side { item, side } => self.change(key, |it| it.tell_beside(item, side)),
            Put::Turn(row) => self.put_turn(key, row),
            Put::FreeKey { turn } => self.change(key, |it| it.free_key(turn)),
            Put::Wait(row) => self.put_wait(key, row),
            Put::Mail(row) => drop(self.make(key).mail.insert(row.signal.clone(), row)),
            Put::DropMail(signal) => self.change(key, |it| drop(it.mail.remove(&signal))),
            Put::Position(row) => drop(self.make(key).positions.insert(row.invocation.clone(), row)),
            Put::DropPosition(invocation) => self.change(key, |it| drop(it.positions.remove(&invocation))),
            Put::Record(row) => self.make(key).put_record(row),
            Put::DropRecords { turn } => self.change(key, |it| it.records.remove(turn)),
            Put::Event(row) => drop(self.make(key).events.set(row.seq, row)),
            Put::Inherit { from, field, generation, len } => {
                self.inherit(key, &from, (&field, generation, len))
            }
            Put::DropTurn { turn } => self.drop_turn(key, turn),
            Put::DropEvents { before } => self.change(key, |it| it.events.remove_before(before)),
            Put::Usage(row) => self.add_usage(key, row),
            Put::Delete => self.delete(key),
            Put::Document { kind, id, body, expires_at, outlives } => {
                let name = DocumentKey::new(key.tenant.clone(), kind, id);
                self.shelf.write(Document {
                    key: name,
                    session: (!outlives).then(|| key.session.clone()),
                    body,
                    version: 0,
                    expires_at,
                });
            }
            Put::Audit(row) => self.audit.push(row),
        }
    }

    /// Changes a session, if there is one.
    fn change(&mut self, key: &SessionKey, change: impl FnOnce(&mut Session)) {
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

impl Session {
    pub(super) fn add_item(&mut self, row: ItemRow) {
        if let Some(place) = &row.placement {
            self.occupy(row.no, place);
        }
        let made = self.made.or_default(row.turn);
        if let Err(at) = made.binary_search(&row.no) {
            made.insert(at, row.no);
        }
        self.items.set(row.no, row);
    }

    fn place(&mut self, item: u64, place: Placement) {
        self.occupy(item, &place);
        if let Some(row) = self.items.get_mut(item) {
            row.placement = Some(place);
        }
    }

    fn tell_beside(&mut self, item: u64, side: Json) {
        if let Some(row) = self.items.get_mut(item) {
            row.side = Some(side);
        }
    }

    fn occupy(&mut self, item: u64, place: &Placement) {
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
