//! Notices for people outside of the conversation: signed webhooks, at least once, one endpoint for each tenant.
//!
//! The harness writes a [`Notice`](singletree_harness::Notice) in the commit of the event that it reports. A *courier*
//! for each tenant delivers its notices: it holds the due ones in a `queue`, posts each as a signed `message` (`sign`),
//! and removes it once the endpoint has accepted it. A failed delivery is tried again with growing pauses until the
//! notice is too old. A notice that a process delivered but did not remove before it died is delivered again under the
//! same id. `expiring` watches deadlines.
//!
//! Couriers share nothing but the store: an endpoint that is slow or away holds up no turn and no other tenant.

mod claim;
mod courier;
mod expiring;
mod message;
mod post;
mod queue;
mod sign;
mod webhook;

pub(crate) use courier::WebhookEndpoint;
pub(crate) use post::WebhookService;
pub use webhook::Webhook;
