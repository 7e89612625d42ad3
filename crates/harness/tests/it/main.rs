//! The harness through its public surface.

mod first;
