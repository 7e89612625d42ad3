//! A server on a free port, the agents behind it, and how to talk to it.
//!
//! [`Rig`] is the server, [`agents`] what answers, [`Client`] one connection's worth of HTTP, [`HandClock`] its time.
//! What one test does not use another does.

pub(crate) mod agents;
pub(crate) mod client;
pub(crate) mod inputs;
pub(crate) mod installed;
pub(crate) mod receiver;
pub(crate) mod rig;

pub(crate) use client::{Answer, Client, Event, Events};
pub(crate) use receiver::{Delivery, Receiver, Reply};
pub(crate) use rig::{Rig, RigBuilder};
