//! The UI message stream, version 1.
