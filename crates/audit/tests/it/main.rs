//! The checker against damaged histories; races, and random operations against a model, judged by it.
#![expect(clippy::disallowed_methods, reason = "a test starts tasks and measures the time of its runtime")]
#![expect(clippy::unwrap_used, reason = "a test may unwrap")]

mod gated;
mod meet;
mod model;
mod ops;
mod race;
mod race_mail;
mod rig;
mod saboteur;
mod scheduler;
mod seeded;
mod taken;
mod threads;
mod told;
mod walk;
