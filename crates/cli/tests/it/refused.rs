//! refused.
