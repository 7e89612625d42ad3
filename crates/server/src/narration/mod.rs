//! The reader of narration: a ring for each session, and nothing that decides (INV-9).
