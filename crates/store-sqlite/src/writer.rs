//! The one thread that writes: it takes the waiting jobs, commits them together, and answers.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Connection;
use singletree_durable::{
    Batch, BoxError, DocumentChange, Error, FencingToken, InvocationId, PausedRecord, Result, RowMutation,
    SessionKey, StoredBlob, TenantId, Timestamp,
};
use singletree_erasures::{ErasedName, ErasureListWriter};
use tokio::sync::oneshot;

use crate::apply::{self, blob, checkpoint, document, paused, probe};
use crate::error::{BatchFailure, translate_error, translate_shared_error};
use crate::file_identity::FileIdentity;
use crate::format;
use crate::lock::DatabaseLock;
use crate::meter::{CommitMetrics, WriteTransaction, run_control_statement};
use crate::name::NameIdCache;
use crate::queue::BoundedQueue;
use crate::tail::{self, EventLogTail};
use crate::wal::{empty_log, try_empty_log};
use crate::{CommitDurability, open};

/// How many writes may wait; one more is told that the store is unavailable (INV-12).
pub(crate) const WAITING: usize = 16_384;

/// How many writes share a commit at most.
pub(crate) const TOGETHER: usize = 256;

/// How often a writer that does not sync looks for more before it sleeps: for some tens of microseconds.
const LOOKS: u32 = 100;

/// How many times readers may prevent the emptying of the log after a deletion, before the deletion is answered all the
/// same: at most a quarter of a second.
const TRIES: u32 = 25;

/// How often the emptying of the log is tried again while a deletion waits for it and there is nothing to write.
const RETRY: Duration = Duration::from_millis(10);

/// How often it is tried again after that.
const RETRY_LATER: Duration = Duration::from_secs(1);

/// The operation that the error of a failed write names.
const DOING: &str = "write";

/// How one write ended.
pub(crate) type Verdict = Result<WriteReply>;

/// The reply to a successful write.
#[derive(Debug)]
pub(crate) enum WriteReply {
    /// No further data.
    Done,
    /// The paused record as it was when it was claimed.
    Paused(Option<PausedRecord>),
    /// How many rows it was about.
    Count(u64),
}

/// One write.
#[derive(Debug)]
pub(crate) enum WriteOperation {
    /// A batch of the journal.
    Apply(Batch),
    /// A change of a paused record.
    Pause { tenant: TenantId, invocation: InvocationId, change: paused::PausedRecordChange },
    /// A change of a checkpoint.
    Checkpoint { tenant: TenantId, change: checkpoint::CheckpointChange },
    /// Changes of documents.
    Documents(Vec<DocumentChange>),
    /// A removal of documents whose time is over.
    Expire { before: Timestamp, limit: u64 },
    /// A blob.
    Keep { key: SessionKey, blob: StoredBlob, holder: Option<String> },
    /// A commit that changes nothing.
    Probe,
    /// Raises the fence of the file to this number, for another owner in this process.
    RaiseFence(FencingToken),
    /// Nothing: it is answered once everything that was submitted before is committed.
    Barrier,
    /// Names for the erasure list.
    List { names: Vec<ErasedName>, at: Timestamp },
}

/// One write and who waits for it.
#[derive(Debug)]
pub(crate) struct WriteJob {
    pub(crate) work: WriteOperation,
    pub(crate) answer: oneshot::Sender<CompletedWrite>,
}

impl WriteJob {
    /// Answers; whoever dropped the future does not want to know.
    fn send_verdict(self, verdict: Verdict) {
        drop(self.answer.send(CompletedWrite { verdict, _spent: self.work }));
    }
}

/// The end of one write.
#[derive(Debug)]
pub(crate) struct CompletedWrite {
    pub(crate) verdict: Verdict,
    /// The submitted work, which returns to the thread that submitted it and is freed there. If the writer's thread
    /// freed it, the allocator would accumulate memory at every turn.
    pub(crate) _spent: WriteOperation,
}

