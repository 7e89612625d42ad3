//! A store whose weather the test makes: it counts, fails, and holds back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use singletree_durable::{
    Batch, BoxFuture, Error, Journal, JournalLayer, JournalRead, MaintenanceLayer, Result,
};
use singletree_store_testing::FailedWriteEffect;
use singletree_test_store::TestStore;
use tokio::sync::watch;

/// A memory store under a sky.
#[derive(Debug, Clone)]
pub(crate) struct Sky {
    pub(crate) store: TestStore,
    control: Arc<Control>,
    /// Whether it says that other processes write it, so that it is waited for.
    is_shared: bool,
}

#[derive(Debug)]
struct Control {
    reads: AtomicU64,
    applies: AtomicU64,
    /// The calls of `apply`, by number, that fail, from and to (past the end).
    fail: std::sync::Mutex<Option<(u64, u64, FailedWriteEffect)>>,
    /// A failing write says that it does not know whether it will be there after a restart (D38).
    in_doubt: AtomicBool,
    /// A failing write says that there is no space.
    full: AtomicBool,
    blind: AtomicBool,
    open: watch::Sender<bool>,
    held: watch::Sender<u64>,
    /// The write itself is held back, and not only its answer.
    late: AtomicBool,
    /// The read whose next answer is on its way for a while.
    lingers: std::sync::Mutex<Option<JournalRead>>,
    arrived: watch::Sender<bool>,
    /// Whether an answer is held back until it arrives.
    is_lingering: watch::Sender<bool>,
}

impl Sky {
    pub(crate) fn over(store: TestStore) -> Self {
        let control = Control {
            reads: AtomicU64::new(0),
            applies: AtomicU64::new(0),
            fail: std::sync::Mutex::default(),
            in_doubt: AtomicBool::new(false),
            full: AtomicBool::new(false),
            blind: AtomicBool::new(false),
            open: watch::Sender::new(true),
            held: watch::Sender::new(0),
            late: AtomicBool::new(false),
            lingers: std::sync::Mutex::default(),
            arrived: watch::Sender::new(true),
            is_lingering: watch::Sender::new(false),
        };
        Self { store, control: Arc::new(control), is_shared: false }
    }

    /// As [`Sky::over`], for a store that other processes write, too.
    pub(crate) fn over_shared(store: TestStore) -> Self {
        Self { is_shared: true, ..Self::over(store) }
    }

    /// Lets no call succeed until it is cleared.
    pub(crate) fn fall(&self) {
        self.blind();
        self.fail(1, u64::MAX, FailedWriteEffect::Before);
    }

    pub(crate) fn calls(&self) -> u64 {
        self.control.reads.load(Ordering::SeqCst) + self.applies()
    }

    pub(crate) fn applies(&self) -> u64 {
        self.control.applies.load(Ordering::SeqCst)
    }

    /// Makes calls of `apply` fail, counted from the next one, which is 1.
    pub(crate) fn fail(&self, from: u64, count: u64, land: FailedWriteEffect) {
        let from = self.applies() + from;
        *self.control.fail.lock().unwrap() = Some((from, from.saturating_add(count), land));
    }

    /// Makes the next call of `apply` fail so that nobody knows whether it is there after a restart.
    pub(crate) fn fail_in_doubt(&self) {
        self.control.in_doubt.store(true, Ordering::SeqCst);
        self.fail(1, 1, FailedWriteEffect::Before);
    }

    /// As [`Sky::fail`], for want of space.
    pub(crate) fn fill(&self, from: u64, count: u64) {
        self.control.full.store(true, Ordering::SeqCst);
        self.fail(from, count, FailedWriteEffect::Before);
    }

    pub(crate) fn clear(&self) {
        self.control.full.store(false, Ordering::SeqCst);
        self.control.in_doubt.store(false, Ordering::SeqCst);
        *self.control.fail.lock().unwrap() = None;
        self.control.blind.store(false, Ordering::SeqCst);
    }

    /// Makes all reads fail.
    pub(crate) fn blind(&self) {
        self.control.blind.store(true, Ordering::SeqCst);
    }

