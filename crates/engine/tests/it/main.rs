//! The engine through its public surface.

mod typed;
