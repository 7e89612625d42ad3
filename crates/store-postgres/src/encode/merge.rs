//! Puts that one statement can write together. Most of the time of a commit is spent on beginning statements.

use std::collections::HashMap;

use singletree_durable::RowMutation;

use super::put::{EncodedPut, encode_put};

/// Encodes the puts of a batch, with fewer statements than puts and the same result:
///
/// - items go with the first item, and events with the first event;
/// - an item that the batch makes and then gives a place is made in that place;
/// - counters go with a head before them.
///
/// Nothing is moved past a put that removes or copies rows.
pub(crate) fn encode_puts(puts: &[RowMutation]) -> Vec<EncodedPut<'_>> {
    let mut merged = MergedPuts::default();
    for put in puts {
        if removes_or_copies(put) {
            // Those before it are written as they are.
            merged = MergedPuts { puts: merged.puts, ..MergedPuts::default() };
        }
        merged.add(encode_put(put));
    }
    merged.puts
}

/// Tells whether a put removes or copies rows, which other puts of its batch may write.
fn removes_or_copies(put: &RowMutation) -> bool {
    match put {
        RowMutation::DropField(_)
        | RowMutation::DropTurn { .. }
        | RowMutation::DropEvents { .. }
        | RowMutation::DropRecords { .. }
        | RowMutation::FreeKey { .. }
        | RowMutation::Inherit { .. }
        | RowMutation::Delete => true,
        RowMutation::Head(_)
        | RowMutation::Counters(_)
        | RowMutation::Field(_)
        | RowMutation::Item(_)
        | RowMutation::Place { .. }
        | RowMutation::Side { .. }
        | RowMutation::Turn(_)
        | RowMutation::Wait(_)
        | RowMutation::Mail(_)
        | RowMutation::DropMail(_)
        | RowMutation::Position(_)
        | RowMutation::DropPosition(_)
        | RowMutation::Record(_)
        | RowMutation::Event(_)
        | RowMutation::Usage(_)
        | RowMutation::Document { .. }
        | RowMutation::Audit(_) => false,
    }
}

/// The puts of a batch so far, and the places of those that later ones may be merged with.
#[derive(Default)]
struct MergedPuts<'a> {
    puts: Vec<EncodedPut<'a>>,
    items: Option<usize>,
    /// The place of each item among the rows of `items`, by its number.
    item_places: HashMap<u64, usize>,
    events: Option<usize>,
    head: Option<usize>,
}

