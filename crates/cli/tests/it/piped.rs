//! A chat where nobody types.

use std::io::{BufRead, BufReader, Read, Write};

use crate::home::{Home, kill};

#[test]
fn each_line_is_a_message_and_the_last_turn_gives_the_code() {
    let check = |input: &str, code: i32, out: &str| {
        let ran = Home::new().feed(&["chat", "--session", "s"], input);
        assert_eq!((ran.code, ran.out.as_str()), (code, out), "{input}");
    };
    check("", 0, "");
    check(
        "what is 6*7\n\nthanks\n",
        0,
        "  * calculator {\"expression\":\"6*7\"}\n  = 42\n6*7 = 42\nYou are welcome.\n",
    );
    let failed = "I had trouble responding. Try again in a moment.\n  (provider_unavailable: ";
    let ran = Home::new().feed(&["chat"], "thanks\nfail\n");
    assert_eq!(ran.code, 1);
    assert!(ran.out.starts_with(&format!("You are welcome.\n{failed}")), "{}", ran.out);
}

#[test]
fn what_waits_is_printed_with_its_id_and_nobody_is_asked() {
    let home = Home::new();
    let ran = home.feed(&["chat", "--session", "s"], "send hello to Bob\n");
    let (_, pending) = home.json(&["pending"]);
    let signal = pending["pending"][0]["signal"].as_str().unwrap();
    let waiting = format!(
        "approval wanted: send_message (effect: destructive)\n    body: \"hello\"\n    to: \"Bob\"\n    \
         singletree answer {signal} approve --session s\n    singletree answer {signal} reject --session s\n"
    );
    assert_eq!((ran.code, ran.out), (3, waiting.clone()));
    // The next chat begins with the pending wait.
    let ran = home.feed(&["chat"], "");
    assert_eq!((ran.code, ran.out), (0, waiting));
    assert_eq!(home.outbox(), [] as [serde_json::Value; 0]);
}

// INV-2
#[test]
fn what_was_accepted_before_a_kill_is_finished_before_the_first_line() {
    let home = Home::new();
    let mut child = home.spawn(&["chat", "--session", "s"]);
    child.stdin.as_mut().unwrap().write_all(b"tell me a story\n").unwrap();
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut [0; 64]).unwrap();
    kill(child);

    let mut child = home.spawn(&["chat"]);
    child.stdin.as_mut().unwrap().write_all(b"thanks\n").unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    drop(child.stdin.take());
    let lines: Vec<String> = out.lines().map(Result::unwrap).collect();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let [note, message, story, thanks] = lines.as_slice() else { panic!("{lines:?}") };
    assert_eq!(note, "finishing what was accepted before:");
    assert_eq!(message, "you> tell me a story");
    assert!(story.starts_with("Once there was") && story.ends_with("wrote that down, too."), "{story}");
    assert_eq!(thanks, "You are welcome.");
}
