//! Decides which turn of a session runs next and runs it: the queue, takeover after a crash, the ends of waits.

pub(crate) mod adopt;
pub(crate) mod load_retry;
pub(crate) mod runner;
pub(crate) mod waits;
