//! A process that dies at its n-th write, for every n, before and after the write lands, over any store; the next one
//! goes on, and leaves the same rows as a process that never died.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use singletree_durable::{
    FieldValue, Journal, JournalMaintenance, StoredWaitStatus, TurnRowQuery, WaitRowQuery,
};
use singletree_harness::{Chat, ChatBuilder, Durability, Limits};
use singletree_store_sqlite::SqliteStore;
use singletree_store_testing::{FailedWriteEffect, FaultInjectingStore};
use singletree_test_store::TestStore;

use crate::bench::{Log, check_rows, history, line, name};
use crate::doctor::sound;

/// A store that the next process can open.
pub(crate) enum Ground {
    Memory(TestStore),
    File(tempfile::TempDir, SqliteStore),
}

/// Tells whether a sweep is made: on a file at level `turn` under `.ci/run --deep` only, since each write is a file
/// that is opened five times.
pub(crate) fn is_swept(kind: Kind, durability: Durability) -> bool {
    let is_deep = std::env::var_os("SINGLETREE_DEEP").is_some();
    is_deep || kind == Kind::Memory || durability == Durability::Step
}

/// Where a store is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Memory,
    File,
}

/// A store with both its sides.
trait WholeStore: Journal + JournalMaintenance {}

impl<S: Journal + JournalMaintenance> WholeStore for S {}

impl Ground {
    pub(crate) async fn new(kind: Kind) -> Self {
        match kind {
            Kind::Memory => Self::Memory(TestStore::new()),
            Kind::File => {
                let folder = tempfile::tempdir().unwrap();
                let store = open(&folder).await;
                Self::File(folder, store)
            }
        }
    }

    pub(crate) async fn reopen(self) -> Self {
        match self {
            Self::Memory(store) => Self::Memory(store.reopen()),
            Self::File(folder, store) => {
                store.close().await;
                let store = open(&folder).await;
                Self::File(folder, store)
            }
        }
    }

    pub(crate) fn parts(&self) -> (Arc<dyn Journal>, Arc<dyn JournalMaintenance>) {
        match self {
            Self::Memory(store) => (Arc::new(store.clone()), Arc::new(store.clone())),
            Self::File(_, store) => (Arc::new(store.clone()), Arc::new(store.clone())),
        }
    }

    fn store(&self) -> Arc<dyn WholeStore> {
        match self {
            Self::Memory(store) => Arc::new(store.clone()),
            Self::File(_, store) => Arc::new(store.clone()),
        }
    }

    pub(crate) fn open(&self, builder: ChatBuilder) -> Chat {
        let (journal, upkeep) = self.parts();
        builder.open_shared(journal, upkeep).unwrap()
    }

    /// Lets a process live until its n-th write, and tells whether it came so far.
    pub(crate) async fn dies(
        &self,
        builder: ChatBuilder,
        (n, land): (u64, FailedWriteEffect),
        drive: impl AsyncFn(&Chat),
    ) -> bool {
        let (journal, store) = (self.parts().0, self.store());
        let failing = Arc::new(FaultInjectingStore::new(journal, n, land));
        let limits = Limits { record_retry: Duration::from_millis(1), ..Limits::default() };
        let beside = Arc::new(failing.wrap_beside(store));
        let chat = builder.limits(limits).open_shared(failing.clone(), beside).unwrap();
        let watched = async {
            while !failing.fired() {
                tokio::task::yield_now().await;
            }
            chat.shutdown(Duration::from_secs(5)).await
        };
        let driven = async {
            // A sweep that dies half way has told the outcomes that it could.
            drop(chat.sweep().await);
            drive(&chat).await;
        };
        // Whoever waits for a turn that cannot end any more is told so once the chat shuts down.
        tokio::select! {
            () = driven => {}
            _ = watched => {}
        }
        chat.shutdown(Duration::from_secs(5)).await;
        failing.fired()
    }

    /// Looks at everything that is stored of a session; none when it is not there.
    async fn view(&self, chat: &Chat, session: &str) -> Option<View> {
        let (journal, _) = self.parts();
        let key = name(session);
        let row = journal.read_session(&key).await.unwrap()?;
        check_rows(journal.as_ref(), session).await;
        let fields = row.fields.iter().map(|it| match &it.value {
            FieldValue::Value(json) => format!("{} = {}", it.name, json.as_str()),
            list @ FieldValue::List { .. } => format!("{} = {list:?}", it.name),
        });
        let mut turns = Vec::new();
        for row in journal.read_turns(&key, &TurnRowQuery::From { no: 0, limit: 1000 }).await.unwrap() {
            let id = singletree_harness::TurnId::new(row.invocation.clone(), row.ordinal);
            let outcome = chat.turn(&id).await.unwrap().outcome().await;
            turns.push(format!("{} of {:?} by {}: {}", row.no, row.kind, row.agent, line(&outcome)));
        }
        let waits = journal.read_waits(&WaitRowQuery::Pending(key.clone())).await.unwrap();
        let pending = waits.iter().filter(|(_, it)| it.status == StoredWaitStatus::Pending).count();
        Some(View {
            version: row.head.schema_version.clone(),
            parent: row.head.parent.map(|it| format!("{}@{}", it.session, it.offset)),
            fields: fields.collect(),
            history: history(chat, session).await,
            turns,
            pending,
        })
    }

