//! One transition being written: a batch, the numbers it takes, and the events that tell of it.

use singletree_durable::{
    Batch, BatchPrecondition, Counters, EventRow, FencingToken, FieldRow, FieldValue, ItemPlacement,
    JsonDocument, ListItemRow, RowMutation, SessionHead, SessionKey, Timestamp,
};
use singletree_env::TraceHeaders;
use singletree_graph::{FieldContent, Item, PersistentList};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::Error;
use crate::LandedChange;
use crate::apply::steer::OfferedMessage;
use crate::budget::{EffectiveBudget, check_budget, check_nesting_levels, effective_nesting};
use crate::codec::stored::{self, FieldStorage, StoredField, StoredFields};
use crate::codec::telemetry::TelemetryPiece;
use crate::early_signals::SignalMailbox;
use crate::event::{ChatEvent, ChatEventId, ChatEventKind, event_kinds};
use crate::limit::Limits;
use crate::turn_id::TurnId;

/// Tells whether a change is an event of a turn whose body may hold records for telemetry.
fn is_telemetry_carrier(put: &RowMutation, turn: u64) -> bool {
    matches!(put, RowMutation::Event(row) if row.turn == turn && event_kinds::carries_telemetry(&row.kind))
}

/// How many rows most transitions write at most: a turn of one reply ends with nine.
const PUTS: usize = 9;

/// The turn for which something is written.
#[derive(Debug, Clone)]
pub struct TurnIdentity {
    /// The number of its row.
    pub no: u64,
    /// Its name.
    pub id: TurnId,
}

/// Numbers of the items whose bodies are written, by the items' addresses. The items are held, so that no address is
/// used twice.
///
/// A commit works on a clone. Its cost grows with the items since the commit before it, not with the length of the run:
/// landed items are shared.
#[derive(Debug, Clone, Default)]
pub struct ItemNumbering {
    landed: Arc<NumberTable>,
    new: NumberTable,
}

#[derive(Debug, Clone, Default)]
struct NumberTable {
    by_address: HashMap<usize, (Item, u64)>,
    /// Those that have a place in a list.
    placed: BTreeSet<u64>,
}

impl ItemNumbering {
    /// Notes the number of an item whose body is stored.
    pub fn insert_number(&mut self, item: &Item, no: u64) {
        self.new.by_address.insert(item.shared_address(), (item.clone(), no));
    }

    pub(crate) fn find_number(&self, item: &Item) -> Option<u64> {
        let address = item.shared_address();
        let found = self.new.by_address.get(&address).or_else(|| self.landed.by_address.get(&address));
        found.map(|(_, no)| *no)
    }

    /// Returns the number of an item that has no place yet, and notes that it gets one.
    fn claim_placement(&mut self, item: &Item) -> Option<u64> {
        let no = self.find_number(item)?;
        (!self.landed.placed.contains(&no) && self.new.placed.insert(no)).then_some(no)
    }

    /// Notes that everything that is new has landed. Cheap when this is the only clone.
    pub fn mark_all_landed(&mut self) {
        if self.new.by_address.is_empty() && self.new.placed.is_empty() {
            return;
        }
        let NumberTable { by_address, placed } = std::mem::take(&mut self.new);
        let landed = Arc::make_mut(&mut self.landed);
        landed.by_address.extend(by_address);
        landed.placed.extend(placed);
    }
}

/// The values that are written with a new item beside its body.
#[derive(Debug, Default)]
pub(crate) struct ItemMetadata {
    /// Its place in a list, if it is history at once.
    pub placement: Option<ItemPlacement>,
    /// Its side record, which is not part of the item (D17).
    pub side: Option<JsonDocument>,
}

impl ItemMetadata {
    fn with_placement(placement: ItemPlacement) -> Self {
        Self { placement: Some(placement), side: None }
    }
}

/// A transition being written.
#[derive(Debug)]
pub struct BatchBuilder {
    /// The batch so far.
    pub batch: Batch,
    /// The next free numbers, after those that the batch takes.
    pub counters: Counters,
    /// The time of the transition.
    pub now: Timestamp,
    /// The events that tell of it.
    pub events: Vec<ChatEvent>,
    /// The early signals of the session.
    pub mailbox: SignalMailbox,
    /// The change of the session's state, made once the batch has landed.
    pub landed: LandedChange,
    /// How many bytes of records for telemetry the turn has in this process, those of this batch among them.
    pub telemetry_bytes: u64,
    /// The trace of the turn's invocation, below its span, where it has one.
    pub trace: Option<Arc<TraceHeaders>>,
    /// The messages that the turn that runs was handed.
    pub offered: Vec<OfferedMessage>,
    /// The bytes that an item may have.
    item_bytes: usize,
    /// The levels that an item may have.
    nesting: usize,
    epoch: Arc<str>,
    taken: Counters,
}