impl<'a> MergedPuts<'a> {
    fn add(&mut self, mut put: EncodedPut<'a>) {
        let place = match &put {
            EncodedPut::Items { .. } | EncodedPut::Place(_) => self.items,
            EncodedPut::Events { .. } => self.events,
            EncodedPut::Counters(_) => self.head,
            _ => None,
        };
        let former = place.and_then(|place| self.puts.get_mut(place));
        match (former, &mut put) {
            (Some(EncodedPut::Items { rows }), EncodedPut::Items { rows: more }) => {
                self.item_places.extend(more.iter().enumerate().map(|(at, row)| (row.no, rows.len() + at)));
                rows.append(more);
                return;
            }
            (Some(EncodedPut::Items { rows }), EncodedPut::Place(place)) => {
                let made = self.item_places.get(&place.item).and_then(|at| rows.get_mut(*at));
                // One that has a place already is the database's to refuse.
                if let Some(made) = made.filter(|row| row.placement.is_none()) {
                    made.placement = Some(place.placement);
                    return;
                }
            }
            (Some(EncodedPut::Events { rows }), EncodedPut::Events { rows: more }) => {
                rows.append(more);
                return;
            }
            (Some(EncodedPut::Head(head)), EncodedPut::Counters(counters)) if head.counters.is_none() => {
                head.counters = Some(*counters);
                return;
            }
            _ => {}
        }
        match &put {
            EncodedPut::Items { rows } => {
                self.items = Some(self.puts.len());
                self.item_places.extend(rows.iter().enumerate().map(|(at, row)| (row.no, at)));
            }
            EncodedPut::Events { .. } => self.events = Some(self.puts.len()),
            EncodedPut::Head(_) => self.head = Some(self.puts.len()),
            _ => {}
        }
        self.puts.push(put);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use singletree_durable::{
        Counters, EventRow, ItemPlacement, JsonDocument, ListItemRow, SessionHead, Timestamp,
    };

    use super::*;

    fn item(no: u64) -> RowMutation {
        let body = JsonDocument::from_text("1");
        RowMutation::Item(ListItemRow { no, turn: 0, placement: None, body, side: None })
    }

    fn place(item: u64) -> RowMutation {
        let placement = ItemPlacement { field: "l".to_owned(), generation: 0, seq: item };
        RowMutation::Place { item, placement }
    }

    fn event(seq: u64) -> RowMutation {
        let at = Timestamp::from_millis(1);
        RowMutation::Event(EventRow { seq, turn: 0, kind: "k".to_owned(), item: None, at, body: None })
    }

    fn sample_head() -> SessionHead {
        SessionHead {
            agent: "a".to_owned(),
            graph: "g".to_owned(),
            schema_version: "1".to_owned(),
            version: 1,
            prompt_policy: "conversation".to_owned(),
            parent: None,
            subject: None,
            created_at: Timestamp::from_millis(1),
            updated_at: Timestamp::from_millis(1),
        }
    }

    fn encode(puts: &[RowMutation]) -> Value {
        serde_json::to_value(encode_puts(puts)).unwrap()
    }

    #[test]
    fn rows_of_a_kind_go_together_and_items_to_their_place() {
        assert_eq!(
            encode(&[event(0), item(4), place(3), place(4), event(1), item(5), item(6), place(6)]),
            json!([
                { "put": "events", "rows": [
                    { "seq": 0, "turn": 0, "kind": "k", "at": 1 }, { "seq": 1, "turn": 0, "kind": "k", "at": 1 },
                ] },
                { "put": "items", "rows": [
                    { "no": 4, "turn": 0, "list": "l", "generation": 0, "seq": 4, "body": "1" },
                    { "no": 5, "turn": 0, "body": "1" },
                    { "no": 6, "turn": 0, "list": "l", "generation": 0, "seq": 6, "body": "1" },
                ] },
                { "put": "place", "item": 3, "list": "l", "generation": 0, "seq": 3 },
            ])
        );
    }

    #[test]
    fn counters_go_with_the_head_before_them_once() {
        let counters = |turns| RowMutation::Counters(Counters { turns, ..Counters::default() });
        let puts = [counters(1), RowMutation::Head(sample_head()), counters(2), counters(3)];
        let puts = encode(&puts);
        let of = |at: usize| (puts[at]["put"].as_str().unwrap().to_owned(), puts[at]["turns"].as_u64());
        let expected =
            [("counters", 1), ("head", 2), ("counters", 3)].map(|(put, no)| (put.to_owned(), Some(no)));
        assert_eq!([of(0), of(1), of(2)], expected, "{puts}");
    }

    #[test]
    fn an_item_is_placed_once() {
        let placed = encode(&[item(0), place(0), place(0)]);
        assert_eq!(placed[1]["put"], "place", "the database refuses it: {placed}");
    }

    #[test]
    fn nothing_is_moved_past_a_put_that_removes_or_copies() {
        let counters = RowMutation::Counters(Counters::default());
        for fixed in [
            RowMutation::Delete,
            RowMutation::DropTurn { turn: 0 },
            RowMutation::DropEvents { before: 1 },
            RowMutation::DropField("l".to_owned()),
        ] {
            let puts = encode(&[item(0), event(0), fixed, place(0), event(1), counters.clone(), item(1)]);
            let kinds: Vec<_> = puts.as_array().unwrap().iter().map(|put| put["put"].clone()).collect();
            assert_eq!(kinds.len(), 7, "{kinds:?}");
        }
    }
}
