//! sessions.