/// Everything the thread owns. Fields drop in order: the lock is freed when the file is closed.
#[derive(Debug)]
pub(crate) struct WriterThread {
    /// The connection; none after a failure, until the next write opens it again.
    pub(crate) connection: Option<Connection>,
    /// The file.
    pub(crate) path: PathBuf,
    /// Which file it was when it was opened.
    pub(crate) identity: FileIdentity,
    /// Whether the last probe found another file at the path, or none: nothing is written then.
    pub(crate) is_displaced: bool,
    /// The failures that a commit survives.
    pub(crate) durability: CommitDurability,
    /// The list of erased sessions, where one is kept.
    pub(crate) erasures: Option<ErasureListWriter>,
    /// The ids of names that were met.
    pub(crate) names: NameIdCache,
    /// Where commits are counted.
    pub(crate) meter: Arc<CommitMetrics>,
    /// Whether a commit has failed for want of space since the last probe that succeeded.
    pub(crate) is_starved: bool,
    /// Whether the log may still hold something that was deleted.
    pub(crate) residue: WalResidue,
    /// Whether the log may end with a commit that failed.
    pub(crate) tail: EventLogTail,
    /// Deletions that are committed and not answered: their rows are still in the log.
    pub(crate) held: Vec<(WriteJob, Verdict)>,
    /// The fence that this process has written last.
    pub(crate) fence: FencingToken,
    /// The threads that read the same file.
    pub(crate) readers: Vec<JoinHandle<()>>,
    /// The right to write.
    pub(crate) _lock: DatabaseLock,
}

impl WriterThread {
    /// Works until the queue is closed and empty, then closes the file so that it can be copied alone.
    pub(crate) fn run_until_closed(mut self, queue: &BoundedQueue<WriteJob>) {
        // Without a sync a write takes as long as going to sleep and being woken.
        let looks = if self.durability == CommitDurability::Normal { LOOKS } else { 0 };
        loop {
            let jobs = match self.residue {
                WalResidue::None => Some(queue.take_after_spinning(TOGETHER, looks)),
                WalResidue::Fresh(_) => queue.take_within_time(TOGETHER, RETRY),
                WalResidue::Old => queue.take_within_time(TOGETHER, RETRY_LATER),
            };
            match jobs {
                Some(jobs) if jobs.is_empty() => break,
                Some(jobs) => self.process_jobs(jobs),
                None => self.purge_deleted_data(),
            }
        }
        self.answer_held();
        for reader in self.readers.drain(..) {
            // A reader that panicked has told its callers by dropping their answers.
            reader.join().unwrap_or_default();
        }
        if let Some(connection) = &self.connection {
            // The log stays beside the file when it cannot be emptied now; nothing is lost by that.
            empty_log(connection).unwrap_or_default();
        }
    }

    fn process_jobs(&mut self, jobs: Vec<WriteJob>) {
        let verdicts = match self.commit_group(&jobs) {
            Ok(verdicts) => verdicts,
            Err(cause) => {
                if self.tail == EventLogTail::Sound && !matches!(cause, GroupFailure::Replaced(_)) {
                    // Dropping the connection rolls back its transaction.
                    self.connection = None;
                }
                self.names.forget_names();
                self.is_starved |= matches!(cause.error_for_member(), Error::Full { .. });
                jobs.iter().map(|_| Err(cause.error_for_member())).collect()
            }
        };
        let waits = matches!(self.residue, WalResidue::Fresh(_));
        let (held, done): (Vec<_>, Vec<_>) = (jobs.into_iter().zip(verdicts))
            .partition(|(job, verdict)| waits && verdict.is_ok() && job.work.is_deletion());
        self.held.extend(held);
        self.purge_deleted_data();
        done.into_iter().for_each(|(job, verdict)| job.send_verdict(verdict));
    }

    fn answer_held(&mut self) {
        self.held.drain(..).for_each(|(job, verdict)| job.send_verdict(verdict));
    }

