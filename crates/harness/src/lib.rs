//! A chat turn from message to outcome, kept whatever happens.
