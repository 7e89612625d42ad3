//! A server that is a program: how it ends, by itself, by us, or by the system.
#![cfg(unix)]

use std::io::Read;
use std::net::TcpListener;
use std::time::Duration;

use serde_json::json;
use singletree_llm::Map;
use singletree_mcp::McpLimits;
use singletree_tools::{CallOrigin, Invocation, Output, Recovery, Toolset};

use crate::rig::{Rig, call, failed, key, limits};

#[tokio::test]
async fn a_killed_server_is_started_again_by_the_next_call() {
    let rig = Rig::new();
    for round in 1..=3 {
        let text = format!("round {round}");
        assert_eq!(rig.call("echo", json!({"text": text})).await, Output::text(text));
        assert_eq!(rig.starts(), round);
        rig.kill();
    }
    // Also one that changes something: that the server died while nobody looked leaves no doubt.
    assert_eq!(rig.call("save", json!({"text": "a"})).await.category, None);
    assert_eq!(rig.noted("effects"), ["a"]);
}

#[tokio::test]
async fn a_call_names_its_conversation_and_the_fence_of_it() {
    let rig = Rig::new();
    let toolbox = rig.tools.current_toolbox().await;
    let save = toolbox.find_tool("script__save").expect("it has the tool");
    let (key, origin) = (key(), CallOrigin::new("acme", "s1").with_fence(7));
    let arguments = Map::from_iter([("text".to_owned(), json!("a"))]);
    for origin in [Some(&origin), None] {
        let call = Invocation { key: &key, call_id: "call", arguments: &arguments, origin };
        save.call(call).await.expect("it is saved");
    }
    let named = json!([origin.opaque_name(), 7]).to_string();
    assert!(!named.contains("acme") && !named.contains("s1\""), "{named}");
    assert_eq!(rig.noted("origins"), [named, json!([null, null]).to_string()]);
}

// D7: at most once, unless the tool says that twice is once.
#[tokio::test]
async fn a_call_whose_server_dies_in_the_middle_is_reported_and_not_repeated() {
    let rig = Rig::new();
    let output = rig.call("save_and_die", json!({})).await;
    let text = "error: the server \"script\" of this tool went away while it ran: \
                the program ended (exit status: 7); whether it took effect is unknown";
    assert_eq!(output, failed("tool_interrupted", text));
    assert_eq!(rig.noted("effects"), [json!(key().as_str()).to_string()]);
    assert_eq!(rig.starts(), 1);
    assert_eq!(rig.call("echo", json!({"text": "on"})).await, Output::text("on"));
    assert_eq!(rig.starts(), 2);
}

#[tokio::test]
async fn a_call_that_only_reads_is_sent_once_more_under_its_key_and_no_oftener() {
    let rig = Rig::new();
    assert_eq!(rig.call("look-and-die", json!({})).await, Output::text("seen"));
    let sent = json!(key().as_str()).to_string();
    assert_eq!(rig.noted("effects"), [sent.clone(), sent.clone()]);
    rig.behave("dies-always");
    let output = rig.call("look-and-die", json!({})).await;
    assert_eq!(output.category, Some("tool_interrupted"));
    // It reads: there is no effect to be unsure about.
    assert!(!output.text.contains("took effect"), "{}", output.text);
    assert_eq!(rig.noted("effects"), vec![sent; 4]);
}

// INV-16
#[tokio::test]
async fn a_server_that_cannot_start_is_told_with_its_last_words_and_rests() {
    let rig = Rig::new();
    rig.behave("refuse-start");
    let error = rig.server.connect().await.expect_err("it exits");
    assert_eq!(error.category(), "mcp_connect_failed");
    assert_eq!(
        error.to_string(),
        "the MCP server \"script\" cannot be reached: the program ended (exit status: 3)"
    );
    assert_eq!(error.last_stderr_lines(), Some("the key [redacted] is [31mno good[0m"));
    assert_eq!(rig.server.report_status().await.said, error.last_stderr_lines().expect("said"));
    // Nobody tries again at once, and everybody is told the same.
    rig.behave_again("refuse-start");
    assert_eq!(rig.server.connect().await, Err(error));
    assert_eq!(rig.server.offer_tools().await.expect_err("still").category(), "tool_unavailable");
    // It ended before it was greeted in the older way, so it was started once more for that.
    assert_eq!(rig.starts(), 2);
    tokio::time::pause();
    tokio::time::advance(limits().rest).await;
    tokio::time::resume();
    assert_eq!(rig.server.connect().await, Ok(()));
    assert_eq!(rig.starts(), 3);
}

#[tokio::test]
async fn a_server_that_never_starts_is_tried_ever_more_rarely() {
    let rig = Rig::new();
    rig.behave("refuse-start");
    for (tried, rests) in [(1, 1), (2, 2), (3, 4), (4, 8), (5, 16), (6, 16), (7, 16)] {
        rig.server.connect().await.expect_err("it exits");
        assert_eq!(rig.starts(), 2 * tried);
        tokio::time::pause();
        tokio::time::advance(limits().rest * rests - Duration::from_millis(1)).await;
        rig.server.connect().await.expect_err("it rests");
        assert_eq!(rig.starts(), 2 * tried);
        tokio::time::advance(Duration::from_millis(1)).await;
        tokio::time::resume();
    }
}

