//! The exit codes, which scripts rely on.

use singletree::ChatTurnOutcome;

/// The turn completed, or the command succeeded.
pub(crate) const COMPLETED: u8 = 0;
/// The turn errored, or the command failed.
pub(crate) const ERRORED: u8 = 1;
/// The command line is wrong. It is also the code that clap uses.
pub(crate) const USAGE: u8 = 2;
/// The doctor cannot read the database.
pub(crate) const UNREADABLE: u8 = 2;
/// The turn waits for an answer.
pub(crate) const SUSPENDED: u8 = 3;
/// The store could not be opened or used, or refused the request.
pub(crate) const STORE_REFUSED: u8 = 4;

/// Returns the code that tells how a turn ended.
pub(crate) fn exit_code_of_outcome(outcome: &ChatTurnOutcome) -> u8 {
    match outcome {
        ChatTurnOutcome::Completed(_) => COMPLETED,
        ChatTurnOutcome::Suspended(_) => SUSPENDED,
        ChatTurnOutcome::Errored(_) => ERRORED,
    }
}
