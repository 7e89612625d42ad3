//! Requests to a server about a conversation that another server owns.

use serde_json::{Value, json};
use singletree_test_store::PostgresServer;

use crate::home::Home;
use crate::postgres::{REPLY, read_texts, say, serve_slow_agent, stream_lines};
use crate::serving::Serving;

/// The open turn of the session, as a server lists it and as it shows it.
fn read_open_turn(server: &Serving) -> [Value; 2] {
    let listed = server.ask("GET", "/v1/sessions/s/turns", &json!(null));
    let items = listed["items"].as_array().unwrap_or_else(|| panic!("{listed}"));
    let open = items.iter().find(|turn| turn["status"] == "accepted").unwrap_or_else(|| panic!("{listed}"));
    let path = format!("/v1/sessions/s/turns/{}", open["id"].as_str().unwrap());
    [open.clone(), server.ask("GET", &path, &json!(null))]
}

// Only the owner has the activity of a turn in memory.
#[test]
fn each_server_tells_what_a_turn_does_at_another_one() {
    let test = "each_server_tells_what_a_turn_does_at_another_one";
    let Some(postgres) = PostgresServer::start(test) else { return };
    let (home, other, url) = (Home::new(), Home::new(), postgres.create_database("activity"));
    let (one, two) = (serve_slow_agent(&home, &url), serve_slow_agent(&other, &url));
    assert_eq!(say(&one, "Hello.")["status"], "completed");
    let mut lines = stream_lines(&one, "/v1/sessions/s/messages", &json!({ "content": "Go on." }));
    assert!(lines.any(|line| line.contains("\"type\":\"delta\"")));
    for server in [&one, &two] {
        for turn in read_open_turn(server) {
            assert_eq!(turn["activity"]["state"], "running", "{turn}");
        }
    }
    assert!(lines.any(|line| line.contains("turn.completed")));
    one.stop();
    two.stop();
}

// OpenHarness refuses under status 200, where no other protocol does.
#[test]
fn a_shell_talks_to_any_server() {
    let test = "a_shell_talks_to_any_server";
    let Some(postgres) = PostgresServer::start(test) else { return };
    let (home, other, url) = (Home::new(), Home::new(), postgres.create_database("shells"));
    let (one, two) = (serve_slow_agent(&home, &url), serve_slow_agent(&other, &url));
    assert_eq!(say(&one, "Hello.")["status"], "completed");
    let said = |server: &Serving, id: Option<&str>| {
        let context = json!({ "session_id": "s", "user_intent": "And you?" });
        let mut message = json!({ "protocol_version": "1.0.0", "request": { "context": context } });
        id.into_iter().for_each(|id| message["request_id"] = id.into());
        server.ask("POST", "/v1/openharness", &message)
    };
    for (id, messages) in [(None, 4), (Some("r"), 6), (Some("r"), 6)] {
        let answered = said(&two, id);
        assert_eq!(answered["response"]["status"], "success", "{answered}");
        assert_eq!(read_texts(&one, "s").len(), messages);
    }
    // The other one takes the turn over, and answers.
    let answered = std::thread::scope(|threads| {
        let answering = threads.spawn(|| said(&two, Some("killed")));
        while read_texts(&two, "s").len() < 7 {
            std::thread::yield_now();
        }
        drop(one);
        answering.join().unwrap()
    });
    assert_eq!(answered["response"]["status"], "success", "{answered}");
    let texts = read_texts(&two, "s");
    assert_eq!((texts.len(), texts[7].1.as_str()), (8, REPLY.repeat(20).as_str()), "{texts:?}");
    two.stop();
}
