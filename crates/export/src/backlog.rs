//! The notes of one tenant: read, counted, given up.

use singletree_durable::{
    DocumentChange, DocumentKey, DocumentPrecondition, DocumentStore, Result, TenantId, Timestamp,
};
use singletree_harness::UnsentTurn;

use crate::limits::ExportLimits;

/// The kinds of the notes.
const KINDS: [&str; 2] = [UnsentTurn::OLD_KIND, UnsentTurn::KIND];

/// How many notes are read and removed at once.
pub(crate) const PAGE: u64 = 128;

/// How many turns are read at once.
const READ_TURNS: usize = 64;
/// How many bytes the records of turns have that are read at once.
const READ_BYTES: u64 = 1024 * 1024;

/// How many bytes a note itself counts for, beside the records of its turn.
const NOTE_BYTES: u64 = 256;

/// The unsent turns of a tenant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TenantBacklog {
    /// How many there are.
    pub turns: u64,
    /// The bytes of their records and notes.
    pub bytes: u64,
    /// When the first of them ended.
    pub oldest: Option<Timestamp>,
}

impl TenantBacklog {
    /// Reads the notes of a tenant, page by page.
    ///
    /// # Errors
    /// `store_unavailable` and its kin.
    ///
    /// # Cancellation
    /// Dropping the future changes nothing.
    pub async fn read(documents: &dyn DocumentStore, tenant: &TenantId) -> Result<Self> {
        let mut backlog = Self::default();
        for kind in KINDS {
            let mut past = None;
            loop {
                let page = read_page_of(documents, tenant, (kind, past.as_deref()), PAGE).await?;
                let Some(last) = page.last() else { break };
                past = Some(last.key.id.clone());
                page.iter().for_each(|note| backlog.add_note(note));
            }
        }
        Ok(backlog)
    }

    fn add_note(&mut self, note: &BacklogNote) {
        self.turns += 1;
        self.bytes = self.bytes.saturating_add(note.bytes());
        let at = note.turn.as_ref().map(|turn| turn.at);
        self.oldest = self.oldest.into_iter().chain(at).min();
    }
}

/// A note as it is stored.
#[derive(Debug)]
pub(crate) struct BacklogNote {
    pub(crate) key: DocumentKey,
    /// None for one that cannot be read.
    pub(crate) turn: Option<UnsentTurn>,
}

impl BacklogNote {
    fn bytes(&self) -> u64 {
        NOTE_BYTES.saturating_add(self.turn.as_ref().map_or(0, |turn| turn.bytes))
    }

    /// Tells whether the turn ended longer ago than is sent.
    pub(crate) fn is_too_old(&self, limits: &ExportLimits, now: Timestamp) -> bool {
        self.turn.as_ref().is_some_and(|turn| now.duration_since(turn.at) > limits.max_age)
    }
}

/// Reads the first notes, in the order in which their turns ended: those of an older version first.
pub(crate) async fn read_page(documents: &dyn DocumentStore, tenant: &TenantId) -> Result<Vec<BacklogNote>> {
    let mut page: Vec<BacklogNote> = Vec::new();
    for kind in KINDS {
        let left = PAGE.saturating_sub(page.len() as u64);
        if left > 0 {
            page.extend(read_page_of(documents, tenant, (kind, None), left).await?);
        }
    }
    Ok(page)
}

async fn read_page_of(
    documents: &dyn DocumentStore,
    tenant: &TenantId,
    (kind, past): (&str, Option<&str>),
    limit: u64,
) -> Result<Vec<BacklogNote>> {
    let page = documents.read_documents(tenant, kind, past, limit).await?;
    let read = page.into_iter().map(|document| {
        let turn = UnsentTurn::from_document(&document).ok();
        BacklogNote { key: document.key, turn }
    });
    Ok(read.collect())
}

pub(crate) async fn remove_notes(documents: &dyn DocumentStore, keys: Vec<DocumentKey>) -> Result<()> {
    if keys.is_empty() {
        return Ok(());
    }
    let expect = DocumentPrecondition::Any;
    documents
        .change_documents(keys.into_iter().map(|key| DocumentChange::Remove { key, expect }).collect())
        .await
}

/// Removes the oldest notes of a tenant until the others are within the bound in bytes. Returns how many were removed.
pub(crate) async fn trim_backlog(
    documents: &dyn DocumentStore,
    tenant: &TenantId,
    max_bytes: u64,
) -> Result<u64> {
    let mut bytes = TenantBacklog::read(documents, tenant).await?.bytes;
    let mut removed = 0;
    while bytes > max_bytes {
        let page = read_page(documents, tenant).await?;
        if page.is_empty() {
            break;
        }
        let mut keys = Vec::new();
        for note in page {
            if bytes <= max_bytes {
                break;
            }
            bytes = bytes.saturating_sub(note.bytes());
            keys.push(note.key);
        }
        removed += keys.len() as u64;
        remove_notes(documents, keys).await?;
    }
    Ok(removed)
}

/// Splits turns into parts that are read together: each has at most so many turns, and bytes of records, but a turn that has
/// more alone.
pub(crate) fn split_by_bytes(turns: &[UnsentTurn]) -> impl Iterator<Item = &[UnsentTurn]> {
    let mut rest = turns;
    std::iter::from_fn(move || {
        let (mut count, mut bytes) = (0, 0_u64);
        for turn in rest.iter().take(READ_TURNS) {
            bytes = bytes.saturating_add(turn.bytes);
            if count > 0 && bytes > READ_BYTES {
                break;
            }
            count += 1;
        }
        let (part, after) = rest.split_at(count);
        rest = after;
        (!part.is_empty()).then_some(part)
    })
}
