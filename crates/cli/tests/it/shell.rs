//! `singletree shell` with `singletree serve`: two programs, one conversation.

use crate::home::{Home, Ran};
use crate::serving::Serving;
use crate::terminal::Terminal;

/// Talks with a server from a pipe.
fn shell(server: &Serving, home: &Home, more: &[&str], input: &str) -> Ran {
    home.feed(&[&["shell", "--url", &server.url], more].concat(), input)
}

#[test]
fn a_pipe_is_answered_asked_and_can_decide_later() {
    let home = Home::new();
    let server = Serving::start(&home, &[]);
    let ran = shell(&server, &home, &["--session", "s"], "what is 2+2*3?\n\nsend hello to Ann\n");
    assert_eq!((ran.code, ran.err.as_str()), (3, ""));
    let expected = "2+2*3 = 8\nApproval wanted: send_message (risk: dangerous)\nMay `send_message` run with these \
                    arguments?\nbody: \"hello\"\nto: \"Ann\"\n    /approve or /reject\n";
    assert_eq!(ran.out, expected);
    assert!(home.outbox().is_empty());
    // An undecided question goes on waiting: a new shell has no token for it.
    let later = shell(&server, &home, &["--session", "s"], "/approve\n");
    assert_eq!(later.code, 2, "{later:?}");

    let ran = shell(&server, &home, &["--session", "yes"], "send hello to Ann\n/approve\n");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.ends_with("/approve or /reject\nDone. Sent to Ann.\n"), "{}", ran.out);
    assert_eq!(home.outbox().len(), 1);
    let ran = shell(&server, &home, &["--session", "no"], "send hello to Bob\n/reject\n");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.ends_with("Nothing was sent to Bob.\n"), "{}", ran.out);
    // An engine that fails is told, after it was asked again.
    let ran = shell(&server, &home, &["--session", "s"], "what time is it\n");
    assert_eq!(ran.code, 1, "{ran:?}");
    assert_eq!(home.outbox().len(), 1);
    server.stop();
}

#[test]
fn in_a_terminal_a_person_is_asked_and_only_the_word_counts() {
    let home = Home::new();
    let server = Serving::start(&home, &[]);
    let mut terminal = Terminal::start(&home, &["shell", "--url", &server.url, "--session", "s"], &[]);
    terminal.say("> ", "send hello to Ann and Bob");
    terminal.wait_for("Approval wanted: send_message (risk: dangerous)");
    // Neither half a word nor another one is an answer.
    terminal.say("approve, reject or later? ", "ok");
    terminal.say("approve, reject or later? ", "approve");
    terminal.wait_for("to: \"Bob\"");
    terminal.say("approve, reject or later? ", "reject");
    terminal.wait_for("It was sent to Ann. Nothing was sent to Bob.");
    terminal.say("> ", "/approve");
    terminal.wait_for("no question is open that could be decided so");
    terminal.say("> ", "/quit");
    let (_, _, status) = terminal.end();
    assert_eq!(status.code(), Some(1), "the last thing failed");
    assert_eq!(home.outbox().len(), 1);
    server.stop();
}

#[test]
fn a_key_is_taken_from_the_environment_and_told_to_nobody() {
    let home = Home::new();
    let server = Serving::start(&home, &["--auth"]);
    let refused = shell(&server, &home, &[], "what is 1+1?\n");
    assert_eq!(refused.code, 1, "{refused:?}");
    assert_eq!(refused.out, "a valid key is needed\n");
    let (code, made) = home.json(&["keys", "create", "--scope", "read", "--scope", "write"]);
    assert_eq!(code, 0);
    let secret = made["secret"].as_str().unwrap();
    let mut command = home.command(crate::home::BINARY);
    command.args(["shell", "--url", &server.url, "--key-env", "SHELL_KEY"]).env("SHELL_KEY", secret);
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"what is 1+1?\nsend hello to Ann\n").unwrap();
    drop(child.stdin.take());
    let output = child.wait_with_output().unwrap();
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(out.starts_with("1+1 = 2\n"), "{out} {err}");
    // Who may not decide is told where it is decided.
    assert_eq!(out.matches("It waits under the id apr-").count(), 1, "{out}");
    assert!(out.ends_with("Approval wanted: send_message\n"), "{out}");
    assert!(err.contains("denied by the engine: request_approval"), "{err}");
    assert!(!out.contains(secret) && !err.contains(secret));
    let unset = shell(&server, &home, &["--key-env", "NO_SUCH_KEY"], "");
    assert_eq!(unset.code, 2, "{unset:?}");
    server.stop();
}

#[test]
fn where_nobody_answers_or_a_key_would_be_exposed_it_says_so() {
    let home = Home::new();
    let gone = home.feed(&["shell", "--url", "http://127.0.0.1:1"], "hello\n");
    assert_eq!(gone.code, 1);
    assert!(gone.err.starts_with("error: http_unreachable: "), "{gone:?}");
    let mut command = home.command(crate::home::BINARY);
    command
        .args(["shell", "--url", "http://engine.example", "--key-env", "SHELL_KEY"])
        .env("SHELL_KEY", "canary-key");
    let output = command.output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(err.starts_with("error: client_key_exposed: ") && !err.contains("canary-key"), "{err}");
}
