//! Providers through their public surface: over a transport made of data, and over real sockets; beside the vendors'
//! SDKs and a mock of someone else.
#![expect(clippy::disallowed_methods, reason = "a test starts tasks and measures the time of its runtime")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod aimock;
mod canary;
mod cut;
mod damage;
mod errors;
mod fuzz;
mod installed;
mod openai;
mod orphans;
mod pictures;
mod rig;
mod rules;
mod sdk;
mod secrets;
mod sequences;
mod served;
mod sockets;
mod stalls;
mod vendors;
