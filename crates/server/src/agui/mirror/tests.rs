//! The snapshots that make a client's message list equal the transcript.

use super::*;
use serde_json::json;

fn held(messages: &[(&str, &str, &str)]) -> Vec<Held> {
    let held = messages.iter().map(|(id, role, text)| json!({ "id": id, "role": role, "content": text }));
    held.map(|it| serde_json::from_value(it).unwrap()).collect()
}

fn user(id: &str, text: &str) -> Message {
    Message::User { id: id.into(), content: Content::Text(text.into()) }
}

fn ids(event: &Event) -> Vec<&str> {
    match event {
        Event::MessagesSnapshot { messages } => messages.iter().map(Message::id).collect(),
        other => panic!("no snapshot: {other:?}"),
    }
}

/// Applies a snapshot as an AG-UI 1.0 client does.
fn apply(has: &[String], wanted: &[&str]) -> Vec<String> {
    let kept = has.iter().filter(|it| wanted.contains(&it.as_str())).cloned();
    let new = wanted.iter().filter(|it| !has.iter().any(|has| has == *it)).map(|it| (*it).to_owned());
    kept.chain(new).collect()
}

#[test]
fn whatever_a_client_has_it_ends_with_exactly_what_there_is() {
    let texts = ["a", "b", "c", "d"];
    let all: Vec<_> = texts.iter().map(|it| user(it, it)).collect();
    // Every list of up to four of five ids, duplicates included, against every prefix of the transcript.
    let choices = ["a", "b", "c", "d", "x"];
    for len in 0..=4_u32 {
        for n in 0..choices.len().pow(len) {
            let has: Vec<_> = (0..len).map(|at| choices[n / choices.len().pow(at) % choices.len()]).collect();
            for end in 0..=all.len() {
                let posted = held(&has.iter().map(|it| (*it, "user", *it)).collect::<Vec<_>>());
                let mut mirror = ClientMessageList::from_posted(&posted);
                let events = mirror.build_snapshots(all[..end].to_vec());
                assert!(events.len() <= 2);
                let mut client: Vec<_> = has.iter().map(|it| (*it).to_owned()).collect();
                for event in &events {
                    client = apply(&client, &ids(event));
                }
                assert_eq!(client, texts[..end], "{has:?}");
                assert!(mirror.has_messages(&all[..end], true));
            }
        }
    }
}

#[test]
fn a_client_is_in_step_when_it_has_the_same_and_nothing_else() {
    let messages = [user("a", "one"), user("b", "two")];
    let check = |posted: &[(&str, &str, &str)], all: bool, expect: bool| {
        assert_eq!(has_equal_messages(&held(posted), &messages, all), expect, "{posted:?}");
    };
    let (a, b) = (("a", "user", "one"), ("b", "user", "two"));
    check(&[a, b], true, true);
    check(&[a], true, false);
    check(&[b, a], true, false);
    check(&[a, ("b", "user", "2")], true, false);
    check(&[a, ("c", "user", "two")], true, false);
    check(&[a, ("b", "assistant", "two")], true, false);
    check(&[("x", "user", "x"), a, b], true, false);
    // Only the last messages are known here.
    check(&[("x", "user", "x"), a, b], false, true);
    check(&[a, b, ("x", "user", "x")], false, false);
    // Messages that belong to the client alone.
    let own = [("s", "system", "Be kind."), a, ("r", "reasoning", "hm"), b, ("d", "developer", "d")];
    check(&own, true, true);
}

#[test]
fn a_picture_is_the_clients_own_where_the_text_beside_it_is_the_same() {
    let part = |url: &str| {
        Part::image(singletree_protocol::agui::PartSource::Url { value: url.into(), mime_type: None })
    };
    let ours =
        Message::User { id: "a".into(), content: Content::Parts(vec![Part::text("see"), part("blob:1")]) };
    let theirs = json!({ "id": "a", "role": "user", "content": [
        { "type": "text", "text": "see" },
        { "type": "image", "source": { "type": "data", "value": "AA==", "mimeType": "image/png" } } ] });
    let posted: Vec<Held> = vec![serde_json::from_value(theirs.clone()).unwrap()];
    assert!(has_equal_messages(&posted, std::slice::from_ref(&ours), true));
    let mut messages = [ours, user("b", "two")];
    replace_by_client_copies(&posted, &mut messages);
    assert_eq!(serde_json::to_value(&messages[0]).unwrap(), theirs);
}

#[test]
fn what_is_no_message_is_none() {
    let odd: Vec<Held> = vec![serde_json::from_value(json!({ "id": 7, "role": ["user"] })).unwrap()];
    assert!(!has_equal_messages(&odd, &[user("a", "one")], true));
    assert_eq!(ClientMessageList::from_posted(&odd).build_snapshots(vec![user("a", "one")]).len(), 1);
}
