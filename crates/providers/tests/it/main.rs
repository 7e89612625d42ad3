//! Providers against servers: streams of the vendors, their SDKs, a mock of someone else, and what errors give away.

mod aimock;
mod canary;
mod installed;
mod sdk;
mod served;
