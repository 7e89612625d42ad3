//! Reads of a list that are bounded by bytes.

use singletree_durable::{ItemRange, JsonDocument, ListItemRow, RowMutation};

use super::bench::{StoreFactory, Verdict, ensure_equal};
use super::rows::{create_session, item_placement, sample_item, session_key};

pub(super) async fn check_items_by_bytes(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    // Each item has ten bytes; four of the second item's bytes are in its side record.
    let row = |no: u64| {
        let placement = Some(item_placement("list", 0, no));
        match no {
            1 => ListItemRow {
                placement,
                body: JsonDocument::from_text("\"1234\""),
                side: Some(JsonDocument::from_text("1234")),
                ..sample_item(no)
            },
            _ => ListItemRow {
                placement,
                body: JsonDocument::from_text("\"12345678\""),
                side: None,
                ..sample_item(no)
            },
        }
    };
    create_session(&stores, &s, [0, 1, 2, 3, 4].map(|no| RowMutation::Item(row(no)))).await?;
    let after =
        |from, limit, bytes| ItemRange::Page { field: "list".to_owned(), generation: 0, from, limit, bytes };
    let before = |before, limit, bytes| ItemRange::PageBefore {
        field: "list".to_owned(),
        generation: 0,
        before,
        limit,
        bytes,
    };
    for (range, expected) in [
        (after(0, 100, u64::MAX), vec![0, 1, 2, 3, 4]),
        (after(0, 100, 20), vec![0, 1]),
        (after(0, 100, 21), vec![0, 1, 2]),
        (after(3, 100, 0), vec![3]),
        (after(1, 2, 1000), vec![1, 2]),
        (after(0, 0, 1000), vec![]),
        (after(5, 100, 1000), vec![]),
        (before(u64::MAX, 100, u64::MAX), vec![0, 1, 2, 3, 4]),
        (before(5, 100, 20), vec![3, 4]),
        (before(3, 100, 20), vec![1, 2]),
        (before(3, 100, 21), vec![0, 1, 2]),
        (before(4, 100, 0), vec![3]),
        (before(4, 2, 1000), vec![2, 3]),
        (before(0, 100, 1000), vec![]),
        (before(4, 0, 1000), vec![]),
    ] {
        let found = stores.journal.read_items(&s, &range).await?;
        let expected: Vec<_> = expected.into_iter().map(row).collect();
        ensure_equal(&format!("items of {range:?}"), &found, &expected)?;
    }
    Ok(())
}
