//! scripts.
