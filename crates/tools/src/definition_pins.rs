//! Which definition of a tool of a foreign server was seen first.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use futures_util::FutureExt;
use singletree_llm::BoxFuture;

use crate::error::Result;

/// Keeps the digest of the first known definition of each tool of a server: name, description, schemas and hints. If
/// a tool has another definition later, the server's statements about that tool are not trusted.
///
/// # Contract
///
/// - The first digest for a server and a tool is kept, until an operator removes it; later ones change nothing.
/// - Pins are durable where the store is.
pub trait DefinitionPins: fmt::Debug + Send + Sync {
    /// Pins a digest unless one is pinned, and returns the one that is.
    ///
    /// # Errors
    ///
    /// `tool_failed` when the store fails: then the definition counts as changed.
    ///
    /// # Cancellation
    ///
    /// A dropped call has pinned the digest or has not.
    fn pin_definition<'a>(
        &'a self,
        server: &'a str,
        tool: &'a str,
        digest: &'a str,
    ) -> BoxFuture<'a, Result<String>>;
}

/// Keeps pins as long as the process lives.
#[derive(Debug, Default)]
pub struct MemoryDefinitionPins {
    /// Guards a map that is whole between any two statements.
    pins: Mutex<BTreeMap<(String, String), String>>,
}

impl DefinitionPins for MemoryDefinitionPins {
    fn pin_definition<'a>(
        &'a self,
        server: &'a str,
        tool: &'a str,
        digest: &'a str,
    ) -> BoxFuture<'a, Result<String>> {
        let mut pins = self.pins.lock().unwrap_or_else(PoisonError::into_inner);
        let pinned = pins.entry((server.to_owned(), tool.to_owned())).or_insert_with(|| digest.to_owned());
        let pinned = pinned.clone();
        async { Ok(pinned) }.boxed()
    }
}
