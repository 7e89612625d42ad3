//! The columns that the checksum of a row covers, and the search for rows whose values have changed
//! (`durable::checksum`).
//!
//! A checksum has parts that change at different times: the content of an item, its place, its side record. The order
//! of columns and parts is part of the format. A column without a checksum is determined by another row or by a count.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Result, Row};
use singletree_durable::checksum::{Checksum, checksum_difference as changed, sum_part_checksums};

use crate::meter::BoundValue;

/// A table whose rows have a checksum.
struct ChecksummedTable {
    name: &'static str,
    /// Names a row for people; `t` is the row.
    row: &'static str,
    /// The columns of each part.
    parts: &'static [&'static [&'static str]],
    /// Columns to which numbers are added.
    counts: &'static [&'static str],
}

macro_rules! of_session {
    ($row:literal) => {
        concat!(
            $row,
            " || ' of session ' || coalesce((SELECT s.tenant || '/' || s.session FROM session s WHERE s.id = t.session), '?')"
        )
    };
}

const TABLES: &[ChecksummedTable] = &[
    ChecksummedTable {
        name: "item",
        row: of_session!("t.no"),
        parts: &[&["no", "turn", "body"], &["list", "generation", "seq"], &["side"]],
        counts: &[],
    },
    ChecksummedTable {
        name: "turn",
        row: of_session!("t.no"),
        parts: &[
            &[
                "no",
                "invocation",
                "ordinal",
                "kind",
                "agent",
                "graph",
                "message",
                "wait",
                "accepted_at",
                "retries",
                "status",
                "fence",
                "deaths",
                "ended_at",
                "outcome",
            ],
            &["key", "digest"],
        ],
        counts: &[],
    },
    ChecksummedTable {
        name: "wait",
        row: of_session!("t.no"),
        parts: &[&[
            "no",
            "signal",
            "invocation",
            "turn",
            "status",
            "metadata",
            "action",
            "deadline",
            "payload_schema",
            "on_deadline",
            "created_at",
            "ended_by",
            "answer",
            "answered_by",
            "ended_at",
        ]],
        counts: &[],
    },
    ChecksummedTable {
        name: "event",
        row: of_session!("t.seq"),
        parts: &[&["seq", "turn", "kind", "item", "at", "body"]],
        counts: &[],
    },
    ChecksummedTable {
        name: "session",
        row: "t.tenant || '/' || t.session",
        parts: &[&[
            "agent",
            "graph",
            "schema_version",
            "version",
            "prompt_policy",
            "parent",
            "parent_offset",
            "subject",
            "created_at",
            "updated_at",
        ]],
        counts: &[],
    },
    ChecksummedTable {
        name: "mail",
        row: of_session!("t.signal"),
        parts: &[&["signal", "payload", "sent_by", "at"]],
        counts: &[],
    },
    ChecksummedTable {
        name: "position",
        row: of_session!("t.invocation"),
        parts: &[&["invocation", "turn", "body"]],
        counts: &[],
    },
    ChecksummedTable {
        name: "record",
        row: of_session!("t.turn || ' ' || t.name"),
        parts: &[&["turn", "name", "body"]],
        counts: &[],
    },
    ChecksummedTable {
        name: "field",
        row: of_session!("t.name"),
        parts: &[&["name", "value", "generation", "len", "bytes"]],
        counts: &[],
    },
    ChecksummedTable {
        name: "usage",
        row: "t.model || ' of ' || t.tenant || '/' || t.session",
        parts: &[&["tenant", "session", "model"]],
        counts: &["calls", "prompt_tokens", "completion_tokens", "cached_tokens", "cache_creation_tokens"],
    },
    ChecksummedTable {
        name: "document",
        row: "t.kind || ' ' || t.id || ' of ' || t.tenant",
        parts: &[&["tenant", "kind", "id", "session", "expires_at", "body"]],
        counts: &[],
    },
    ChecksummedTable { name: "meta", row: "''", parts: &[META], counts: &[] },
];

const META: &[&str] = &["fence", "log_epoch", "is_copy", "is_checked"];

