//! Text for the human that nothing reads back.
