//! piped.
