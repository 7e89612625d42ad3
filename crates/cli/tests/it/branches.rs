//! Forks of conversations, and the removal of old data.

use serde_json::json;

use crate::home::Home;

fn shown(home: &Home, session: &str) -> Vec<String> {
    let (_, shown) = home.json(&["sessions", "show", session]);
    let texts = shown["history"].as_array().unwrap().iter();
    texts.map(|it| it["message"]["content"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn a_fork_prints_its_id_and_goes_on_from_the_place() {
    let home = Home::new();
    assert_eq!(home.feed(&["chat", "--session", "s"], "my name is Ann\nwhat is 6*7\n").code, 0);
    let before = shown(&home, "s");
    let forked = home.run(&["fork", "s"]);
    let fork = forked.out.trim_end().to_owned();
    assert_eq!((forked.code, forked.err.as_str(), shown(&home, &fork)), (0, "", before.clone()));
    assert_eq!(home.json(&["fork", "s", "--at", "2", "--to", "f"]), (0, json!({ "forked": "f" })));
    assert_eq!(shown(&home, "f"), before[..2]);
    let (_, about) = home.json(&["sessions", "show", "f"]);
    assert_eq!(about["parent"], json!({ "session": "s", "offset": 2 }));
    assert_eq!(home.run(&["send", "what is my name", "--session", "f"]).out, "Your name is Ann.\n");
    assert_eq!(shown(&home, "s"), before);
    for (args, category) in [
        (&["fork", "none"][..], "chat_session_unknown"),
        (&["fork", "s", "--to", "f"], "chat_session_exists"),
        (&["fork", "s", "--at", "99"], "chat_message_unknown"),
    ] {
        let (code, document) = home.json(args);
        assert_eq!((code, &document["error"]["category"]), (1, &json!(category)), "{args:?}");
    }
    assert_eq!(home.run(&["fork", "s", "--at", "x"]).code, 2);
}

#[test]
fn records_are_forgotten_on_command_and_messages_stay() {
    let home = Home::new();
    for _ in 0..3 {
        assert_eq!(home.run(&["send", "thanks", "--session", "s", "--key", "k"]).code, 0);
        assert_eq!(home.run(&["send", "thanks", "--session", "s"]).code, 0);
    }
    let before = shown(&home, "s");
    assert_eq!(before.len(), 8, "one key is one turn");
    assert_eq!(home.run(&["retain", "--days", "1"]).out, "forgotten: 0 turns, 0 events\n");
    let (code, forgotten) = home.json(&["retain", "--turns", "1"]);
    assert_eq!((code, &forgotten["sessions"], &forgotten["turns"]), (0, &json!(1), &json!(3)), "{forgotten}");
    assert_eq!(shown(&home, "s"), before);
    // The key went with its turn.
    assert_eq!(home.run(&["send", "thanks", "--session", "s", "--key", "k"]).code, 0);
    assert_eq!(shown(&home, "s").len(), 10);
    assert_eq!(home.run(&["retain"]).code, 2);
}
