//! Properties of the crate, through its public surface.

mod properties;
mod streaming;
