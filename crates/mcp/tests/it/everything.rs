//! The reference server.