/// Returns the checksum of a row with these parts.
pub(crate) fn checksum_of_parts(parts: &[&[BoundValue<'_>]]) -> BoundValue<'static> {
    bind_checksum(sum_part_checksums((0..).zip(parts).map(|(no, values)| part_checksum(no, values))))
}

/// Returns the difference to add to the checksum of a row when one of its parts changes.
pub(crate) fn difference_of_part(
    no: u64,
    old: &[BoundValue<'_>],
    new: &[BoundValue<'_>],
) -> BoundValue<'static> {
    bind_checksum(changed(part_checksum(no, old), part_checksum(no, new)))
}

/// Returns the checksum of a row with one part and with numbers to which others are added.
pub(crate) fn checksum_with_counts(
    values: &[BoundValue<'_>],
    counts: &[BoundValue<'_>],
) -> BoundValue<'static> {
    bind_checksum(sum_part_checksums([part_checksum(0, values), counts_checksum(counts)]))
}

/// Returns the difference to add to the checksum of such a row when these numbers are added to its counts.
pub(crate) fn difference_of_counts(counts: &[BoundValue<'_>]) -> BoundValue<'static> {
    bind_checksum(counts_checksum(counts))
}

fn part_checksum(no: u64, values: &[BoundValue<'_>]) -> u64 {
    values.iter().fold(Checksum::for_part(no), |sum, value| value.add_to_checksum(sum)).finish()
}

/// Sums numbers up so that the sum of several is the sum of their sums.
fn counts_checksum(counts: &[BoundValue<'_>]) -> u64 {
    let counted = |(no, count): (u64, &BoundValue<'_>)| match count {
        BoundValue::Int(number) => {
            // Odd, so that every change of a number changes the product.
            let factor = Checksum::for_part(no).finish() | 1;
            number.cast_unsigned().wrapping_mul(factor) & Checksum::MASK
        }
        BoundValue::Null | BoundValue::Text(_) | BoundValue::Bytes(_) => 0,
    };
    sum_part_checksums((0..).zip(counts).map(counted))
}

fn bind_checksum(checksum: u64) -> BoundValue<'static> {
    BoundValue::Int(checksum.cast_signed())
}

/// Writes the checksum of the `meta` row.
pub(crate) fn seal_meta_row(connection: &Connection) -> Result<()> {
    let sql = format!("SELECT {} FROM meta", META.join(", "));
    let checksum = connection.query_row(&sql, [], |row| {
        let values = (0..META.len()).map(|at| column_value(row, at)).collect::<Result<Vec<_>>>()?;
        Ok(sum_part_checksums([part_checksum(0, &values)]))
    })?;
    connection.execute("UPDATE meta SET checksum = ?", [bind_checksum(checksum)]).map(drop)
}

/// The result of comparing rows with their checksums.
#[derive(Debug, Default)]
pub(crate) struct ChecksumComparison {
    /// Rows that do not have the values that were written: the table and the row.
    pub(crate) changed: Vec<String>,
    /// How many rows have no checksum, since an older version wrote them.
    pub(crate) unchecked: u64,
}

/// Compares all rows with their checksums; of each table at most so many changed ones are named.
pub(crate) fn verify_rows(snapshot: &Connection, limit: usize) -> Result<ChecksumComparison> {
    let is_checked = snapshot.query_row("SELECT is_checked FROM meta", [], |row| row.get::<_, i64>(0))? == 1;
    let mut verified = ChecksumComparison::default();
    for table in TABLES {
        let columns: Vec<&str> = table.parts.iter().copied().flatten().chain(table.counts).copied().collect();
        let sql = format!("SELECT {}, checksum, {} FROM {} t", table.row, columns.join(", "), table.name);
        let mut query = snapshot.prepare(&sql)?;
        let mut rows = query.query([])?;
        let mut named = 0;
        while let Some(row) = rows.next()? {
            match row.get::<_, Option<i64>>(1)? {
                None if !is_checked => verified.unchecked += 1,
                Some(checksum) if checksum.cast_unsigned() == table.row_checksum(row)? => {}
                Some(_) | None => {
                    if named < limit {
                        let name: Option<String> = row.get(0)?;
                        verified.changed.push(format!("{} {}", table.name, name.unwrap_or_default()));
                    }
                    named += 1;
                }
            }
        }
    }
    Ok(verified)
}

impl ChecksummedTable {
    /// Returns the checksum of the values of a row, which stand from the third column on.
    fn row_checksum(&self, row: &Row<'_>) -> Result<u64> {
        let (mut at, mut sums) = (2, Vec::with_capacity(self.parts.len() + 1));
        for (no, columns) in (0..).zip(self.parts) {
            let values =
                (at..at + columns.len()).map(|at| column_value(row, at)).collect::<Result<Vec<_>>>()?;
            sums.push(part_checksum(no, &values));
            at += columns.len();
        }
        let counts =
            (at..at + self.counts.len()).map(|at| column_value(row, at)).collect::<Result<Vec<_>>>()?;
        sums.push(counts_checksum(&counts));
        Ok(sum_part_checksums(sums))
    }
}

fn column_value<'a>(row: &'a Row<'_>, at: usize) -> Result<BoundValue<'a>> {
    Ok(match row.get_ref(at)? {
        ValueRef::Null => BoundValue::Null,
        ValueRef::Integer(number) => BoundValue::Int(number),
        // A text has the checksum of its bytes, so that one which is no text any more is no error here.
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => BoundValue::Bytes(bytes),
        // No table has such a column.
        ValueRef::Real(_) => BoundValue::Null,
    })
}
