//! Holds many event streams open, one beside the other, and counts their events and bytes.
//!
//! `hold-streams HOST:PORT STREAMS PREFIX SESSIONS` opens the streams, on as many sessions in turn, each from its
//! session's first event. It says `open` once all of them were answered, reads until its standard input ends, and
//! prints one JSON object.

use std::cell::Cell;
use std::io::{Read, Write};
use std::rc::Rc;

use futures_util::future::try_join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

type Failure = Box<dyn std::error::Error>;

/// How many connections are being made at a time.
const AT_ONCE: usize = 32;

/// The counters of one stream.
#[derive(Debug, Default)]
struct StreamCounters {
    events: Cell<u64>,
    bytes: Cell<u64>,
    lost: Cell<bool>,
}

/// Counts the lines that begin with `id:`, wherever reads cut them.
#[derive(Debug, Default)]
struct EventIdCounter {
    /// How much of `\nid:` was seen.
    matched: usize,
    seen: u64,
}

const ID_LINE: &[u8] = b"\nid:";

impl EventIdCounter {
    fn count_event_ids(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if *byte == ID_LINE[self.matched] {
                self.matched += 1;
            } else {
                self.matched = usize::from(*byte == ID_LINE[0]);
            }
            if self.matched == ID_LINE.len() {
                (self.matched, self.seen) = (0, self.seen + 1);
            }
        }
    }
}

/// Opens a stream and reads the head of its answer.
async fn open_stream(
    address: &str,
    session: &str,
    told: &StreamCounters,
) -> Result<(TcpStream, EventIdCounter), Failure> {
    let mut socket = TcpStream::connect(address).await?;
    let request = format!(
        "GET /v1/sessions/{session}/events HTTP/1.1\r\nHost: {address}\r\nAccept: text/event-stream\r\n\r\n"
    );
    socket.write_all(request.as_bytes()).await?;
    let (mut head, mut buffer) = (Vec::new(), [0; 4096]);
    let end = loop {
        if let Some(end) = head.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 2;
        }
        match socket.read(&mut buffer).await? {
            0 => return Err("the server closed a connection before it answered".into()),
            count => head.extend_from_slice(&buffer[..count]),
        }
    };
    if !head.starts_with(b"HTTP/1.1 200") {
        return Err(format!("no stream: {}", String::from_utf8_lossy(&head)).into());
    }
    let mut ids = EventIdCounter::default();
    ids.count_event_ids(&head[end..]);
    told.events.set(ids.seen);
    Ok((socket, ids))
}

/// Reads a stream for as long as it lasts.
async fn read_until_end((mut socket, mut ids): (TcpStream, EventIdCounter), told: Rc<StreamCounters>) {
    let mut buffer = [0; 4096];
    while let Ok(count) = socket.read(&mut buffer).await
        && count > 0
    {
        ids.count_event_ids(&buffer[..count]);
        told.events.set(ids.seen);
        told.bytes.set(told.bytes.get() + count as u64);
    }
    told.lost.set(true);
}

/// Opens all streams, says so, and reads them until the standard input ends.
async fn hold_all_streams(
    address: &str,
    streams: usize,
    prefix: &str,
    sessions: usize,
) -> Result<String, Failure> {
    let told: Vec<Rc<StreamCounters>> = (0..streams).map(|_| Rc::default()).collect();
    let next = Cell::new(0);
    let worker = || async {
        loop {
            let no = next.replace(next.get() + 1);
            let Some(told) = told.get(no) else { return Ok::<_, Failure>(()) };
            let opened = open_stream(address, &format!("{prefix}{}", no % sessions), told).await?;
            tokio::task::spawn_local(read_until_end(opened, told.clone()));
        }
    };
    try_join_all((0..AT_ONCE).map(|_| worker())).await?;
    writeln!(std::io::stdout(), "open")?;
    let (ended, end) = tokio::sync::oneshot::channel::<()>();
    std::thread::spawn(move || {
        // Whatever comes: only its end is waited for.
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap_or_default();
        drop(ended);
    });
    end.await.unwrap_or_default();
    let events = || told.iter().map(|item| item.events.get());
    Ok(serde_json::json!({
        "streams": streams,
        "events": events().sum::<u64>(),
        "fewest": events().min(),
        "most": events().max(),
        "bytes": told.iter().map(|item| item.bytes.get()).sum::<u64>(),
        "lost": told.iter().filter(|item| item.lost.get()).count(),
    })
    .to_string())
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, streams, prefix, sessions] = arguments.as_slice() else {
        return Err("hold-streams HOST:PORT STREAMS PREFIX SESSIONS".into());
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let (streams, sessions) = (streams.parse()?, sessions.parse()?);
    let told = runtime.block_on(
        tokio::task::LocalSet::new().run_until(hold_all_streams(address, streams, prefix, sessions)),
    )?;
    writeln!(std::io::stdout(), "{told}")?;
    Ok(())
}
