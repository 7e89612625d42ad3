//! A server on a free port, the agents behind it, and how to talk to it.
//!
//! [`Rig`] is the server, [`agents`] its agents, [`Client`] an HTTP client with one connection, [`HandClock`] its time.
//! Not every test uses every part.

pub(crate) mod agents;
pub(crate) mod campaigns;
pub(crate) mod client;
pub(crate) mod inputs;
pub(crate) mod installed;
pub(crate) mod receiver;
pub(crate) mod rig;

pub(crate) use client::{Answer, Client, Event, Events};
pub(crate) use receiver::{Delivery, Receiver, Reply};
pub(crate) use rig::{Rig, RigBuilder};