    /// Holds the answers of all writes back, from now on.
    pub(crate) fn hold(&self) {
        self.control.open.send_replace(false);
        self.control.held.send_replace(0);
    }

    /// Holds all writes back, from now on: nobody reads their rows.
    pub(crate) fn delay(&self) {
        self.control.late.store(true, Ordering::SeqCst);
        self.hold();
    }

    /// Holds the next answer to such a read back: when it arrives it may be old.
    pub(crate) fn linger(&self, read: JournalRead) {
        *self.control.lingers.lock().unwrap() = Some(read);
        self.control.arrived.send_replace(false);
        self.control.is_lingering.send_replace(false);
    }

    /// Waits until the answer is read and held back.
    pub(crate) async fn lingers(&self) {
        self.control.is_lingering.subscribe().wait_for(|it| *it).await.unwrap();
    }

    pub(crate) fn arrive(&self) {
        self.control.arrived.send_replace(true);
    }

    /// Waits until so many answers are held back.
    pub(crate) async fn holds(&self, count: u64) {
        self.control.held.subscribe().wait_for(|it| *it >= count).await.unwrap();
    }

    pub(crate) fn release(&self) {
        self.control.late.store(false, Ordering::SeqCst);
        self.control.open.send_replace(true);
    }
}

impl Control {
    /// Waits where answers are held back.
    async fn pass(&self) {
        let mut open = self.open.subscribe();
        if !*open.borrow_and_update() {
            self.held.send_modify(|it| *it += 1);
            open.wait_for(|it| *it).await.unwrap();
        }
    }
}

impl JournalLayer for Sky {
    type Journal = TestStore;

    fn inner_journal(&self) -> &Self::Journal {
        &self.store
    }

    fn is_shared(&self) -> bool {
        self.is_shared
    }

    fn write_batch(&self, batch: Batch) -> BoxFuture<'static, Result<()>> {
        let call = self.control.applies.fetch_add(1, Ordering::SeqCst) + 1;
        let fail = self.control.fail.lock().unwrap().filter(|(from, to, _)| (*from..*to).contains(&call));
        let lands = fail.is_none_or(|(_, _, land)| land == FailedWriteEffect::After);
        let control = self.control.clone();
        if control.late.load(Ordering::SeqCst) {
            if !lands {
                let source = "hail".into();
                return Box::pin(std::future::ready(Err(Error::Unavailable { doing: "write", source })));
            }
            let store = self.store.clone();
            return Box::pin(async move {
                control.pass().await;
                store.apply(batch).await
            });
        }
        let landing = lands.then(|| self.store.apply(batch));
        Box::pin(async move {
            let answer = match landing {
                Some(landing) => landing.await,
                None => Ok(()),
            };
            control.pass().await;
            match fail {
                Some(_) if control.in_doubt.load(Ordering::SeqCst) => {
                    Err(Error::CommitUnknown { doing: "write", source: "hail".into() })
                }
                Some(_) if control.full.load(Ordering::SeqCst) => {
                    Err(Error::Full { doing: "write", source: "hail".into() })
                }
                Some(_) => Err(Error::Unavailable { doing: "write", source: "hail".into() }),
                None => answer,
            }
        })
    }

    fn wrap_read<'a, T: Send + 'a>(
        &'a self,
        read: JournalRead,
        answer: BoxFuture<'a, Result<T>>,
    ) -> BoxFuture<'a, Result<T>> {
        self.control.reads.fetch_add(1, Ordering::SeqCst);
        if self.control.blind.load(Ordering::SeqCst) {
            let source = "fog".into();
            return Box::pin(std::future::ready(Err(Error::Unavailable { doing: "read", source })));
        }
        let mut lingers = self.control.lingers.lock().unwrap();
        if *lingers != Some(read) {
            return answer;
        }
        *lingers = None;
        Box::pin(async move {
            let answer = answer.await;
            self.control.is_lingering.send_replace(true);
            self.control.arrived.subscribe().wait_for(|it| *it).await.unwrap();
            answer
        })
    }
}

impl MaintenanceLayer for Sky {
    type Maintenance = TestStore;

    fn inner_maintenance(&self) -> &Self::Maintenance {
        &self.store
    }
}
