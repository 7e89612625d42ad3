//! Narration: its endpoints, and that nothing depends on it.

mod endpoints;
