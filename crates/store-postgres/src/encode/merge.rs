//! Puts that one statement can write together. Most of the time of a commit is spent on beginning statements.

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
        if is_fixed(put) {
            merged.section = merged.puts.len() + 1;
        }
        merged.add(encode_put(put));
    }
    merged.puts
}

/// Tells whether a put depends on rows that others write, so that none is moved past it.
fn is_fixed(put: &RowMutation) -> bool {
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

#[derive(Default)]
struct MergedPuts<'a> {
    puts: Vec<EncodedPut<'a>>,
    /// Where the puts begin that others may be merged with.
    section: usize,
}

impl<'a> MergedPuts<'a> {
    fn add(&mut self, put: EncodedPut<'a>) {
        if let Some(put) = self.merge(put) {
            self.puts.push(put);
        }
    }

    /// Merges a put with one that is there; returns it if there is none.
    fn merge(&mut self, mut put: EncodedPut<'a>) -> Option<EncodedPut<'a>> {
        for former in self.puts.iter_mut().skip(self.section) {
            match (former, &mut put) {
                (EncodedPut::Items { rows }, EncodedPut::Items { rows: more }) => {
                    rows.append(more);
                    return None;
                }
                (EncodedPut::Events { rows }, EncodedPut::Events { rows: more }) => {
                    rows.append(more);
                    return None;
                }
                (EncodedPut::Items { rows }, EncodedPut::Place(place)) => {
                    // One that has a place already is the database's to refuse.
                    let made = rows.iter_mut().find(|row| row.no == place.item);
                    if let Some(made) = made.filter(|row| row.placement.is_none()) {
                        made.placement = Some(place.placement);
                        return None;
                    }
                }
                (EncodedPut::Head(head), EncodedPut::Counters(counters)) if head.counters.is_none() => {
                    head.counters = Some(*counters);
                    return None;
                }
                _ => {}
            }
        }
        Some(put)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use singletree_durable::{Counters, EventRow, ItemPlacement, JsonDocument, ListItemRow, Timestamp};

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

    fn encode(puts: &[RowMutation]) -> Value {
        serde_json::to_value(encode_puts(puts)).unwrap()
    }

    #[test]
    fn rows_of_a_kind_go_together_and_items_to_their_place() {
        assert_eq!(
            encode(&[event(0), item(4), place(3), place(4), event(1), item(5)]),
            json!([
                { "put": "events", "rows": [
                    { "seq": 0, "turn": 0, "kind": "k", "at": 1 }, { "seq": 1, "turn": 0, "kind": "k", "at": 1 },
                ] },
                { "put": "items", "rows": [
                    { "no": 4, "turn": 0, "list": "l", "generation": 0, "seq": 4, "body": "1" },
                    { "no": 5, "turn": 0, "body": "1" },
                ] },
                { "put": "place", "item": 3, "list": "l", "generation": 0, "seq": 3 },
            ])
        );
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
