//! The README's agent, block by block, as a program: it suspends, is approved, and the second message asks again.

mod orphans;
mod readme;
mod tool;
