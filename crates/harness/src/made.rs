//! Which node made what is recorded: said in the bodies of events, so that no row is added for it.

use serde::Serialize;
use singletree_durable::Json;
use singletree_engine::{Cursor, Position};

/// Where the run stands at a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Made {
    /// The node of the outermost graph.
    outer: String,
    /// The node, after those that contain it.
    path: String,
    /// Which attempt of it runs; of a node that has completed this is not known any more.
    attempt: Option<u32>,
}

/// What the event of a message says.
#[derive(Serialize)]
struct Said<'a> {
    k: u64,
    node: &'a str,
}

/// What the event of a turn's end says.
#[derive(Serialize)]
struct Ended<'a> {
    node: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
}

impl Made {
    pub(crate) fn at(cursor: &Cursor) -> Option<Self> {
        let (first, last) = (cursor.frames.first()?, cursor.frames.last()?);
        let path: Vec<&str> = cursor.frames.iter().map(|it| it.node.as_str()).collect();
        let attempt = (last.at == Position::Before).then_some(last.attempt);
        Some(Self { outer: first.node.clone(), path: path.join("/"), attempt })
    }

    /// Returns the body of the event of a turn's end.
    pub(crate) fn ended(made: Option<&Self>) -> Option<Json> {
        made.and_then(|it| Json::of(&Ended { node: &it.path, attempt: it.attempt }).ok())
    }

    /// Returns the node of the outermost graph that made what is new since the last commit. That a subgraph was left is no
    /// commit of its own: what is new after one that stood inside is only known to be the subgraph's when it still runs.
    pub(crate) fn author(&self, inside: Option<&str>) -> Option<&str> {
        inside.is_none_or(|it| it == self.outer).then_some(&self.outer)
    }
}

/// Returns the node of the outermost graph that a run stands inside of, if it does.
pub(crate) fn inside(cursor: &Cursor) -> Option<String> {
    cursor.frames.first().filter(|_| cursor.frames.len() > 1).map(|it| it.node.clone())
}

/// Returns the body of the event of a message: its place among those that its turn adds, and the node.
pub(crate) fn said(k: u64, node: Option<&str>) -> Json {
    let plain = || Json::from_text(format!("{{\"k\":{k}}}"));
    node.and_then(|node| Json::of(&Said { k, node }).ok()).unwrap_or_else(plain)
}
