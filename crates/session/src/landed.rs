//! The changes of a session's state that wait for their commit.

use std::sync::Arc;

use singletree_durable::{SessionHead, TurnRow, WaitRow};

use super::queue::CallerHandle;
use super::state::SessionState;
use crate::codec::stored::StoredFields;
use crate::outcome::ChatTurnOutcome;

/// The change of the session's state that a commit makes once it has landed. A batch carries it; nobody sees it before.
#[derive(Debug, Default)]
pub struct LandedChange {
    /// Whether rows that were read before are stale. False only for commits that accept or take over turns.
    pub invalidates: bool,
    /// The new head, and the session's fields where the commit knows them all.
    pub session: Option<(SessionHead, Option<StoredFields>)>,
    /// The new state of the wait.
    pub wait: WaitChange,
    /// The turn that an early signal resumes.
    pub resumes: Option<TurnRow>,
    /// The turns of taken messages that the commit ends.
    pub ended: Vec<(u64, Arc<ChatTurnOutcome>)>,
}

/// The effect of a commit on the session's wait.
#[derive(Debug, Default)]
pub enum WaitChange {
    /// The wait stays as it is.
    #[default]
    None,
    /// This wait begins.
    Begins(Box<WaitRow>),
    /// The pending wait ends.
    Ends,
}

/// The work that is left for the runtime when a commit has landed.
#[derive(Debug)]
pub struct LandedEffects<H> {
    /// The handles of the turns that have ended, with their outcomes.
    pub ended: Vec<(H, Arc<ChatTurnOutcome>)>,
    /// The turn to queue before the waiting messages.
    pub resumes: Option<TurnRow>,
    /// Whether a wait with a deadline has begun.
    pub has_deadline: bool,
}

impl<H: CallerHandle> SessionState<H> {
    /// Makes the change of a commit that has landed.
    pub fn commit_landed(&mut self, change: LandedChange) -> LandedEffects<H> {
        let LandedChange { invalidates, session, wait, resumes, ended } = change;
        if invalidates {
            self.invalidate_reads();
        }
        let ended = ended.into_iter().flat_map(|(no, outcome)| {
            self.remove_steered(no).into_iter().map(move |turn| (turn.handle, outcome.clone()))
        });
        let ended = ended.collect();
        if let Some((head, fields)) = session {
            self.set_head_and_fields(head, fields);
        }
        let has_deadline = matches!(&wait, WaitChange::Begins(wait) if wait.deadline.is_some());
        match wait {
            WaitChange::None => {}
            WaitChange::Begins(wait) => self.set_pending_wait(Some(*wait)),
            WaitChange::Ends => self.set_pending_wait(None),
        }
        LandedEffects { ended, resumes, has_deadline }
    }
}