    /// Commits a group: an error means that nothing of it stands.
    fn commit_group(&mut self, jobs: &[WriteJob]) -> std::result::Result<Vec<Verdict>, GroupFailure> {
        if self.is_displaced || jobs.iter().any(|job| matches!(job.work, WriteOperation::Probe)) {
            self.is_displaced = FileIdentity::from_path(&self.path).ok() != Some(self.identity);
        }
        if self.is_displaced {
            // A file that is not at its path is lost with the process, together with everything written to it.
            return Ok(jobs.iter().map(|_| Err(Error::Displaced)).collect());
        }
        let connection = match &mut self.connection {
            Some(connection) => connection,
            closed @ None => closed.insert(open::reopen_writer(&self.path, self.durability)?),
        };
        if self.tail == EventLogTail::InDoubt {
            tail::replace_failed_commit(connection, self.durability)?;
            self.tail = EventLogTail::Sound;
        }
        let mut group = WriteGroup {
            connection,
            names: &self.names,
            jobs,
            is_starved: self.is_starved,
            own: self.fence,
            unlisted: None,
        };
        let (mut verdicts, mut bytes) = group.run_in_transaction()?;
        if let Some(list) = &mut self.erasures
            && let Err(error) = list_erasures(list, jobs, &verdicts)
        {
            // A restored backup would bring back a session whose deletion is in no list. The other members need no
            // list: they run again without the deletions.
            group.roll_back_group()?;
            group.unlisted = Some(Arc::new(error));
            (verdicts, bytes) = group.run_in_transaction()?;
        }
        if bytes == 0 {
            group.roll_back_group()?;
            return Ok(verdicts);
        }
        if let Err(error) = run_control_statement(connection, "COMMIT") {
            let error = Arc::new(error);
            return Err(match tail::replace_failed_commit(connection, self.durability) {
                Ok(()) => GroupFailure::Replaced(error),
                Err(_) => {
                    self.tail = EventLogTail::InDoubt;
                    GroupFailure::Unknown(error)
                }
            });
        }
        self.meter.record_commit(bytes);
        self.fence = jobs.iter().zip(&verdicts).fold(self.fence, |fence, (job, verdict)| match job.work {
            WriteOperation::RaiseFence(raised) if verdict.is_ok() => fence.max(raised),
            _ => fence,
        });
        if jobs.iter().any(|job| matches!(job.work, WriteOperation::Probe)) {
            self.is_starved = false;
        }
        let deleted = jobs.iter().zip(&verdicts).any(|(job, it)| it.is_ok() && job.work.is_deletion());
        if deleted && !matches!(self.residue, WalResidue::Fresh(_)) {
            self.residue = WalResidue::Fresh(TRIES);
        }
        Ok(verdicts)
    }

    /// Empties the log after a deletion, so that the deleted data is nowhere (D25).
    ///
    /// A reader in the way keeps nobody from writing: only the deletion waits for it, a while, and the emptying is
    /// tried again after every group and whenever there is nothing to write.
    fn purge_deleted_data(&mut self) {
        let left = match self.residue {
            WalResidue::None => return,
            WalResidue::Fresh(tries) => tries - 1,
            WalResidue::Old => 0,
        };
        let emptied =
            self.connection.as_ref().is_some_and(|connection| try_empty_log(connection).unwrap_or(false));
        self.residue = match left {
            _ if emptied => WalResidue::None,
            0 => WalResidue::Old,
            tries => WalResidue::Fresh(tries),
        };
        if !matches!(self.residue, WalResidue::Fresh(_)) {
            self.answer_held();
        }
    }
}

/// The deleted data that the log may contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WalResidue {
    /// None.
    None,
    /// Data of deletions that are not answered yet; they wait for so many more attempts, at least one.
    Fresh(u32),
    /// Data of deletions that are answered.
    Old,
}

/// Takes the lock of the file before anything is looked up.
const BEGIN: &str = "BEGIN IMMEDIATE";