#[tokio::test]
async fn the_tools_of_a_server_that_is_away_are_still_offered_and_say_so() {
    let rig = Rig::new();
    let before = rig.tools.current_toolbox().await;
    rig.behave("refuse-start");
    rig.server.disconnect().await;
    let after = rig.tools.current_toolbox().await;
    assert_eq!(after.definitions(), before.definitions());
    assert!(after.unavailable_toolsets().is_empty());
    let text = "error: the server \"script\" of this tool cannot be reached now; nothing was done";
    let output = call(&after, "script__save", json!({"text": "a"})).await;
    assert_eq!(output, failed("tool_unavailable", text));
    assert_eq!(rig.noted("effects"), Vec::<String>::new());
}

// D20
#[tokio::test]
async fn a_server_that_does_not_greet_is_given_up_and_killed() {
    let brief = McpLimits { connect: Duration::from_millis(300), ..limits() };
    let rig = Rig::with(|it| it.limits(brief));
    rig.behave("hang-start");
    let lifeline = rig.lifeline();
    let error = rig.server.connect().await.expect_err("it does not answer");
    assert_eq!(error.category(), "mcp_timeout");
    assert_eq!(error.to_string(), "the MCP server \"script\" did not greet within 300 ms");
    ends(lifeline).await;
}

// D20: the clock of the test is paused once the server is there, so that the limit passes at once.
#[tokio::test]
async fn a_call_that_takes_too_long_is_given_up_and_the_server_is_told() {
    let rig = Rig::new();
    let toolbox = rig.tools.current_toolbox().await;
    tokio::time::pause();
    let output = call(&toolbox, "script__hang", json!({})).await;
    tokio::time::resume();
    let text = "error: the tool did not finish within 60000 ms; whether it took effect is unknown";
    assert_eq!(output, failed("tool_timeout", text));
    // The next request on the pipe is answered after the cancellation was received.
    assert_eq!(rig.call("echo", json!({"text": "on"})).await, Output::text("on"));
    assert_eq!(rig.noted("cancelled").len(), 1);
    assert_eq!(rig.starts(), 1);
}

// INV-12
#[tokio::test]
async fn a_message_that_is_too_large_ends_the_connection_and_not_the_agent() {
    let rig = Rig::new();
    let output = rig.call("huge", json!({"bytes": 100_001})).await;
    let text = "error: the server \"script\" of this tool went away while it ran: \
                it sent a message larger than 100000 bytes";
    assert_eq!(output, failed("tool_interrupted", text));
    assert_eq!(rig.call("huge", json!({"bytes": 3})).await, Output::text("xxx"));
    assert_eq!(rig.starts(), 2);
}

#[tokio::test]
async fn a_server_that_does_not_stop_at_the_end_of_its_input_is_stopped() {
    let brief = McpLimits { stop: Duration::from_millis(100), ..limits() };
    let rig = Rig::with(|it| it.limits(brief));
    rig.behave("stubborn");
    let lifeline = rig.lifeline();
    rig.server.connect().await.expect("starts");
    rig.server.disconnect().await;
    ends(lifeline).await;
    assert!(!rig.server.report_status().await.connected);
    assert_eq!(rig.call("echo", json!({"text": "on"})).await, Output::text("on"));
}

#[tokio::test]
async fn a_server_that_nobody_holds_any_more_is_stopped() {
    let rig = Rig::new();
    let lifeline = rig.lifeline();
    rig.server.connect().await.expect("starts");
    let Rig { folder: _folder, server, tools } = rig;
    drop((server, tools));
    ends(lifeline).await;
}

#[tokio::test]
async fn who_waits_for_a_server_that_we_stop_is_told() {
    let rig = Rig::with(|it| it.recovery("hang", Recovery::Report));
    let toolbox = rig.tools.current_toolbox().await;
    let waiting = call(&toolbox, "script__hang", json!({}));
    let (output, ()) = tokio::join!(waiting, async {
        while rig.noted("hanging").is_empty() {
            tokio::task::yield_now().await;
        }
        rig.server.disconnect().await;
    });
    let text = "error: the server \"script\" of this tool went away while it ran: it was stopped; \
                whether it took effect is unknown";
    assert_eq!(output, failed("tool_interrupted", text));
}

/// Waits until the program that holds a connection here is gone.
async fn ends(listener: TcpListener) {
    let waits = tokio::task::spawn_blocking(move || {
        let (mut held, _) = listener.accept().expect("it connects");
        held.set_read_timeout(Some(Duration::from_secs(20))).expect("a limit");
        let mut rest = Vec::new();
        held.read_to_end(&mut rest).map(|_| ())
    });
    let ended = waits.await.expect("does not panic");
    // A killed program may leave a reset behind.
    let gone = ended.as_ref().err().is_none_or(|it| it.kind() == std::io::ErrorKind::ConnectionReset);
    assert!(gone, "{ended:?}");
}
