//! Providers through their public surface: over a transport made of data, and over real sockets; beside the vendors' SDKs
//! and a mock of someone else.

mod aimock;
mod canary;
mod errors;
mod installed;
mod openai;
mod orphans;
mod rig;
mod rules;
mod sdk;
mod secrets;
mod sequences;
mod served;
mod sockets;
