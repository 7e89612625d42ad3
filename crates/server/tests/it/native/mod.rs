//! The native API over its wire. Every answer is checked against the document that the server serves.

pub(crate) mod api;
mod artifacts;
mod docs;
mod events;
mod forks;
mod manners;
mod sending;
mod sessions;
mod signals;
mod tenant_events;
mod turns;
mod usage;
