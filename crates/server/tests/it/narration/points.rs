//! The points of a story at which narration may be changed: each call of the store, the model and the tools, and each
//! piece of narration. Numbered from 1, in the one order in which they come.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use singletree_durable::{Batch, BoxFuture, Journal, JournalLayer, JournalRead, MaintenanceLayer, Result};
use singletree_test_store::TestStore;
use tokio::sync::Notify;

/// The action at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deed {
    /// All narration is deleted.
    Delete,
    /// The process dies.
    Die,
    /// Both.
    DeleteAndDie,
}

type Deleter = Box<dyn Fn() + Send + Sync>;

/// The points of a story.
pub(crate) struct Points {
    passed: AtomicU64,
    at: Option<(u64, Deed)>,
    /// Deletes narration, wherever it is.
    delete: Mutex<Option<Deleter>>,
    dead: AtomicBool,
    died: Notify,
}

impl Points {
    pub(crate) fn new(at: Option<(u64, Deed)>) -> Arc<Self> {
        let (passed, dead) = (AtomicU64::new(0), AtomicBool::new(false));
        Arc::new(Self { passed, at, delete: Mutex::default(), dead, died: Notify::new() })
    }

    pub(crate) fn deleting(&self, delete: impl Fn() + Send + Sync + 'static) {
        *self.delete.lock().unwrap() = Some(Box::new(delete));
    }

    pub(crate) fn passed(&self) -> u64 {
        self.passed.load(Ordering::SeqCst)
    }

    /// Passes a point. A dead process passes none.
    pub(crate) fn pass(&self) {
        if self.is_dead() {
            return;
        }
        let no = self.passed.fetch_add(1, Ordering::SeqCst) + 1;
        let Some((_, deed)) = self.at.filter(|(at, _)| *at == no) else { return };
        if deed != Deed::Die
            && let Some(delete) = self.delete.lock().unwrap().as_ref()
        {
            delete();
        }
        if deed != Deed::Delete {
            self.dead.store(true, Ordering::SeqCst);
            self.died.notify_one();
        }
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    /// Waits for ever, if the process is dead.
    pub(crate) async fn live(&self) {
        if self.is_dead() {
            std::future::pending::<()>().await;
        }
    }

    pub(crate) async fn died(&self) {
        self.died.notified().await;
    }

    /// The next process begins.
    pub(crate) fn begin(&self) {
        self.dead.store(false, Ordering::SeqCst);
    }
}

impl std::fmt::Debug for Points {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Points({})", self.passed())
    }
}

/// A store that comes by a point with each call, and does nothing once the process is dead.
#[derive(Debug)]
pub(crate) struct Pointed {
    pub(crate) store: TestStore,
    pub(crate) points: Arc<Points>,
}

impl JournalLayer for Pointed {
    type Journal = TestStore;

    fn inner_journal(&self) -> &Self::Journal {
        &self.store
    }

    fn write_batch(&self, batch: Batch) -> BoxFuture<'static, Result<()>> {
        self.points.pass();
        if self.points.is_dead() {
            return Box::pin(std::future::pending());
        }
        self.store.apply(batch)
    }

    fn wrap_read<'a, T: Send + 'a>(
        &'a self,
        _: JournalRead,
        answer: BoxFuture<'a, Result<T>>,
    ) -> BoxFuture<'a, Result<T>> {
        self.points.pass();
        let points = self.points.clone();
        Box::pin(async move {
            points.live().await;
            answer.await
        })
    }
}

impl MaintenanceLayer for Pointed {
    type Maintenance = TestStore;

    fn inner_maintenance(&self) -> &Self::Maintenance {
        &self.store
    }
}
