//! Tests of the controller: whole campaigns, deaths at every write, hostile models, races, narration, bounds.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod rig;
mod slow_store;
mod world;

mod bounds;
mod commands;
mod crashes;
mod held_session;
mod hostile;
mod lost_answers;
mod narration;
mod races;
mod refusals;
mod runner;
mod story;
