//! The binary `singletree`.
fn main() {}
