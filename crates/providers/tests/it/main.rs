//! Providers through their public surface: over a transport made of data, and over real sockets.

mod errors;
mod openai;
mod orphans;
mod rig;
mod rules;
mod secrets;
mod sequences;
mod sockets;
