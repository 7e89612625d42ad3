//! The list of erased data: a file outside of a database, for restored backups (D25).
//!
//! A backup still holds data that was erased after it was made. A restore applies this list to it. The list holds keyed
//! hashes: it tells whether a known name was erased, but contains no names. Its key is in the file itself.

mod hash;
mod line;
mod list;
mod name;
mod writer;

pub use hash::hmac_of_texts;
pub use list::ErasureList;
pub use name::ErasedName;
pub use writer::ErasureListWriter;

/// The name of these operations in errors.
const DOING: &str = "keep the list of what was erased";
