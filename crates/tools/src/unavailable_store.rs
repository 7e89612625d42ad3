//! The store of tools that have no store.

use futures_util::FutureExt;
use singletree_llm::BoxFuture;

use crate::error::{Error, Result};
use crate::key::IdempotencyKey;
use crate::notes::NoteStore;
use crate::origin::CallOrigin;
use crate::outbox::{OutboxMessage, OutboxStore};

/// A [`NoteStore`] and [`OutboxStore`] that keeps nothing: each call answers `tool_unavailable`. For agents that are
/// described and never run.
#[derive(Debug, Clone, Copy, Default)]
pub struct UnavailableStore;

impl NoteStore for UnavailableStore {
    fn add_note<'a>(&'a self, _: &'a CallOrigin, _: &'a str) -> BoxFuture<'a, Result<()>> {
        async { Err(no_store_error()) }.boxed()
    }

    fn list_notes<'a>(&'a self, _: &'a CallOrigin) -> BoxFuture<'a, Result<Vec<String>>> {
        async { Err(no_store_error()) }.boxed()
    }
}

impl OutboxStore for UnavailableStore {
    fn put_message<'a>(
        &'a self,
        _: &'a CallOrigin,
        _: &'a IdempotencyKey,
        _: &'a OutboxMessage,
    ) -> BoxFuture<'a, Result<()>> {
        async { Err(no_store_error()) }.boxed()
    }
}

fn no_store_error() -> Error {
    Error::Unavailable {
        problem: "this agent has no store for its tools; nothing was done".to_owned(),
        source: None,
    }
}
