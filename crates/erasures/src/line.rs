//! The lines of a list.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::Path;

use singletree_durable::{Error, Result, Timestamp};

use crate::DOING;

/// The length of a key and of a hash, in hexadecimal digits.
const KEY_LEN: usize = 64;
const HASH_LEN: usize = 64;

/// A line of a list.
pub(crate) enum ErasureListLine<'a> {
    Key(&'a str),
    Entry(Timestamp, &'a str),
}

/// Reads a list line by line; a file that does not exist has none.
pub(crate) fn for_each_line(path: &Path, take: impl FnMut(ErasureListLine<'_>)) -> Result<()> {
    match File::open(path) {
        Ok(file) => for_each_line_of(file, take),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(unavailable_error(error)),
    }
}

/// Reads the lines of an open list. Lines that are cut or damaged are passed over.
pub(crate) fn for_each_line_of(file: impl Read, mut take: impl FnMut(ErasureListLine<'_>)) -> Result<()> {
    let (mut file, mut bytes) = (BufReader::new(file), Vec::new());
    while file.read_until(b'\n', &mut bytes).map_err(unavailable_error)? > 0 {
        let line = std::str::from_utf8(&bytes).ok().and_then(|line| line.trim_end().split_once(' '));
        match line {
            Some(("key", key)) if key.len() == KEY_LEN => take(ErasureListLine::Key(key)),
            Some((at, hash)) if hash.len() == HASH_LEN => {
                if let Ok(at) = at.parse() {
                    take(ErasureListLine::Entry(Timestamp::from_millis(at), hash));
                }
            }
            Some(_) | None => {}
        }
        bytes.clear();
    }
    Ok(())
}

/// Returns the error of a list that cannot be read or written.
pub(crate) fn unavailable_error(error: std::io::Error) -> Error {
    match error.kind() {
        ErrorKind::StorageFull => Error::Full { doing: DOING, source: error.into() },
        _ => Error::Unavailable { doing: DOING, source: error.into() },
    }
}
