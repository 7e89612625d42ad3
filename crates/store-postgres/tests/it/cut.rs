//! Connections that break around a commit: its outcome is settled, and nothing is written twice or lost.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use singletree_durable::{EventRow, Journal, RowMutation, Timestamp};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

use crate::contract::FUNCTIONS;
use crate::ownership::{fence, head_batch, key};
use crate::server::{Server, open, url_at};

/// Messages to the server that contain this text may be the last ones of their connection.
const MARK: &str = "cut-here";

/// The name of a server's socket.
const SOCKET: &str = ".s.PGSQL.5432";

/// When a connection is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    /// Before the message reaches the server.
    Before,
    /// After the server has answered it, before the answer reaches the client.
    After,
    /// The message is kept, and reaches the server when the test wants it to.
    Late,
}

/// Passes bytes between clients and the server, and cuts so many connections at a marked message.
#[derive(Debug)]
struct Proxy {
    server: PathBuf,
    left: AtomicUsize,
    cut: Cut,
    /// A message that was kept, with its connection to the server.
    late: Mutex<Option<(UnixStream, Vec<u8>)>>,
}

impl Proxy {
    fn start(server: &Server, dir: &Path, cut: Cut) -> Arc<Self> {
        let server = server.socket_dir().join(SOCKET);
        let proxy = Arc::new(Self { server, left: AtomicUsize::new(0), cut, late: Mutex::default() });
        proxy.listen(dir.join(SOCKET));
        proxy
    }

    fn listen(self: &Arc<Self>, at: PathBuf) {
        let listener = UnixListener::bind(at).unwrap();
        let proxy = self.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let proxy = proxy.clone();
                tokio::spawn(async move { proxy.pass(client).await });
            }
        });
    }

    async fn pass(&self, mut client: UnixStream) {
        let mut server = UnixStream::connect(&self.server).await.unwrap();
        let (mut from_client, mut from_server) = (vec![0; 1 << 16], vec![0; 1 << 16]);
        let mut is_doomed = false;
        loop {
            tokio::select! {
                read = client.read(&mut from_client) => {
                    let Ok(count @ 1..) = read else { return };
                    let message = &from_client[..count];
                    let is_marked = message.windows(MARK.len()).any(|window| window == MARK.as_bytes());
                    let take = |left: usize| left.checked_sub(1);
                    if is_marked
                        && self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok()
                    {
                        match self.cut {
                            Cut::Before => return,
                            Cut::Late => {
                                *self.late.lock().unwrap() = Some((server, message.to_vec()));
                                return;
                            }
                            Cut::After => is_doomed = true,
                        }
                    }
                    if server.write_all(message).await.is_err() {
                        return;
                    }
                }
                read = server.read(&mut from_server) => {
                    let Ok(count @ 1..) = read else { return };
                    // The answer is there: the statement has been committed.
                    if is_doomed || client.write_all(&from_server[..count]).await.is_err() {
                        return;
                    }
                }
            }
        }
    }
}

// INV-2, INV-3; D20
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_connection_breaks_is_settled_and_the_session_goes_on() {
    let Some(server) = Server::start("a_commit_whose_connection_breaks_is_settled").await else { return };
    drop(server.database("cut").await);
    for (no, cut) in [Cut::Before, Cut::After].into_iter().enumerate() {
        for times in [1, 3] {
            let dir = tempfile::tempdir().unwrap();
            let proxy = Proxy::start(&server, dir.path(), cut);
            let store = open(&url_at(dir.path(), "cut")).await;
            let session = format!("s{no}-{times}");
            let held = fence(&store, &session).await;
            store.apply(head_batch(&session, held, 1)).await.unwrap();

            proxy.left.store(times, Ordering::SeqCst);
            let mut marked = head_batch(&session, held, 2);
            marked.put(RowMutation::Event(EventRow {
                seq: 0,
                turn: 0,
                kind: MARK.to_owned(),
                item: None,
                at: Timestamp::from_millis(0),
                body: None,
            }));
            let next = store.apply(marked);
            let behind = store.apply(head_batch(&session, held, 3));
            next.await.unwrap();
            behind.await.unwrap();
            assert_eq!(proxy.left.load(Ordering::SeqCst), if cut == Cut::After { times - 1 } else { 0 });
            // Under the fence that was told, although settling has raised it.
            store.apply(head_batch(&session, held, 4)).await.unwrap();
            let events = store.read_events(&key(&session), 0, 9).await.unwrap();
            assert_eq!(events.len(), 1, "{cut:?}");
            let row = store.read_session(&key(&session)).await.unwrap().unwrap();
            assert_eq!(row.head.version, 4, "{cut:?}");
            store.close().await;
        }
    }
}

/// Writes versions 2 to 4 of a session, where the statement of the second is lost and lands after the others; returns the
/// version that stays.
async fn land_late(server: &Server, database: &str, functions: &str) -> u64 {
    let admin = server.database(database).await;
    drop(open(&server.url(database)).await);
    admin.batch_execute(functions).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let proxy = Proxy::start(server, dir.path(), Cut::Late);
    let store = open(&url_at(dir.path(), database)).await;
    let held = fence(&store, "s").await;
    store.apply(head_batch("s", held, 1)).await.unwrap();
    proxy.left.store(1, Ordering::SeqCst);
    let mut marked = head_batch("s", held, 2);
    marked.put(RowMutation::DropField(MARK.to_owned()));
    store.apply(marked).await.unwrap();
    for version in [3, 4] {
        store.apply(head_batch("s", held, version)).await.unwrap();
    }
    let (mut connection, message) = proxy.late.lock().unwrap().take().unwrap();
    connection.write_all(&message).await.unwrap();
    assert_ne!(connection.read(&mut [0; 1 << 12]).await.unwrap(), 0, "the server answers");
    let version = store.read_session(&key("s")).await.unwrap().unwrap().head.version;
    store.close().await;
    version
}

// INV-1, INV-3: settling a lost commit makes its statement stale, wherever it still is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_lands_after_its_commit_was_settled_changes_nothing() {
    let Some(server) = Server::start("a_statement_that_lands_after_its_commit_was_settled").await else {
        return;
    };
    assert_eq!(land_late(&server, "late", FUNCTIONS).await, 4);
    // The test finds both faults that would let it land: the fence left out, and an outcome that is only read.
    let fence = "AND owner = by_owner AND fence = under_fence;";
    let raise = "SET fence = nextval('singletree.fence')";
    for (database, text, fault) in
        [("late_fence", fence, "AND owner = by_owner;"), ("late_read", raise, "SET fence = l.fence")]
    {
        assert!(FUNCTIONS.contains(text), "the functions have no {text:?}");
        assert_eq!(land_late(&server, database, &FUNCTIONS.replace(text, fault)).await, 2, "{fault}");
    }
}