impl BatchBuilder {
    /// Begins a batch for a session, with its next free numbers.
    pub fn new(
        key: &SessionKey,
        fence: FencingToken,
        counters: Counters,
        now: Timestamp,
        epoch: &Arc<str>,
    ) -> Self {
        let mut batch = Batch::new(key.clone(), fence);
        batch.puts.reserve(PUTS);
        let (mailbox, landed, offered) = (SignalMailbox::default(), LandedChange::default(), Vec::new());
        let (events, epoch) = (Vec::new(), epoch.clone());
        let (item_bytes, nesting) = (usize::MAX, usize::MAX);
        Self {
            batch,
            counters,
            telemetry_bytes: 0,
            trace: None,
            now,
            events,
            mailbox,
            landed,
            offered,
            item_bytes,
            nesting,
            epoch,
            taken: counters,
        }
    }

    /// Sets the limits of an item.
    pub fn with_limits(mut self, limits: &Limits) -> Self {
        self.item_bytes = limits.item_bytes;
        self.nesting = effective_nesting(limits);
        self
    }

    /// Sets the early signals that the transition sees.
    pub fn with_mailbox(mut self, mailbox: SignalMailbox) -> Self {
        self.mailbox = mailbox;
        self
    }

    /// Adds a precondition: the store refuses the batch unless it holds.
    pub fn require(&mut self, require: BatchPrecondition) {
        self.batch.requires.push(require);
    }

    /// Adds a write.
    pub fn add_mutation(&mut self, put: RowMutation) {
        self.batch.put(put);
    }

    /// Adds the counters, if numbers were taken, and returns the transition, which is complete now.
    pub fn finish_batch(mut self) -> Self {
        if self.counters != self.taken {
            self.batch.put(RowMutation::Counters(self.counters));
        }
        self
    }

    /// Returns the head that this transition writes, if it writes one.
    pub(crate) fn find_written_head(&self) -> Option<SessionHead> {
        self.batch.puts.iter().rev().find_map(|put| match put {
            RowMutation::Head(head) => Some(head.clone()),
            _ => None,
        })
    }

    /// Adds a durable event. Listeners are told when it is committed.
    pub fn add_event(
        &mut self,
        author: &TurnIdentity,
        item: Option<u64>,
        body: Option<JsonDocument>,
        what: ChatEventKind,
    ) {
        let seq = self.counters.events;
        self.counters.events += 1;
        let kind = what.as_str().to_owned();
        self.batch.put(RowMutation::Event(EventRow { seq, turn: author.no, kind, item, at: self.now, body }));
        let id = Some(ChatEventId { epoch: self.epoch.as_ref().to_owned(), seq });
        let session = self.batch.key.session.clone();
        self.events.push(ChatEvent { id, session, turn: author.id.clone(), at: self.now, what });
    }

    /// Tells whether the batch has an event whose body may hold records for telemetry of a turn.
    #[must_use]
    pub fn carries_telemetry(&self, turn: u64) -> bool {
        self.batch.puts.iter().any(|put| is_telemetry_carrier(put, turn))
    }

    /// Tells whether the batch drops the records of a turn.
    #[must_use]
    pub fn drops_records(&self, turn: u64) -> bool {
        let is_drop = |put: &RowMutation| matches!(put, RowMutation::DropRecords { turn: of } if *of == turn);
        self.batch.puts.iter().any(is_drop)
    }

    /// Stores records for telemetry with the turn: in the body of the batch's last event that tells of a message or of the
    /// end of the turn. Without such an event it does nothing.
    pub fn add_telemetry(&mut self, turn: u64, piece: &str) {
        let carrier = self.batch.puts.iter_mut().rev().find(|put| is_telemetry_carrier(put, turn));
        if let Some(RowMutation::Event(row)) = carrier {
            row.body = Some(TelemetryPiece::write_into(row.body.as_ref(), piece));
        }
    }

