//! Boxed futures and errors.

use std::pin::Pin;

/// A boxed future, for traits whose implementation is chosen at run time.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// An error of any type, kept as the source of another error.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
