//! How large a database is.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use crate::Failure;

/// Returns pages times page size as a fresh reader sees them: pages in the log count, the log's slack does not. 0
/// where there is no file.
pub(crate) fn database_bytes(path: &Path) -> Result<u64, Failure> {
    if !path.exists() {
        return Ok(0);
    }
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let bytes = pragma("page_count")? * pragma("page_size")?;
    Ok(bytes.unsigned_abs())
}

/// Returns the sizes of the file and of those that SQLite keeps beside it, together.
pub(crate) fn database_file_bytes(path: &Path) -> Result<u64, Failure> {
    let mut sum = 0;
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        match std::fs::metadata(PathBuf::from(name)) {
            Ok(it) => sum += it.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(sum)
}
