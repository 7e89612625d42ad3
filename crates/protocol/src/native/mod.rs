//! The native API.

mod error;

pub use error::{ApiError, ErrorBody, ErrorBucket};