/// How the effects of a member that fails half way are kept out of the commit of its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MemberRollback {
    /// No guard, at no cost: most refusals come before the first write of a member.
    None,
    /// A savepoint for each.
    Savepoints,
}

/// The writes that share a transaction.
struct WriteGroup<'a> {
    connection: &'a Connection,
    names: &'a NameIdCache,
    jobs: &'a [WriteJob],
    is_starved: bool,
    /// The fence that this process has written last.
    own: FencingToken,
    /// The error with which the members fail whose names could not be added to the list of erasures.
    unlisted: Option<Arc<Error>>,
}

impl WriteGroup<'_> {
    /// Begins a transaction, runs all members in it, and returns their results and the bytes bound by the successful
    /// ones.
    fn run_in_transaction(&self) -> rusqlite::Result<(Vec<Verdict>, u64)> {
        run_control_statement(self.connection, BEGIN)?;
        if let Some(done) = self.run_members(MemberRollback::None)? {
            return Ok(done);
        }
        // Rare: a member failed half way. The group is undone and runs again, each member under its own savepoint.
        self.roll_back_group()?;
        run_control_statement(self.connection, BEGIN)?;
        let done = self.run_members(MemberRollback::Savepoints)?;
        Ok(done.expect("with savepoints nothing has to be done again"))
    }

    /// Runs all members and returns their results and the bytes bound by the successful ones; `None` when a member
    /// without a guard was refused after it had written, so that the whole group must be undone.
    fn run_members(&self, guard: MemberRollback) -> rusqlite::Result<Option<(Vec<Verdict>, u64)>> {
        let mut verdicts = Vec::with_capacity(self.jobs.len());
        let mut bytes = 0;
        let fence = format::read_fence(self.connection)?;
        for job in self.jobs {
            if let Some(error) = self.unlisted.as_ref().filter(|_| !job.work.erased_names().is_empty()) {
                verdicts.push(Err(share_error(error)));
                continue;
            }
            if fence != self.own && job.work.needs_fence() {
                verdicts.push(Err(Error::Fenced { held: self.own, found: fence }));
                continue;
            }
            let scribe = WriteTransaction::new(self.connection, self.names);
            let answer = match guard {
                MemberRollback::None => job.work.apply_operation(&scribe, self.is_starved),
                MemberRollback::Savepoints => {
                    scribe.run_under_savepoint(|| job.work.apply_operation(&scribe, self.is_starved))
                }
            };
            verdicts.push(match answer {
                Ok(answer) => Ok(answer),
                Err(BatchFailure::Store(error)) => return Err(error),
                Err(BatchFailure::Refused(_)) if guard == MemberRollback::None && scribe.has_written() => {
                    return Ok(None);
                }
                Err(BatchFailure::Refused(requirement)) => Err(Error::Refused { requirement }),
            });
            bytes += scribe.bytes_written();
        }
        Ok(Some((verdicts, bytes)))
    }

    fn roll_back_group(&self) -> rusqlite::Result<()> {
        self.names.forget_names();
        run_control_statement(self.connection, "ROLLBACK")
    }
}

impl WriteOperation {
    fn apply_operation(
        &self,
        scribe: &WriteTransaction<'_>,
        is_starved: bool,
    ) -> std::result::Result<WriteReply, BatchFailure> {
        let done = match self {
            Self::Apply(batch) => apply::apply_batch(scribe, batch),
            Self::Pause { tenant, invocation, change } => {
                return paused::change_paused_record(scribe, tenant, invocation, change)
                    .map(WriteReply::Paused);
            }
            Self::Checkpoint { tenant, change } => checkpoint::change_checkpoint(scribe, tenant, change),
            Self::Documents(changes) => document::change_documents(scribe, changes),
            Self::Expire { before, limit } => {
                return document::expire_documents(scribe, *before, *limit).map(WriteReply::Count);
            }
            Self::Keep { key, blob, holder } => blob::keep_blob(scribe, key, (blob, holder.as_deref())),
            // The list is no part of the database.
            Self::List { .. } => Ok(()),
            Self::Barrier => Ok(()),
            Self::RaiseFence(fence) => apply::raise_fence(scribe, *fence),
            Self::Probe => probe::commit_nothing(scribe, is_starved),
        };
        done.map(|()| WriteReply::Done)
    }

