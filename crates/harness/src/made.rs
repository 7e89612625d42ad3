//! Which node made what is recorded: said in the bodies of events, so that no row is added for it.

use serde::Serialize;
use singletree_durable::Json;
use singletree_engine::Cursor;

/// A node and its attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Made {
    node: String,
    #[serde(skip_serializing_if = "is_first")]
    attempt: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out a reference")]
fn is_first(attempt: &u32) -> bool {
    *attempt == 0
}

/// What the event of a message says.
#[derive(Serialize)]
struct Said<'a> {
    k: u64,
    #[serde(flatten)]
    made: Option<&'a Made>,
}

impl Made {
    /// Returns the node at which a run stands.
    pub(crate) fn at(cursor: &Cursor) -> Option<Self> {
        let attempt = cursor.frames.last()?.attempt;
        let path: Vec<&str> = cursor.frames.iter().map(|it| it.node.as_str()).collect();
        Some(Self { node: path.join("/"), attempt })
    }

    /// Returns the body of the event of a turn's end.
    pub(crate) fn ended(made: Option<&Self>) -> Option<Json> {
        made.and_then(|it| Json::of(it).ok())
    }

    /// Returns the body of the event of a message: its place among those that its turn adds, and the node.
    pub(crate) fn said(k: u64, made: Option<&Self>) -> Json {
        let plain = || Json::from_text(format!("{{\"k\":{k}}}"));
        made.and_then(|_| Json::of(&Said { k, made }).ok()).unwrap_or_else(plain)
    }
}