    /// Checks that nothing unfinished is left of a session, and that the doctor finds nothing.
    pub(crate) async fn is_sound(&self, session: &str) {
        check_rows(self.parts().0.as_ref(), session).await;
        match self {
            Self::Memory(store) => sound(store).await,
            Self::File(_, store) => sound(store).await,
        }
    }

    async fn views(&self, chat: &Chat, sessions: &[&'static str]) -> Views {
        let mut views = Views::new();
        for session in sessions {
            views.insert(*session, self.view(chat, session).await);
        }
        match self {
            Self::Memory(store) => sound(store).await,
            Self::File(_, store) => sound(store).await,
        }
        views
    }
}

async fn open(folder: &tempfile::TempDir) -> SqliteStore {
    let options = SqliteStore::options(folder.path().join("s.db"));
    options.durability(singletree_store_sqlite::CommitDurability::Normal).open().await.unwrap()
}

/// The stored content of one session, without random ids and without times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) version: String,
    pub(crate) parent: Option<String>,
    pub(crate) fields: Vec<String>,
    pub(crate) history: Vec<String>,
    pub(crate) turns: Vec<String>,
    pub(crate) pending: usize,
}

pub(crate) type Views = BTreeMap<&'static str, Option<View>>;

/// The subject of a sweep.
pub(crate) struct Sweep<'a> {
    pub(crate) what: &'a str,
    pub(crate) kind: Kind,
    pub(crate) sessions: &'a [&'static str],
    /// How many nodes may run once more than without a crash.
    pub(crate) again: usize,
}

/// The parts of both processes of a round: the rows from before, the chat, and its callers' requests. Repeating a
/// request finds the earlier result.
pub(crate) struct Round<P, B, D> {
    pub(crate) prepare: P,
    pub(crate) builder: B,
    pub(crate) drive: D,
}

impl Sweep<'_> {
    /// Stops at every write. `between` checks the rows that the next process finds, before anybody calls it.
    pub(crate) async fn run<P, B, D>(
        &self,
        round: Round<P, B, D>,
        between: impl Fn(&str, &Views, &Views),
    ) -> u64
    where
        P: AsyncFn(&Ground),
        B: Fn(&Log) -> ChatBuilder,
        D: AsyncFn(&Chat),
    {
        let (_, whole, runs, fired) = self.once(&round, (u64::MAX, FailedWriteEffect::Before)).await;
        assert!(!fired && whole.values().all(Option::is_some), "{}: {whole:?}", self.what);
        for n in 1.. {
            let mut reached = false;
            for land in [FailedWriteEffect::Before, FailedWriteEffect::After] {
                let at = format!("{} over {:?}, write {n}, {land:?}", self.what, self.kind);
                let (found, seen, ran, fired) = self.once(&round, (n, land)).await;
                between(&at, &found, &whole);
                assert_eq!(seen, whole, "{at}");
                assert!(ran <= runs + self.again, "{at}: {ran} nodes ran instead of {runs}");
                reached |= fired;
            }
            if !reached {
                return n - 1;
            }
        }
        unreachable!("the numbers of writes do not end")
    }

    /// Returns the rows that the next process found and those that it left, how many nodes ran in both, and whether the
    /// first died.
    async fn once<P, B, D>(
        &self,
        round: &Round<P, B, D>,
        at: (u64, FailedWriteEffect),
    ) -> (Views, Views, usize, bool)
    where
        P: AsyncFn(&Ground),
        B: Fn(&Log) -> ChatBuilder,
        D: AsyncFn(&Chat),
    {
        let (ground, log) = (Ground::new(self.kind).await, Log::default());
        (round.prepare)(&ground).await;
        let ground = ground.reopen().await;
        let fired = ground.dies((round.builder)(&log), at, &round.drive).await;
        let ground = ground.reopen().await;
        let chat = ground.open((round.builder)(&log));
        for turn in chat.sweep().await.unwrap() {
            turn.outcome().await;
        }
        let found = ground.views(&chat, self.sessions).await;
        (round.drive)(&chat).await;
        let left = ground.views(&chat, self.sessions).await;
        chat.shutdown(Duration::from_secs(5)).await;
        (found, left, log.all().len(), fired)
    }
}
