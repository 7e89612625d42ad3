//! A commit that changes nothing: it shows that the file can be written.

use crate::error::BatchFailure;
use crate::meter::WriteTransaction;

/// Bytes that must fit after a write has found no space: a small change fits into a log that is there, long after
/// messages do not.
const SPACE: usize = 256 << 10;

/// Writes a page as it is; after a write found no space also some more, which is removed in the same transaction.
pub(crate) fn commit_nothing(scribe: &WriteTransaction<'_>, is_starved: bool) -> Result<(), BatchFailure> {
    // SQLite writes no page whose content is the same as before, so that it is changed and changed back.
    for difference in [1_i64, -1] {
        scribe.execute_write("UPDATE meta SET fence = fence + ?", &[difference.into()])?;
    }
    if is_starved {
        let body = format!("\"{}\"", "x".repeat(SPACE));
        let sql = "INSERT INTO document (tenant, kind, id, version, body) VALUES ('operator', 'probe', 'space', 1, ?)";
        scribe.execute_write(sql, &[(&body).into()])?;
        // Removed pages are overwritten (`secure_delete`), and so are part of the commit.
        scribe.execute_write("DELETE FROM document WHERE tenant = 'operator' AND kind = 'probe'", &[])?;
    }
    Ok(())
}