    /// Writes an item's body, unless it is written already, and returns its number.
    pub(crate) fn write_item_once(
        &mut self,
        author: &TurnIdentity,
        item: &Item,
        numbers: &mut ItemNumbering,
    ) -> Result<u64, Error> {
        match numbers.find_number(item) {
            Some(no) => Ok(no),
            None => self.write_new_item(author, item, ItemMetadata::default(), numbers),
        }
    }

    /// Writes a new item, and returns its number.
    ///
    /// # Errors
    /// `chat_budget_exhausted` when the item exceeds a limit; `store_corrupt` when JSON cannot represent it.
    pub(crate) fn write_new_item(
        &mut self,
        author: &TurnIdentity,
        item: &Item,
        beside: ItemMetadata,
        numbers: &mut ItemNumbering,
    ) -> Result<u64, Error> {
        let ItemMetadata { placement, side } = beside;
        let body = item.json_text().map_err(|error| {
            stored::store_corrupt_error("an item that JSON cannot represent".into(), Some(error.into()))
        })?;
        check_budget("item_bytes", body.len() as u64, self.item_bytes as u64)?;
        check_nesting_levels(body, self.nesting)?;
        let no = self.counters.items;
        self.counters.items += 1;
        let body = JsonDocument::from_text(body);
        self.batch.put(RowMutation::Item(ListItemRow { no, turn: author.no, placement, body, side }));
        numbers.insert_number(item, no);
        Ok(no)
    }

    /// Makes an item part of a list, in the commit that makes it history. An item that is also part of another list, as
    /// one that crosses into a subgraph and back, has a row for each list.
    fn write_placement(
        &mut self,
        author: &TurnIdentity,
        item: &Item,
        at: ItemPlacement,
        numbers: &mut ItemNumbering,
    ) -> Result<(), Error> {
        match (numbers.claim_placement(item), numbers.find_number(item)) {
            (Some(no), _) => self.add_mutation(RowMutation::Place { item: no, placement: at }),
            (None, None) => {
                self.write_new_item(author, item, ItemMetadata::with_placement(at), numbers)?;
                // So that a second list which shares it has a row of its own.
                numbers.claim_placement(item);
            }
            (None, Some(_)) => {
                self.write_new_item(
                    author,
                    item,
                    ItemMetadata::with_placement(at),
                    &mut ItemNumbering::default(),
                )?;
            }
        }
        Ok(())
    }

    /// Writes a list field: only the new items when the list extends the stored one, a new generation otherwise. A list
    /// that is not stored as rows begins with the generation `first`, since an earlier version of the state may have
    /// had a list of its name, whose rows are still there.
    pub(crate) fn write_list_field(
        &mut self,
        author: &TurnIdentity,
        (name, list): (&Arc<str>, &PersistentList),
        (before, first): (Option<&StoredField>, u64),
        numbers: &mut ItemNumbering,
    ) -> Result<StoredField, Error> {
        let extended = before.and_then(|before| match (&before.slot, before.kept) {
            (FieldContent::Many(stored), FieldStorage::Rows { generation })
                if list.is_extension_of(stored) =>
            {
                Some((generation, stored.len(), before.bytes))
            }
            _ => None,
        });
        let (generation, from, mut bytes) = extended.unwrap_or_else(|| {
            let next = before.map_or(first, |before| match before.kept {
                FieldStorage::Rows { generation } => generation + 1,
                FieldStorage::Value => first,
            });
            (next, 0, 0)
        });
        // An item that has a place in an earlier generation needs a row of its own in the new one; of a list that was
        // not kept as rows before, none has.
        let rewritten = extended.is_none() && before.is_some_and(|before| before.kept != FieldStorage::Value);
        let mut copied = ItemNumbering::default();
        for (seq, item) in (from..).zip(list.iter_from(from)) {
            let at = ItemPlacement { field: name.as_ref().to_owned(), generation, seq };
            bytes += item.json_text().map_or(0, str::len) as u64;
            if rewritten {
                self.write_new_item(author, item, ItemMetadata::with_placement(at), &mut copied)?;
            } else {
                self.write_placement(author, item, at, numbers)?;
            }
        }
        let value = FieldValue::List { generation, len: list.len(), bytes };
        self.add_mutation(RowMutation::Field(FieldRow { name: name.as_ref().to_owned(), value }));
        Ok(StoredField {
            name: name.clone(),
            slot: FieldContent::Many(list.clone()),
            kept: FieldStorage::Rows { generation },
            bytes,
        })
    }

