//! A store whose weather the test makes: it counts, fails, and holds back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use singletree_durable::{Batch, BoxFuture, Error, Journal, Land, Layer, MemoryStore, Read, Result, Upkeep};
use tokio::sync::watch;

/// A memory store under a sky.
#[derive(Debug, Clone)]
pub(crate) struct Sky {
    pub(crate) store: MemoryStore,
    control: Arc<Control>,
}

#[derive(Debug)]
struct Control {
    reads: AtomicU64,
    applies: AtomicU64,
    /// The calls of `apply`, by number, that fail, from and to (past the end).
    fail: std::sync::Mutex<Option<(u64, u64, Land)>>,
    blind: AtomicBool,
    open: watch::Sender<bool>,
    held: watch::Sender<u64>,
}

impl Sky {
    pub(crate) fn over(store: MemoryStore) -> Self {
        let control = Control {
            reads: AtomicU64::new(0),
            applies: AtomicU64::new(0),
            fail: std::sync::Mutex::default(),
            blind: AtomicBool::new(false),
            open: watch::Sender::new(true),
            held: watch::Sender::new(0),
        };
        Self { store, control: Arc::new(control) }
    }

    pub(crate) fn calls(&self) -> u64 {
        self.control.reads.load(Ordering::SeqCst) + self.applies()
    }

    pub(crate) fn applies(&self) -> u64 {
        self.control.applies.load(Ordering::SeqCst)
    }

    /// Makes calls of `apply` fail, counted from the next one, which is 1.
    pub(crate) fn fail(&self, from: u64, count: u64, land: Land) {
        let from = self.applies() + from;
        *self.control.fail.lock().unwrap() = Some((from, from.saturating_add(count), land));
    }

    pub(crate) fn clear(&self) {
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

    /// Waits until so many answers are held back.
    pub(crate) async fn holds(&self, count: u64) {
        self.control.held.subscribe().wait_for(|it| *it >= count).await.unwrap();
    }

    pub(crate) fn release(&self) {
        self.control.open.send_replace(true);
    }
}

impl Layer for Sky {
    fn journal(&self) -> &dyn Journal {
        &self.store
    }

    fn upkeep(&self) -> &dyn Upkeep {
        &self.store
    }

    fn write(&self, batch: Batch) -> BoxFuture<'static, Result<()>> {
        let call = self.control.applies.fetch_add(1, Ordering::SeqCst) + 1;
        let fail = self.control.fail.lock().unwrap().filter(|(from, to, _)| (*from..*to).contains(&call));
        let lands = fail.is_none_or(|(_, _, land)| land == Land::After);
        let landing = lands.then(|| self.store.apply(batch));
        let control = self.control.clone();
        Box::pin(async move {
            let answer = match landing {
                Some(landing) => landing.await,
                None => Ok(()),
            };
            let mut open = control.open.subscribe();
            if !*open.borrow_and_update() {
                control.held.send_modify(|it| *it += 1);
                open.wait_for(|it| *it).await.unwrap();
            }
            match fail {
                Some(_) => Err(Error::Unavailable { doing: "write", source: "hail".into() }),
                None => answer,
            }
        })
    }

    fn read<'a, T: Send + 'a>(
        &'a self,
        _: Read,
        answer: BoxFuture<'a, Result<T>>,
    ) -> BoxFuture<'a, Result<T>> {
        self.control.reads.fetch_add(1, Ordering::SeqCst);
        if self.control.blind.load(Ordering::SeqCst) {
            let source = "fog".into();
            return Box::pin(std::future::ready(Err(Error::Unavailable { doing: "read", source })));
        }
        answer
    }
}
