//! Which file stands at a path, whatever its name.

use std::io;
use std::path::Path;

/// Which file stands at a path: two paths with one identity are one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileIdentity {
    #[cfg(unix)]
    device: u64,
    #[cfg(unix)]
    inode: u64,
}

impl FileIdentity {
    /// Reads the identity of the file at a path. Where the system gives files no number, all files are one.
    ///
    /// # Errors
    /// When there is none, or it cannot be looked at.
    pub(crate) fn from_path(path: &Path) -> io::Result<Self> {
        let metadata = path.metadata()?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;

            Ok(Self { device: metadata.dev(), inode: metadata.ino() })
        }
        #[cfg(not(unix))]
        {
            drop(metadata);
            Ok(Self {})
        }
    }
}
