//! A server that stands still for longer than its lease, as a machine that swaps or is moved does.

use std::sync::mpsc;
use std::thread;

use serde_json::json;

use crate::home::Home;
use crate::postgres::{REPLY, read_texts, say, serve_slow_agent, stream_lines};
use singletree_test_store::PostgresServer;

// INV-1, INV-2: another server finishes the turn meanwhile. Whoever waits at the one that stood still is told how it ended.
#[test]
fn whoever_waits_at_a_server_that_stood_still_is_told_how_the_turn_ended_elsewhere() {
    let test = "whoever_waits_at_a_server_that_stood_still_is_told_how_the_turn_ended_elsewhere";
    let Some(postgres) = PostgresServer::start(test) else { return };
    let (home, other, url) = (Home::new(), Home::new(), postgres.create_database("still"));
    let (one, two) = (&serve_slow_agent(&home, &url), &serve_slow_agent(&other, &url));
    let is_accepted = || {
        let (_, listed) = home.json(&["sessions", "list", "--store", &url]);
        listed["sessions"].as_array().unwrap().iter().any(|session| session["session"] == "s")
    };
    // One caller waits for a whole answer, the other one reads the pieces of another.
    let (answer, streamed, follows) = thread::scope(|threads| {
        let (sender, begun) = mpsc::channel();
        let waiting = threads.spawn(move || say(one, "Hello."));
        assert!((0..1_000).any(|_| is_accepted()), "the message is accepted");
        let streaming = threads.spawn(move || {
            let mut lines = Vec::new();
            for line in stream_lines(one, "/v1/sessions/t/messages", &json!({ "content": "Hello." })) {
                if line.contains("\"type\":\"delta\"") {
                    // The test may have gone on.
                    sender.send(()).unwrap_or_default();
                }
                lines.push(line);
            }
            lines
        });
        begun.recv().unwrap();
        one.set_paused(true);
        // Waits until the lease has ended, then for both turns.
        let follows = say(two, "Me too.");
        one.set_paused(false);
        (waiting.join().unwrap(), streaming.join().unwrap(), follows)
    });
    assert_eq!(
        (&answer["status"], &follows["status"]),
        (&json!("completed"), &json!("completed")),
        "{answer}"
    );
    assert_eq!(answer["replies"][0]["content"], REPLY.repeat(20), "{answer}");
    let of =
        |kind: &str| streamed.iter().filter(|line| line.contains(&format!("\"type\":\"{kind}\""))).count();
    assert_eq!(["turn.accepted", "message.appended", "turn.completed"].map(of), [1, 1, 1], "{streamed:?}");
    let reply = || ("assistant", REPLY.repeat(20));
    let expected = [("user", "Hello.".to_owned()), reply(), ("user", "Me too.".to_owned()), reply()];
    assert_eq!(read_texts(two, "s"), expected.map(|(role, text)| (role.to_owned(), text)));
}
