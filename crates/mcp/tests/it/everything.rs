//! The reference server of the protocol's own people, over standard streams.
#![cfg(unix)]

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;
use singletree_mcp::{McpCommand, McpServer};
use singletree_tools::{Effect, LiveToolbox, Output};

use crate::rig::{call, failed, kill, limits, live};

/// Where the server is, if `.ci/tools/install` brought it; else it is said that the test is not run.
fn installed(test: &str) -> Option<PathBuf> {
    let missing = |reason: &str| {
        // `eprintln!` of a test that passes is swallowed.
        writeln!(std::io::stderr(), "not run: {test}: {reason}").expect("the error stream takes a line");
        None
    };
    let Some(tools) = std::env::var_os("SINGLETREE_TOOLS").map(PathBuf::from) else {
        return missing("SINGLETREE_TOOLS is not set; .ci/run sets it");
    };
    let path = tools.join("node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    let node = std::process::Command::new("node").arg("--version").output();
    match node {
        Ok(it) if it.status.success() && path.exists() => Some(path),
        Ok(it) if it.status.success() => missing("@modelcontextprotocol/server-everything is not installed"),
        Ok(_) | Err(_) => missing("there is no node"),
    }
}

fn path_of_programs() -> String {
    let path = std::env::var_os("PATH").expect("programs are found somewhere");
    path.into_string().expect("text")
}

fn everything(path: PathBuf) -> (McpServer, LiveToolbox) {
    let path = path.into_os_string().into_string().expect("text");
    let command = McpCommand::new("node", [path, "stdio".to_owned()])
        .env("PATH", path_of_programs())
        .env("CANARY", "given");
    let server = McpServer::program("everything", command).limits(limits()).build().expect("well described");
    let tools = live(&server);
    (server, tools)
}

#[tokio::test]
async fn its_tools_are_listed_and_called() {
    let Some(path) = installed("its_tools_are_listed_and_called") else { return };
    let (server, tools) = everything(path);
    let toolbox = tools.current_toolbox().await;
    assert!(toolbox.unavailable_toolsets().is_empty(), "{:?}", toolbox.unavailable_toolsets());
    let effect =
        |name: &str| toolbox.find_tool(&format!("everything__{name}")).map(singletree_tools::Tool::effect);
    assert_eq!(effect("echo"), Some(Effect::Read));
    assert_eq!(effect("toggle-simulated-logging"), Some(Effect::SafeWrite));
    let report = server.report_status().await;
    assert!(report.tools.len() >= 12, "{report:?}");
    assert_eq!(report.problems, Vec::<String>::new());

    let run = |name: &str, arguments| {
        let (toolbox, name) = (toolbox.clone(), format!("everything__{name}"));
        async move { call(&toolbox, &name, arguments).await }
    };
    assert_eq!(run("echo", json!({"message": "hello"})).await, Output::text("Echo: hello"));
    assert_eq!(run("get-sum", json!({"a": 2, "b": 3})).await, Output::text("The sum of 2 and 3 is 5."));
    let refused = run("get-sum", json!({"a": "two", "b": 3})).await;
    assert_eq!(refused.category, Some("tool_arguments_invalid"));
    let structured = run("get-structured-content", json!({"location": "Chicago"})).await;
    let read: serde_json::Value = serde_json::from_str(&structured.text).expect("JSON");
    assert!(read["temperature"].is_number(), "{structured:?}");
    let image = run("get-tiny-image", json!({})).await;
    assert_eq!(image.pictures.len(), 1, "{image:?}");
    assert_eq!(image.pictures[0].media_type, "image/png");
    let env = run("get-env", json!({})).await;
    let env: serde_json::Value = serde_json::from_str(&env.text).expect("JSON");
    let names: Vec<&String> = env.as_object().expect("an object").keys().collect();
    assert_eq!(names, ["CANARY", "PATH"]);
}

#[tokio::test]
async fn it_is_killed_before_and_in_the_middle_of_calls_and_nothing_is_lost() {
    let Some(path) = installed("it_is_killed_before_and_in_the_middle_of_calls_and_nothing_is_lost") else {
        return;
    };
    let (server, tools) = everything(path);
    for round in 0..3 {
        let text = format!("round {round}");
        let output = call(&tools.current_toolbox().await, "everything__echo", json!({"message": text})).await;
        assert_eq!(output, Output::text(format!("Echo: {text}")));
        kill(server.report_status().await.process);
    }
    // One that only reads is asked again, and answers.
    let toolbox = tools.current_toolbox().await;
    let killed = server.report_status().await.process;
    let working =
        call(&toolbox, "everything__trigger-long-running-operation", json!({"duration": 1, "steps": 1}));
    let (output, ()) = tokio::join!(working, async {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        kill(killed);
    });
    assert_eq!(output, Output::text("Long running operation completed. Duration: 1 seconds, Steps: 1."));
    let report = server.report_status().await;
    assert!(report.connected && report.process != killed, "{report:?}");
    assert_eq!(report.connections, 5);
    assert_eq!(tools.current_toolbox().await.definitions(), toolbox.definitions());
}

// D20
#[tokio::test]
async fn a_call_that_takes_it_too_long_is_given_up_and_it_goes_on() {
    let Some(path) = installed("a_call_that_takes_it_too_long_is_given_up_and_it_goes_on") else { return };
    let (server, tools) = everything(path);
    let toolbox = tools.current_toolbox().await;
    tokio::time::pause();
    let slow = json!({"duration": 600, "steps": 1});
    let output = call(&toolbox, "everything__trigger-long-running-operation", slow).await;
    tokio::time::resume();
    assert_eq!(output, failed("tool_timeout", "error: the tool did not finish within 60000 ms"));
    let output = call(&toolbox, "everything__echo", json!({"message": "on"})).await;
    assert_eq!(output, Output::text("Echo: on"));
    assert_eq!(server.report_status().await.connections, 1);
    assert!(limits().call > Duration::from_secs(1));
}