    /// Writes a field that is one value.
    pub(crate) fn write_value_field(
        &mut self,
        name: &Arc<str>,
        slot: &FieldContent,
        bounds: &EffectiveBudget,
    ) -> Result<StoredField, Error> {
        let unfit = |it: serde_json::Error| {
            stored::store_corrupt_error(
                format!("field '{name}', which JSON cannot represent"),
                Some(it.into()),
            )
        };
        let json = match slot {
            FieldContent::One(item) => JsonDocument::from_text(item.json_text().map_err(unfit)?),
            FieldContent::Many(list) => JsonDocument::from(&list.to_json().map_err(unfit)?),
        };
        bounds.check_field(json.as_str())?;
        let bytes = json.as_str().len() as u64;
        let value = FieldValue::Value(json);
        self.add_mutation(RowMutation::Field(FieldRow { name: name.as_ref().to_owned(), value }));
        Ok(StoredField { name: name.clone(), slot: slot.clone(), kept: FieldStorage::Value, bytes })
    }
}

/// Which of a session's fields are kept as rows.
pub type RowFields = Arc<std::collections::BTreeSet<String>>;

/// Writes the changed fields of a session, and returns the fields as they are committed then.
///
/// A list that begins anew takes the version that this commit makes as its generation. No generation is higher than the
/// version of the commit which gave it, so that no generation is given twice.
pub(crate) fn write_changed_fields(
    writing: &mut BatchBuilder,
    author: &TurnIdentity,
    state: &[(Arc<str>, FieldContent)],
    (before, version): (&StoredFields, u64),
    (rows, numbers, bounds): (&RowFields, &mut ItemNumbering, &EffectiveBudget),
) -> Result<StoredFields, Error> {
    // A session that was never committed has no rows of any list.
    let first = if version == 0 { 0 } else { version + 1 };
    let mut after = Vec::with_capacity(state.len());
    // Fields that a newer version of the state does not have are dropped.
    for gone in before.iter().filter(|it| state.iter().all(|(name, _)| *name != it.name)) {
        writing.add_mutation(RowMutation::DropField(gone.name.as_ref().to_owned()));
    }
    for (name, slot) in state {
        let stored = stored::find_field(before, name);
        if let Some(stored) = stored.filter(|stored| stored.slot.is_same_content(slot)) {
            after.push(stored.clone());
            continue;
        }
        after.push(match slot {
            FieldContent::Many(list) if rows.contains(name.as_ref()) => {
                let written = writing.write_list_field(author, (name, list), (stored, first), numbers)?;
                bounds.check_list_size(name, list.len(), written.bytes)?;
                written
            }
            slot => writing.write_value_field(name, slot, bounds)?,
        });
    }
    Ok(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    // INV-5: a step of a long run costs no more than one of a short run.
    #[test]
    fn a_clone_of_numbers_copies_only_those_that_have_not_landed() {
        let mut numbers = ItemNumbering::default();
        let items: Vec<_> = (0..1000).map(|no| Item::from_json(no.into())).collect();
        for (no, item) in (0..).zip(&items) {
            let mut attempt = numbers.clone();
            assert_eq!(attempt.new.by_address.len() + attempt.new.placed.len(), 0);
            assert!(Arc::ptr_eq(&attempt.landed, &numbers.landed));
            attempt.insert_number(item, no);
            assert_eq!(attempt.claim_placement(item), Some(no));
            assert_eq!(attempt.claim_placement(item), None);
            // As in a commit that lands: the clone takes the place of its original.
            numbers = attempt;
            let landed = Arc::as_ptr(&numbers.landed);
            numbers.mark_all_landed();
            assert_eq!(Arc::as_ptr(&numbers.landed), landed, "the table grows in place");
        }
        for (no, item) in (0..).zip(&items) {
            assert_eq!((numbers.find_number(item), numbers.claim_placement(item)), (Some(no), None));
        }
    }

    #[test]
    fn numbers_of_an_attempt_that_fails_are_forgotten() {
        let (mut numbers, item) = (ItemNumbering::default(), Item::from_json(1.into()));
        numbers.insert_number(&item, 7);
        numbers.mark_all_landed();
        let mut attempt = numbers.clone();
        let other = Item::from_json(2.into());
        attempt.insert_number(&other, 8);
        assert_eq!(attempt.claim_placement(&item), Some(7));
        drop(attempt);
        assert_eq!((numbers.find_number(&other), numbers.claim_placement(&item)), (None, Some(7)));
    }
}
