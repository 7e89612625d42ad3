//! A server in a thread that answers as a test says.

use std::io::{BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

/// One request as it came.
#[derive(Debug)]
pub(crate) struct Asked {
    /// The path and query.
    pub(crate) path: String,
    /// Head and body, as text.
    pub(crate) text: String,
}

/// The server's reaction to a request.
#[derive(Debug)]
pub(crate) enum Answer {
    /// Writes these bytes, a few at a time, and closes.
    Bytes(Vec<u8>),
    /// Writes these bytes and then nothing more, but keeps the connection.
    Stall(Vec<u8>),
}

impl Answer {
    /// Answers with a status, a content type, further lines of the head, and a body.
    pub(crate) fn of(status: u16, kind: &str, head: &str, body: &[u8]) -> Self {
        Self::Bytes(written(status, kind, head, body))
    }
}

/// Writes an answer that ends when the connection does.
pub(crate) fn written(status: u16, kind: &str, head: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status} Said\r\ncontent-type: {kind}\r\nconnection: close\r\n{head}\r\n");
    [head.as_bytes(), body].concat()
}

/// The server; it ends with the value.
#[derive(Debug)]
pub(crate) struct Served {
    address: SocketAddr,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    pub(crate) fn new(answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, over) = (listener.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
        let seen = over.clone();
        let answer = Arc::new(answer);
        let thread = std::thread::spawn(move || {
            // Stalled connections are released when these are dropped.
            let mut stalled = Vec::new();
            for stream in listener.incoming() {
                if seen.load(Ordering::SeqCst) {
                    return;
                }
                let (stream, answer) = (stream.unwrap(), answer.clone());
                let (release, released) = mpsc::channel::<()>();
                stalled.push(release);
                std::thread::spawn(move || {
                    // A client that hangs up in the middle is no failure: some tests do that.
                    let _gone = serve(stream, &*answer, &released);
                });
            }
        });
        Self { address, over, thread: Some(thread) }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        let woken = TcpStream::connect(self.address);
        drop(woken);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

fn serve(
    mut stream: TcpStream,
    answer: &(dyn Fn(&Asked) -> Answer + Send + Sync),
    released: &mpsc::Receiver<()>,
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let Some(asked) = read(&mut BufReader::new(stream.try_clone()?))? else { return Ok(()) };
    let (bytes, stall) = match answer(&asked) {
        Answer::Bytes(bytes) => (bytes, false),
        Answer::Stall(bytes) => (bytes, true),
    };
    // An odd number, so that characters and lines are cut.
    for piece in bytes.chunks(57) {
        stream.write_all(piece)?;
    }
    if stall {
        // Ends with an error, when the sender is dropped.
        let _over = released.recv();
    }
    Ok(())
}

fn read(reader: &mut impl std::io::BufRead) -> std::io::Result<Option<Asked>> {
    let (mut text, mut length) = (String::new(), 0);
    loop {
        let start = text.len();
        if reader.read_line(&mut text)? == 0 {
            return Ok(None);
        }
        let line = text[start..].trim_end();
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let path = text.split(' ').nth(1).unwrap_or_default().to_owned();
    text.push_str(&String::from_utf8_lossy(&body));
    Ok(Some(Asked { path, text }))
}
