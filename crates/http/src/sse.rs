//! Server-sent events, from bytes in whatever pieces they come.

use crate::error::{Error, Result};

/// One event of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedEvent {
    /// Its name, where the server gave one.
    pub name: Option<String>,
    /// Its data; the lines of it joined by `\n`.
    pub data: String,
}

/// Reads a stream of server-sent events, as the HTML standard describes it (§9.2.6), except that data which is not
/// UTF-8 is an error and not repaired. Ids, retry times and comments are passed over: nothing here reconnects.
///
/// Pure. However the bytes are cut, the events are the same.
#[derive(Debug)]
pub struct EventReader {
    limit: usize,
    /// The line that has not ended yet.
    line: Vec<u8>,
    /// The last byte was a CR: an LF that follows belongs to it.
    after_cr: bool,
    begun: bool,
    name: Option<String>,
    data: Option<String>,
}

impl EventReader {
    /// Makes a reader that refuses a line, and the data of an event, of more than this many bytes.
    #[must_use]
    pub fn new(line_bytes: usize) -> Self {
        Self { limit: line_bytes, line: Vec::new(), after_cr: false, begun: false, name: None, data: None }
    }

    /// Takes the next piece, and puts the events that it completes at the end of `out`.
    ///
    /// An event that the end of the stream cuts is never handed out, as the standard says.
    ///
    /// # Errors
    ///
    /// `http_stream_invalid` for a line or an event beyond the limit, and for data that is not UTF-8. Events read after
    /// an error have no meaning.
    pub fn push_bytes(&mut self, mut piece: &[u8], out: &mut Vec<ReceivedEvent>) -> Result<()> {
        while !piece.is_empty() {
            if std::mem::take(&mut self.after_cr) && piece[0] == b'\n' {
                piece = &piece[1..];
                continue;
            }
            let Some(end) = piece.iter().position(|it| matches!(it, b'\n' | b'\r')) else {
                self.check_size_limit(self.line.len() + piece.len())?;
                self.line.extend_from_slice(piece);
                return Ok(());
            };
            self.check_size_limit(self.line.len() + end)?;
            self.after_cr = piece[end] == b'\r';
            if self.line.is_empty() {
                self.process_line(&piece[..end], out)?;
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(&piece[..end]);
                self.process_line(&line, out)?;
                line.clear();
                self.line = line;
            }
            piece = &piece[end + 1..];
        }
        Ok(())
    }

    fn check_size_limit(&self, size: usize) -> Result<()> {
        if size <= self.limit {
            return Ok(());
        }
        Err(Error::Stream { problem: format!("a line or an event has more than {} bytes", self.limit) })
    }

    fn process_line(&mut self, line: &[u8], out: &mut Vec<ReceivedEvent>) -> Result<()> {
        let line = if std::mem::replace(&mut self.begun, true) {
            line
        } else {
            line.strip_prefix(BOM).unwrap_or(line)
        };
        if line.is_empty() {
            let name = self.name.take();
            out.extend(self.data.take().map(|data| ReceivedEvent { name, data }));
            return Ok(());
        }
        let (field, value) = match line.iter().position(|it| *it == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => self.append_data_line(parse_utf8_text(value)?)?,
            b"event" => {
                self.name = Some(parse_utf8_text(value)?.to_owned()).filter(|value| !value.is_empty())
            }
            _ => {}
        }
        Ok(())
    }

    fn append_data_line(&mut self, value: &str) -> Result<()> {
        let Some(data) = &mut self.data else {
            self.data = Some(value.to_owned());
            return Ok(());
        };
        data.push('\n');
        data.push_str(value);
        let size = data.len();
        self.check_size_limit(size)
    }
}

const BOM: &[u8] = b"\xef\xbb\xbf";

fn parse_utf8_text(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes)
        .map_err(|error| Error::Stream { problem: format!("the data of an event is not UTF-8: {error}") })
}

#[cfg(test)]
mod tests;
