//! What the facade shows: the blocks of the README, and the examples.

mod orphans;
mod examples;
mod readme;
mod tool;
