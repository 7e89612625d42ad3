//! Exports to receivers that fail, of processes that die.

mod bounds;
mod crashes;
mod receivers;
mod rig;
mod shared;
