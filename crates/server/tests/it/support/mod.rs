//! A server on a free port, the agents behind it, and how to talk to it.
//!
//! [`Rig`] is the server, [`agents`] what answers, [`Client`] one connection's worth of HTTP, [`HandClock`] its time.
//! What one test does not use another does.
#![expect(dead_code, reason = "a box of tools for the tests of all sections")]

pub(crate) mod agents;
pub(crate) mod client;
pub(crate) mod inputs;
pub(crate) mod installed;
pub(crate) mod receiver;
pub(crate) mod rig;

pub(crate) use client::{Answer, Client, Event, Events};
pub(crate) use inputs::{HandClock, HandPace};
pub(crate) use receiver::{Delivery, Receiver, Reply};
pub(crate) use rig::{Rig, RigBuilder};
