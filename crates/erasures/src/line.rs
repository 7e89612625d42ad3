//! The lines of a list.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::Path;

use singletree_durable::{Error, Result, Timestamp};

use crate::DOING;

/// The length of a key and of a hash, in hexadecimal digits.
const KEY_LEN: usize = 64;
const HASH_LEN: usize = 64;

/// The longest line that is read as one: a longer one is no line of a list.
const LINE_BYTES_MAX: u64 = 256;

/// A line of a list.
pub(crate) enum ErasureListLine<'a> {
    Key(&'a str),
    Entry(Timestamp, &'a str),
    /// A whole line that no list has: the file is damaged, or another one.
    Foreign,
}

/// Reads a list line by line; a file that does not exist has none. A last line that a crash has cut is passed over.
pub(crate) fn for_each_line(path: &Path, mut take: impl FnMut(ErasureListLine<'_>)) -> Result<()> {
    let mut file = match File::open(path) {
        Ok(file) => BufReader::new(file),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(unavailable_error(error)),
    };
    let mut bytes = Vec::new();
    while (&mut file).take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes).map_err(unavailable_error)? > 0 {
        let is_whole = bytes.ends_with(b"\n") || bytes.len() as u64 == LINE_BYTES_MAX;
        match std::str::from_utf8(&bytes).map(|line| parse_line(line.trim_end())) {
            Ok(Some(line)) => take(line),
            Ok(None) | Err(_) if is_whole && bytes != b"\n" => take(ErasureListLine::Foreign),
            Ok(None) | Err(_) => {}
        }
        bytes.clear();
    }
    Ok(())
}

fn parse_line(line: &str) -> Option<ErasureListLine<'_>> {
    match line.split_once(' ')? {
        ("key", key) if key.len() == KEY_LEN => Some(ErasureListLine::Key(key)),
        (at, hash) if hash.len() == HASH_LEN => {
            Some(ErasureListLine::Entry(Timestamp::from_millis(at.parse().ok()?), hash))
        }
        _ => None,
    }
}

/// Returns the error of a list that cannot be read or written.
pub(crate) fn unavailable_error(error: std::io::Error) -> Error {
    match error.kind() {
        ErrorKind::StorageFull => Error::Full { doing: DOING, source: error.into() },
        _ => Error::Unavailable { doing: DOING, source: error.into() },
    }
}
