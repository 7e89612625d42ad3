//! slash.
