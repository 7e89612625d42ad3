//! What the facade shows: the blocks of the README, and the examples.

mod canary;
mod examples;
mod orphans;
mod readme;
mod tool;
