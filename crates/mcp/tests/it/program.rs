//! A server that is a program: its tools, and calls that succeed or are refused.

use futures_util::future::join_all;
use serde_json::json;
use singletree_llm::ToolCall;
use singletree_mcp::{McpCommand, McpReport, McpServer};
use singletree_tools::{Effect, Output, Recovery, Toolset};

use crate::rig::{Rig, call, failed, limits};

#[tokio::test]
async fn tools_are_discovered_page_by_page_and_judged_by_hints_and_settings() {
    let rig = Rig::with(|it| it.effect("grow", Effect::Local).recovery("save", Recovery::Rerun));
    let toolbox = rig.tools.current_toolbox().await;
    let said: Vec<_> = toolbox
        .definitions()
        .iter()
        .map(|it| {
            let tool = toolbox.find_tool(it.name()).expect("it is defined");
            assert_eq!(tool.server(), Some("script"), "people who approve a call are told whose tool it is");
            (it.name().to_owned(), tool.effect(), tool.on_unknown_outcome())
        })
        .collect();
    let read = |name: &str| (format!("script__{name}"), Effect::Read, Recovery::Rerun);
    let expected = vec![
        read("echo"),
        ("script__save".to_owned(), Effect::Destructive, Recovery::Rerun),
        ("script__save_and_die".to_owned(), Effect::SafeWrite, Recovery::Report),
        read("look-and-die"),
        read("fail"),
        read("refuse"),
        ("script__hang".to_owned(), Effect::Destructive, Recovery::Rerun),
        read("huge"),
        read("env"),
        ("script__grow".to_owned(), Effect::Local, Recovery::Report),
    ];
    assert_eq!(said, expected);
    let echo = toolbox.find_tool("script__echo").expect("it is there").definition();
    assert_eq!(echo.description(), "Says it again.");
    let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
    assert_eq!(*echo.parameters(), schema);

    let report = rig.server.report_status().await;
    let McpReport { connected, process, connections, tools, problems, said: _ } = report;
    assert_eq!((connected, connections, tools.len()), (true, 1, 10));
    assert_eq!(process.map(|it| it.to_string()), rig.noted("starts").pop());
    assert_eq!(problems[0], "save.and die: offered as script__save_and_die");
    assert!(problems[1].starts_with("crooked: not offered: "), "{problems:?}");
    assert_eq!(problems.len(), 2);
}

#[tokio::test]
async fn a_server_that_belongs_to_somebody_else_is_not_believed() {
    let rig = Rig::with(|it| it.ignore_hints().effect("echo", Effect::Read));
    let toolbox = rig.tools.current_toolbox().await;
    let effect = |name| toolbox.find_tool(name).expect("it is there").effect();
    assert_eq!(effect("script__echo"), Effect::Read);
    assert_eq!(effect("script__huge"), Effect::Destructive);
}

#[tokio::test]
async fn calls_are_answered_and_what_goes_wrong_is_something_that_a_model_can_read() {
    let rig = Rig::new();
    assert_eq!(rig.call("echo", json!({"text": "hello"})).await, Output::text("hello"));
    assert_eq!(rig.call("fail", json!({})).await, failed("tool_failed", "error: no luck"));
    let refused = "error: the MCP server \"script\" refused: not with me";
    assert_eq!(rig.call("refuse", json!({})).await, failed("tool_failed", refused));
    // The arguments are checked before the server sees them.
    let output = rig.call("echo", json!({"text": 1})).await;
    assert_eq!(output.category, Some("tool_arguments_invalid"));
    assert_eq!(rig.starts(), 1);
}

// INV-17: keys of the harness are not the server's business.
#[tokio::test]
async fn a_program_sees_the_variables_that_it_is_given_and_no_other() {
    let rig = Rig::new();
    let output = rig.call("env", json!({})).await;
    assert_eq!(output, Output::text("SCRIPT_KEY SCRIPT_PLAIN"));
}

#[tokio::test]
async fn nothing_is_started_before_it_is_needed_and_who_needs_it_at_once_shares_the_start() {
    let rig = Rig::new();
    assert_eq!((rig.starts(), rig.server.report_status().await.connections), (0, 0));
    let calls = (0..8).map(|it| rig.call("echo", json!({"text": it.to_string()})));
    let texts: Vec<String> = join_all(calls).await.into_iter().map(|it| it.text).collect();
    assert_eq!(texts, ["0", "1", "2", "3", "4", "5", "6", "7"]);
    assert_eq!(rig.starts(), 1);
    // The cached tools are not listed again.
    let (one, two) = (rig.server.offer_tools().await, rig.server.offer_tools().await);
    assert!(std::sync::Arc::ptr_eq(&one.expect("tools"), &two.expect("tools")));
}

#[tokio::test]
async fn a_tool_that_appears_later_is_there_at_the_next_question() {
    let rig = Rig::new();
    let before = rig.tools.current_toolbox().await;
    assert!(before.find_tool("script__new").is_none());
    assert_eq!(call(&before, "script__grow", json!({})).await, Output::text("grown"));
    // The notification came before the answer; who takes it down may be a task behind.
    let mut turns = 0;
    while rig.tools.current_toolbox().await.find_tool("script__new").is_none() {
        turns += 1;
        assert!(turns < 1_000, "the list was not read again");
        tokio::task::yield_now().await;
    }
    assert_eq!(rig.call("new", json!({})).await, Output::text("new"));
    assert_eq!(rig.starts(), 1);
}

// INV-12
#[tokio::test]
async fn long_outputs_are_cut_and_surplus_tools_left_out() {
    let mut few = limits();
    few.tools = 2;
    let rig = Rig::with(|it| it.limits(few));
    assert_eq!(rig.tools.current_toolbox().await.definitions().len(), 2);
    let problems = rig.server.report_status().await.problems;
    assert_eq!(problems, ["there are more than 2 tools; the rest is not offered"]);

    let rig = Rig::new();
    let output = rig.call("huge", json!({"bytes": 2_000})).await;
    let note = "\n[cut: the whole output has 2000 bytes]";
    assert_eq!(output, Output::text(format!("{}{note}", "x".repeat(1_000 - note.len()))));
}

#[tokio::test]
async fn malformed_settings_are_refused_before_anything_starts() {
    let none: [&str; 0] = [];
    let run = |program: &str| McpCommand::new(program, none);
    for (built, problem) in [
        (McpServer::program("a b", run("x")).build(), "its name is not 1 to 32 of"),
        (McpServer::program("a", run("")).build(), "it names no program"),
        (
            McpServer::program("a", run("x").env("A=B", "")).build(),
            "\"A=B\" cannot be the name of a variable",
        ),
    ] {
        let error = built.expect_err(problem);
        assert_eq!(error.category(), "mcp_configuration_invalid");
        assert!(error.to_string().contains(problem), "{error}");
    }
}

#[tokio::test]
async fn a_call_of_what_is_gone_names_who_is_out_of_reach() {
    let rig = Rig::new();
    rig.behave("refuse-start");
    let toolbox = rig.tools.current_toolbox().await;
    assert_eq!(toolbox.unavailable_toolsets().len(), 1);
    assert_eq!(toolbox.unavailable_toolsets()[0].error.category(), "tool_unavailable");
    let unknown = ToolCall::new("call", "script__echo", serde_json::Map::new());
    assert_eq!(
        toolbox.check_call(&unknown).expect_err("it is not there").to_string(),
        "there is no tool \"script__echo\"; the tools are: none; not all tools can be reached now of: script"
    );
}
