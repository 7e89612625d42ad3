//! Notices told to people who are not here: signed webhooks, at least once, one endpoint for each tenant.
//!
//! The harness writes a [`Notice`](singletree_harness::Notice) in the commit that makes it so. A *courier* for each tenant tells
//! its notices: it keeps those that are due in a `queue`, posts each as a `message` that is signed (`sign`), and removes it
//! once the endpoint has taken it. What failed is tried again, later and later, until it is too old; what a process had told and
//! not removed when it died is told again under the same id. `expiring` watches deadlines.
//!
//! Couriers share nothing but the store: an endpoint that is slow or away holds up no turn and no other tenant.

mod courier;
mod expiring;
mod message;
mod post;
mod queue;
mod sign;
mod webhook;

pub(crate) use courier::Endpoint;
pub(crate) use post::Post;
pub use webhook::Webhook;
