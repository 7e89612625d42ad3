//! Drives campaigns: goals that agents pursue over many cycles, hours or weeks.
//!
//! "The Controller owns truth. The Database owns memory. The Agent proposes. The Chat narrates." The crate `campaign` has
//! the controller's judgement, as pure functions. This crate carries it out: [`Controller`] takes the commands of people,
//! the graph of a cycle asks the agent for one proposal at a time and carries it out, the runner
//! ([`Controller::run`]) gives every campaign that can go on its cycles, and schedules wake campaigns.
//!
//! # Vocabulary
//! A *cycle* is one turn in the session of the campaign: one request to the model, and what follows from its answer. The
//! *board* is the state of a campaign, the fold of its log. A *caller* is a person or a program with scopes.
//!
//! # What is kept where
//! Everything that a decision depends on is on the board, which is made of documents. A turn only carries a cycle out: it
//! may be cut off at any point, and the next one goes on from the board. The transcript of the session and the narration
//! are written, and read by nothing here (INV-9).

mod error;

mod admission;
mod caller;
mod limits;
mod template;

mod core;
mod follow;
mod narrate;
mod queue;

mod answer;
mod cycle;

mod builder;
mod controller;
mod runner;
mod schedules;

pub mod demo;

pub use admission::CampaignAdmission;
pub use builder::{ControllerBuilder, ControllerParts};
pub use caller::CampaignCaller;
pub use controller::Controller;
pub use error::{Error, Result};
pub use limits::ControllerLimits;
pub use template::{CampaignTemplate, NewCampaign, NewSchedule};
