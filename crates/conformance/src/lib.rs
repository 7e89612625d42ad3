//! Runs fixtures.
