//! A session is made before anything is said in it.

use singletree_durable::{BatchPrecondition, RowMutation, SubjectId};

use super::accept::new_session_head;
use crate::Error;
use crate::agent::AgentVersion;
use crate::batch::BatchBuilder;
use crate::policy::TurnPromptPolicy;
use crate::queue::CallerHandle;
use crate::state::SessionState;

/// Makes a session without messages.
///
/// # Errors
/// `chat_session_exists`.
pub fn create_session<H: CallerHandle>(
    state: &mut SessionState<H>,
    writing: &mut BatchBuilder,
    agent: AgentVersion<'_>,
    policy: TurnPromptPolicy,
    subject: Option<SubjectId>,
) -> Result<(), Error> {
    check_session_absent(state, writing)?;
    writing.require(BatchPrecondition::SessionAbsent);
    let head = new_session_head(writing, agent, policy, subject);
    writing.add_mutation(RowMutation::Head(head));
    state.begin_session(writing.find_written_head());
    Ok(())
}

/// Checks that the session does not exist, also not by a commit in flight.
pub(super) fn check_session_absent<H: CallerHandle>(
    state: &SessionState<H>,
    writing: &BatchBuilder,
) -> Result<(), Error> {
    match state.session_head() {
        Some(_) => Err(Error::SessionExists { session: writing.batch.key.session.to_string() }),
        None => Ok(()),
    }
}
