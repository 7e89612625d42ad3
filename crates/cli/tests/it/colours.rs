//! colours.
