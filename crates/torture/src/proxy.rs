//! A proxy between a node and the database, which cuts connections at a message, and holds messages back.

use std::io::{self, Read, Write};
use std::mem;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use crate::error::{Error, Result};

/// Where the database listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DatabaseAddress {
    /// A socket in the file system.
    Unix(PathBuf),
    /// A host and a port.
    Tcp(String, u16),
}

/// At which message connections are cut: one message is everything that the node sends at once, such as a statement with its
/// parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PlannedCut {
    /// How many messages of the node pass first.
    pub(crate) skip: u64,
    /// How many connections are cut, one message after the other.
    pub(crate) count: u64,
    pub(crate) side: CutSide,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CutSide {
    /// The message does not reach the database.
    Before,
    /// The database has answered, and the answer does not reach the node: a commit has landed.
    After,
}

/// Passes bytes between one node and the database.
#[derive(Debug)]
pub(crate) struct CuttingProxy {
    port: u16,
    shared: Arc<ProxyState>,
}

#[derive(Debug)]
struct ProxyState {
    database: DatabaseAddress,
    /// Guards the next cut; held for the moment of a decision.
    next: Mutex<Option<PlannedCut>>,
    cuts: AtomicU64,
    ended: AtomicBool,
    /// The open connections of the node. Guards the list alone.
    open: Mutex<Vec<TcpStream>>,
    /// Whether messages of the node are held back. Waited for with `released`.
    is_held: Mutex<bool>,
    released: Condvar,
}

impl CuttingProxy {
    /// Listens on a port of this machine until it is dropped.
    pub(crate) fn start(database: DatabaseAddress) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(proxy_error)?;
        let port = listener.local_addr().map_err(proxy_error)?.port();
        let shared = Arc::new(ProxyState {
            database,
            next: Mutex::default(),
            cuts: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            open: Mutex::default(),
            is_held: Mutex::default(),
            released: Condvar::new(),
        });
        let state = shared.clone();
        spawn_thread(move || {
            for client in listener.incoming() {
                if state.ended.load(Ordering::Relaxed) {
                    return;
                }
                // A database that is away refuses the connection; so does this.
                let Ok(client) = client else { continue };
                state.clone().pass(client).unwrap_or_default();
            }
        })
        .map_err(proxy_error)?;
        Ok(Self { port, shared })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Sets the next cut; `None` cuts nothing.
    pub(crate) fn set_next_cut(&self, cut: Option<PlannedCut>) {
        *self.shared.next.lock().unwrap_or_else(PoisonError::into_inner) = cut;
    }

    /// Holds messages of the node back, or lets them pass again: those that were held arrive then, also when the node has
    /// ended.
    pub(crate) fn hold_messages(&self, hold: bool) {
        *self.shared.is_held.lock().unwrap_or_else(PoisonError::into_inner) = hold;
        self.shared.released.notify_all();
    }

