//! The environment that a configuration is read in.

use std::fmt;
use std::path::Path;

/// The environment that a configuration is read in: nothing of it is asked for anywhere else (INV-17).
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// The folder that relative paths start from: that of the file.
    pub folder: &'a Path,
    /// Looks an environment variable up.
    pub env: &'a (dyn Fn(&str) -> Option<String> + Sync),
}

impl fmt::Debug for Surroundings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Surroundings").field("folder", &self.folder).finish_non_exhaustive()
    }
}
