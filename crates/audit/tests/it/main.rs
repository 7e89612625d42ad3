//! The checker against damaged histories; races, and random operations against a model, judged by it.
#![expect(clippy::unwrap_used, reason = "a test may unwrap")]

mod saboteur;