    /// Cuts all connections now. What has reached the database is done all the same.
    pub(crate) fn cut_all(&self) {
        let open = mem::take(&mut *self.shared.open.lock().unwrap_or_else(PoisonError::into_inner));
        for stream in open {
            // One that is closed already is not cut.
            if stream.shutdown(Shutdown::Both).is_ok() {
                self.shared.cuts.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Returns how many connections were cut.
    pub(crate) fn cut_count(&self) -> u64 {
        self.shared.cuts.load(Ordering::Relaxed)
    }
}

impl Drop for CuttingProxy {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        self.hold_messages(false);
        // The listener looks at the flag when somebody comes.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

impl ProxyState {
    fn wait_while_held(&self) {
        let held = self.is_held.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.released.wait_while(held, |is_held| *is_held).unwrap_or_else(PoisonError::into_inner));
    }

    /// Takes down a message of the node; returns the side of a cut that is due with it.
    fn take_due_cut(&self) -> Option<CutSide> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let planned = next.as_mut()?;
        if planned.skip > 0 {
            planned.skip -= 1;
            return None;
        }
        let side = planned.side;
        planned.count = planned.count.saturating_sub(1);
        if planned.count == 0 {
            *next = None;
        }
        self.cuts.fetch_add(1, Ordering::Relaxed);
        Some(side)
    }

    /// Passes the bytes of a connection, in two threads, until one side or a cut ends it.
    fn pass(self: Arc<Self>, client: TcpStream) -> io::Result<()> {
        client.set_nodelay(true)?;
        let database = DatabaseSocket::connect(&self.database)?;
        let is_doomed = Arc::new(AtomicBool::new(false));
        {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            open.retain(|stream| stream.peer_addr().is_ok());
            open.push(client.try_clone()?);
        }
        let (from_client, to_client) = (client.try_clone()?, client);
        let (to_database, from_database) = (database.try_clone()?, database);
        let doomed = is_doomed.clone();
        spawn_thread(move || {
            let (mut from, mut to) = (from_client, to_database);
            copy_messages(&mut from, &mut to, || {
                self.wait_while_held();
                match self.take_due_cut() {
                    Some(CutSide::Before) => false,
                    Some(CutSide::After) => {
                        doomed.store(true, Ordering::SeqCst);
                        true
                    }
                    None => true,
                }
            });
            // One that is closed already needs no more.
            to.close();
            from.shutdown(Shutdown::Both).unwrap_or_default();
        })?;
        spawn_thread(move || {
            let (mut from, mut to) = (from_database, to_client);
            copy_messages(&mut from, &mut to, || !is_doomed.load(Ordering::SeqCst));
            from.close();
            to.shutdown(Shutdown::Both).unwrap_or_default();
        })
    }
}

/// The connection to the database.
enum DatabaseSocket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl DatabaseSocket {
    fn connect(database: &DatabaseAddress) -> io::Result<Self> {
        Ok(match database {
            DatabaseAddress::Unix(path) => Self::Unix(UnixStream::connect(path)?),
            DatabaseAddress::Tcp(host, port) => {
                let stream = TcpStream::connect((host.as_str(), *port))?;
                stream.set_nodelay(true)?;
                Self::Tcp(stream)
            }
        })
    }

    fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Unix(stream) => Self::Unix(stream.try_clone()?),
            Self::Tcp(stream) => Self::Tcp(stream.try_clone()?),
        })
    }

    fn close(&self) {
        let closed = match self {
            Self::Unix(stream) => stream.shutdown(Shutdown::Both),
            Self::Tcp(stream) => stream.shutdown(Shutdown::Both),
        };
        closed.unwrap_or_default();
    }
}

impl Read for DatabaseSocket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(buffer),
            Self::Tcp(stream) => stream.read(buffer),
        }
    }
}

impl Write for DatabaseSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(bytes),
            Self::Tcp(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Copies until one side ends, or `may_pass` says of a message that it does not pass.
fn copy_messages(from: &mut impl Read, to: &mut impl Write, mut may_pass: impl FnMut() -> bool) {
    let mut buffer = vec![0; MESSAGE];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let message = buffer.get(..count).unwrap_or_default();
        if !may_pass() || to.write_all(message).is_err() {
            return;
        }
    }
}

/// How much is read at once, in bytes.
const MESSAGE: usize = 64 << 10;

fn spawn_thread(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name("torture-proxy".to_owned()).spawn(work).map(drop)
}

fn proxy_error(source: io::Error) -> Error {
    Error::Child { doing: "connect through the proxy", source }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers each message with itself.
    fn start_echo() -> DatabaseAddress {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut from, mut to) = (stream.as_ref().unwrap(), stream.as_ref().unwrap());
                copy_messages(&mut from, &mut to, || true);
            }
        });
        DatabaseAddress::Tcp("127.0.0.1".to_owned(), port)
    }

    fn ask(stream: &mut TcpStream) -> usize {
        stream.write_all(b"message").unwrap();
        stream.read(&mut [0; 16]).unwrap_or(0)
    }

    #[test]
    fn a_connection_is_cut_at_the_message_that_was_planned_and_the_next_one_is_not() {
        for side in [CutSide::Before, CutSide::After] {
            let proxy = CuttingProxy::start(start_echo()).unwrap();
            let mut stream = TcpStream::connect(("127.0.0.1", proxy.port())).unwrap();
            assert_eq!(ask(&mut stream), 7);
            proxy.set_next_cut(Some(PlannedCut { skip: 1, count: 1, side }));
            assert_eq!(
                [ask(&mut stream), ask(&mut stream), proxy.cut_count() as usize],
                [7, 0, 1],
                "{side:?}"
            );
            let mut stream = TcpStream::connect(("127.0.0.1", proxy.port())).unwrap();
            assert_eq!([ask(&mut stream), ask(&mut stream), proxy.cut_count() as usize], [7, 7, 1]);
        }
    }
}
