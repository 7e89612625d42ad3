//! Servers of every revision: with `initialize`, without it, of both, and silent ones.

use std::time::Duration;

use serde_json::json;
use singletree_mcp::McpLimits;
use singletree_tools::Output;

use crate::rig::{Rig, limits};

/// A question that is given up soon: for programs that do not answer it.
fn asks_briefly() -> Rig {
    let brief = McpLimits { probe: Duration::from_millis(50), ..limits() };
    Rig::with(|server| server.limits(brief))
}

// spec: MCP 2026-07-28, server/discover
#[tokio::test]
async fn a_program_without_initialize_is_asked_and_called_in_its_own_revision() {
    let rig = Rig::new();
    rig.behave("modern-only");
    assert_eq!(rig.call("echo", json!({"text": "hello"})).await, Output::text("hello"));
    assert_eq!(rig.starts(), 1);
    assert_eq!(rig.noted("asked").len(), 1);
}

#[tokio::test]
async fn a_program_of_both_revisions_is_spoken_to_in_the_newer_one() {
    let rig = Rig::new();
    rig.behave("both");
    assert_eq!(rig.call("echo", json!({"text": "hello"})).await, Output::text("hello"));
    assert_eq!(rig.starts(), 1);
}

// It tells of new tools only those who asked to be told.
#[tokio::test]
async fn a_program_of_the_newer_revision_tells_when_its_tools_change() {
    let rig = Rig::new();
    rig.behave("both");
    rig.server.connect().await.expect("is there");
    while rig.noted("subscribed").is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(rig.call("grow", json!({})).await, Output::text("grown"));
    while rig.call("new", json!({})).await != Output::text("new") {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_program_that_does_not_answer_the_question_is_greeted_in_the_older_way() {
    let rig = asks_briefly();
    rig.behave("silent");
    assert_eq!(rig.call("echo", json!({"text": "hello"})).await, Output::text("hello"));
    assert_eq!((rig.starts(), rig.noted("asked").len()), (1, 1));
}

#[tokio::test]
async fn a_program_that_ends_at_the_question_is_started_again_and_greeted_in_the_older_way() {
    let rig = Rig::new();
    rig.behave("dies-when-asked");
    assert_eq!(rig.call("echo", json!({"text": "hello"})).await, Output::text("hello"));
    assert_eq!((rig.starts(), rig.noted("asked").len()), (2, 1));
}

#[tokio::test]
async fn a_program_with_initialize_alone_is_started_once() {
    let rig = Rig::new();
    assert_eq!(rig.call("echo", json!({"text": "hello"})).await, Output::text("hello"));
    assert_eq!((rig.starts(), rig.noted("asked").len()), (1, 1));
}
