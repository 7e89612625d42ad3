//! The OpenHarness engine.
