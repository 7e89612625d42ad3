//! A journal that tells which commit is under way: before it is handed over, and when it is answered.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use singletree_durable::{Batch, BoxFuture, Journal, Layer, Put, Result, Upkeep};

use super::Say;
use crate::phase::Phase;
use crate::wire::{Line, Moment};

/// A store whose commits are told.
pub(super) struct Watched {
    journal: Arc<dyn Journal>,
    upkeep: Arc<dyn Upkeep>,
    say: Say,
    commits: AtomicU64,
}

impl Watched {
    pub(super) fn new(journal: Arc<dyn Journal>, upkeep: Arc<dyn Upkeep>, say: Say) -> Self {
        Self { journal, upkeep, say, commits: AtomicU64::new(0) }
    }
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").field("journal", &self.journal).finish_non_exhaustive()
    }
}

/// Returns the turn that a batch is about.
fn turn(batch: &Batch) -> Option<u64> {
    batch.puts.iter().find_map(|it| match it {
        Put::Turn(row) => Some(row.no),
        Put::Position(row) => Some(row.turn),
        Put::Record(row) => Some(row.turn),
        _ => None,
    })
}

impl Layer for Watched {
    fn journal(&self) -> &dyn Journal {
        self.journal.as_ref()
    }

    fn upkeep(&self) -> &dyn Upkeep {
        self.upkeep.as_ref()
    }

    fn write(&self, batch: Batch) -> BoxFuture<'static, Result<()>> {
        let n = self.commits.fetch_add(1, Ordering::Relaxed);
        let (phase, turn, session) = (Phase::of(&batch), turn(&batch), batch.key.session.to_string());
        let line = move |at| Line::Commit { n, phase, session: session.clone(), turn, at };
        (self.say)(&line(Moment::Begin));
        let landing = self.journal.apply(batch);
        let say = self.say.clone();
        Box::pin(async move {
            let landed = landing.await;
            say(&line(Moment::End));
            landed
        })
    }
}