    /// Checks whether this is written only while no other process has opened the file for writing.
    fn needs_fence(&self) -> bool {
        matches!(self, Self::Apply(_) | Self::RaiseFence(_) | Self::Probe)
    }

    /// Returns the names that must be in the list of erasures before this is committed, with the times of their erasure.
    fn erased_names(&self) -> Vec<(ErasedName, Timestamp)> {
        match self {
            Self::List { names, at } => names.iter().map(|name| (name.clone(), *at)).collect(),
            Self::Apply(batch) => ErasedName::of_batch(batch).into_iter().collect(),
            _ => Vec::new(),
        }
    }

    fn is_deletion(&self) -> bool {
        match self {
            Self::Apply(batch) => batch.puts.iter().any(|put| matches!(put, RowMutation::Delete)),
            // The removal of a document alone deletes no conversation: its remains leave the log with the next
            // checkpoint.
            Self::Pause { .. }
            | Self::Documents(_)
            | Self::Expire { .. }
            | Self::Keep { .. }
            | Self::List { .. }
            | Self::Barrier
            | Self::RaiseFence(_)
            | Self::Probe => false,
            Self::Checkpoint { change, .. } => matches!(change, checkpoint::CheckpointChange::Delete(_)),
        }
    }
}

/// Lists the sessions that were deleted, and other names that were handed over, before any of it is committed.
fn list_erasures(list: &mut ErasureListWriter, jobs: &[WriteJob], verdicts: &[Verdict]) -> Result<()> {
    let done = jobs.iter().zip(verdicts).filter(|(_, verdict)| verdict.is_ok());
    let erased: Vec<_> = done.flat_map(|(job, _)| job.work.erased_names()).collect();
    // One sync for all of them.
    if erased.is_empty() { Ok(()) } else { list.append_names(&erased, draw_list_key) }
}

/// Draws the key of a list. SQLite has the system's randomness at hand.
fn draw_list_key() -> Result<String> {
    let drawn = Connection::open_in_memory()
        .and_then(|memory| memory.query_row("SELECT lower(hex(randomblob(32)))", [], |row| row.get(0)));
    drawn.map_err(|error| translate_error(error, "draw the key of the list of what was erased"))
}

/// Why a whole group failed.
enum GroupFailure {
    /// SQLite reported an error in the transaction: nothing of the group is in the log.
    Group(Arc<rusqlite::Error>),
    /// The commit failed, and its remains in the log were replaced.
    Replaced(Arc<rusqlite::Error>),
    /// The commit failed, and the log may contain it.
    Unknown(Arc<rusqlite::Error>),
    /// The file could not be opened again.
    Reopen(Arc<Error>),
}

impl GroupFailure {
    /// Returns the error for one member.
    fn error_for_member(&self) -> Error {
        match self {
            Self::Group(error) | Self::Replaced(error) => translate_shared_error(error, DOING),
            Self::Unknown(error) => {
                Error::CommitUnknown { doing: DOING, source: Box::new(Arc::clone(error)) }
            }
            Self::Reopen(error) => share_error(error),
        }
    }
}

/// Returns an error that several members share, for one of them.
fn share_error(error: &Arc<Error>) -> Error {
    let source: BoxError = Box::new(Arc::clone(error));
    match **error {
        Error::Corrupt { ref what, .. } => Error::Corrupt { what: what.clone(), source: Some(source) },
        Error::Full { .. } => Error::Full { doing: DOING, source },
        _ => Error::Unavailable { doing: DOING, source },
    }
}

impl From<rusqlite::Error> for GroupFailure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Group(Arc::new(error))
    }
}

impl From<Error> for GroupFailure {
    fn from(error: Error) -> Self {
        Self::Reopen(Arc::new(error))
    }
}
