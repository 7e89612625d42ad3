//! The README's agent, block by block, as a program: it suspends, is approved, and the second message asks again.
#![expect(clippy::unwrap_used, reason = "a test may unwrap")]

mod readme;
