//! What the facade shows: the blocks of the README, and the examples.

mod examples;
mod orphans;
mod readme;
mod tool;
