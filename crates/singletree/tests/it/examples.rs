//! Each example is run as a program, and its output is compared with the expected text.

use std::path::PathBuf;
use std::process::Command;

/// Returns the program of an example: `cargo test` builds them beside this test.
fn program(name: &str) -> PathBuf {
    let here = std::env::current_exe().unwrap();
    here.parent().unwrap().parent().unwrap().join("examples").join(name)
}

fn check(name: &str, arguments: &[&str], wanted: &str) {
    let program = program(name);
    if !program.exists() {
        eprintln!("not run: example {name}: it was not built (cargo test without --test builds it)");
        return;
    }
    let ran = Command::new(program).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{name}: {}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!(said.trim_end(), wanted, "{name}");
}

#[test]
fn hello_is_answered_twice() {
    check("hello", &[], "Hello.\nHello again.");
}

#[test]
fn a_tool_is_called_and_its_error_reaches_the_model() {
    let wanted = "assistant: \n\
                  tool: 18 degrees, light rain\n\
                  assistant: The station says: 18 degrees, light rain.\n\
                  assistant: \n\
                  tool: error: there is no station in Atlantis\n\
                  assistant: The station says: error: there is no station in Atlantis.";
    check("tools", &[], wanted);
}

#[test]
fn a_person_approves_one_refund_and_rejects_the_other() {
    let call = r#"{"arguments":{"amount":40},"call_id":"call_1_0","description":"Pays money back.","effect":"destructive","kind":"approval","tool":"refund"}"#;
    let wanted = format!(
        "conv-1 waits: {call}\n\
         refunded 40 euros under a key of 64 digits\n\
         conv-2 waits: {call}\n\
         {{\"reason\":\"too much\",\"status\":\"denied\"}}"
    );
    check("approval", &[], &wanted);
}

#[test]
fn a_turn_goes_on_in_another_process() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("chat.db");
    let file = file.to_str().unwrap();
    check("resume", &[file], "suspended: run me again, today or in a year");
    check("resume", &[file], "Window or aisle?\nBooked: window seat.");
    check("resume", &[file], "suspended: run me again, today or in a year");
}

#[test]
fn a_store_of_ones_own_keeps_a_session() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_str().unwrap();
    check("custom_store", &[folder], "visits: 1");
    check("custom_store", &[folder], "visits: 2");
}

#[test]
fn a_conversation_is_handed_over_and_back() {
    let wanted = "> Hello\n\
                  > I want my money back\n\
                  > Thanks\n\
                  > Now about those bugs\n\
                  -        user: Hello\n\
                  help     assistant: help here: done.\n\
                  -        user: I want my money back\n\
                  help     assistant: \n\
                  help     tool: {\"agent\":\"billing\",\"reason\":\"it is about money\",\"status\":\"transferred\",\"to\":\"billing\"}\n\
                  billing  assistant: billing here: done.\n\
                  -        user: Thanks\n\
                  billing  assistant: billing here: done.\n\
                  -        user: Now about those bugs\n\
                  billing  assistant: \n\
                  billing  tool: {\"agent\":\"help\",\"reason\":\"it is about bugs\",\"status\":\"transferred\",\"to\":\"help\"}\n\
                  help     assistant: help here: done.";
    check("multi_agent", &[], wanted);
}

#[test]
fn only_the_reply_that_fits_is_part_of_the_conversation() {
    check("structured_output", &[], "login fails (severity 4), in 1 message");
}

#[test]
fn an_agent_inside_of_a_graph_brings_back_what_it_found() {
    check("research", &[], "My colleague says: it is 42.");
}
