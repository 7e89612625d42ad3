//! Prompts through the public interface.

mod cached;
mod deep;
mod files;
mod hashes;
mod managed;
mod rendered;
mod support;
