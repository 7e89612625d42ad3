//! Whose file it is, and of which version (INV-13).

use rusqlite::Connection;
use singletree_durable::{Error, FencingToken, Result};

use crate::checksum;
use crate::error::translate_error;
use crate::name_hash::hash_old_names;

/// Marks a file as ours: "sing".
const APPLICATION: i32 = 0x7369_6e67;

/// The migrations, one for each version; the first creates version 1 in an empty file.
const STEPS: &[&str] = &[
    include_str!("schema/v1.sql"),
    include_str!("schema/v2.sql"),
    include_str!("schema/v3.sql"),
    include_str!("schema/v4.sql"),
];

/// The first version in which names of deleted sessions are hashes.
const NAMES_HASHED: usize = 4;

/// The first version that has a place for documents.
pub(crate) const SHELF: i32 = 3;

/// The first version whose rows have checksums.
pub(crate) const CHECKED: i32 = 4;

/// The first version that counts the bytes of a tenant's blobs.
pub(crate) const BLOB_ACCOUNTS: i32 = 4;

/// The `meta` row of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DatabaseMetadata {
    /// The fence of its last writer.
    pub(crate) fence: FencingToken,
    /// The epoch of its event ids.
    pub(crate) log_epoch: String,
    /// Its version.
    pub(crate) version: i32,
}

/// Tells whether a file is ours and readable (true), empty (false), or something else (refused).
///
/// Writes nothing.
///
/// # Errors
/// `store_format_unsupported` for files of other applications and newer versions, `store_corrupt` for a file that is no
/// database.
pub(crate) fn inspect_format(connection: &Connection) -> Result<bool> {
    let (application, version) =
        read_format_marks(connection).map_err(|error| translate_error(error, "read its format"))?;
    let known = known_version();
    if application == 0 && version == 0 {
        return match is_empty_database(connection)
            .map_err(|error| translate_error(error, "read its format"))?
        {
            true => Ok(false),
            false => {
                Err(Error::Format { found: "of another application".to_owned(), known: version_name(known) })
            }
        };
    }
    if application != APPLICATION {
        let found = format!("of another application ({application:#010x})");
        return Err(Error::Format { found, known: version_name(known) });
    }
    if version < 1 || version > known {
        return Err(Error::Format { found: version_name(version), known: version_name(known) });
    }
    Ok(true)
}

/// Refuses an empty file where only a reader is wanted.
pub(crate) fn empty_file_error() -> Error {
    Error::Format { found: "nothing: an empty file".to_owned(), known: version_name(known_version()) }
}

/// Migrates a file that [`inspect`] has accepted to this version and raises its fence, in one transaction. A copy gets
/// an epoch of its own: from here on its log differs from the log of the original.
pub(crate) fn take_over_file(connection: &mut Connection) -> rusqlite::Result<DatabaseMetadata> {
    let change = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let (_, version) = read_format_marks(&change)?;
    let done = usize::try_from(version).unwrap_or(0);
    for step in STEPS.iter().skip(done) {
        change.execute_batch(step)?;
    }
    if done < NAMES_HASHED {
        hash_old_names(&change)?;
    }
    if done < STEPS.len() {
        change.pragma_update(None, "application_id", APPLICATION)?;
        change.pragma_update(None, "user_version", known_version())?;
    }
    if done == 0 {
        change.execute("UPDATE meta SET is_checked = 1", [])?;
    }
    change.execute(
        "UPDATE meta SET fence = fence + 1, is_copy = 0, \
         log_epoch = iif(is_copy, lower(hex(randomblob(8))), log_epoch)",
        [],
    )?;
    checksum::seal_meta_row(&change)?;
    let meta = read_metadata(&change)?;
    change.commit()?;
    Ok(meta)
}

/// Reads the `meta` row of a file of ours.
pub(crate) fn read_metadata(connection: &Connection) -> rusqlite::Result<DatabaseMetadata> {
    let (_, version) = read_format_marks(connection)?;
    connection.query_row("SELECT fence, log_epoch FROM meta", [], |row| {
        Ok(DatabaseMetadata {
            fence: FencingToken(crate::column::read_number(row, 0)?),
            log_epoch: row.get(1)?,
            version,
        })
    })
}

/// Reads the fence under which the file may be written.
pub(crate) fn read_fence(connection: &Connection) -> rusqlite::Result<FencingToken> {
    connection
        .prepare_cached("SELECT fence FROM meta")?
        .query_row([], |row| crate::column::read_number(row, 0))
        .map(FencingToken)
}

/// Marks a file that was just copied as a copy. Its epoch is new already, for those who only read it.
pub(crate) fn mark_as_copy(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute("UPDATE meta SET is_copy = 1, log_epoch = lower(hex(randomblob(8)))", [])?;
    // A copy has the format of the original.
    match read_format_marks(connection)? {
        (_, version) if version >= CHECKED => checksum::seal_meta_row(connection),
        _ => Ok(()),
    }
}

fn read_format_marks(connection: &Connection) -> rusqlite::Result<(i32, i32)> {
    let mark = |name| connection.pragma_query_value(None, name, |row| row.get(0));
    Ok((mark("application_id")?, mark("user_version")?))
}

fn is_empty_database(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("SELECT NOT EXISTS (SELECT 1 FROM sqlite_schema)", [], |row| row.get(0))
}

fn known_version() -> i32 {
    i32::try_from(STEPS.len()).expect("there are only as many versions as people wrote")
}

fn version_name(version: i32) -> String {
    format!("version {version}")
}
