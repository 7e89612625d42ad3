//! The UI message stream of Vercel's ai.
