//! The demo agent, by the script that it is shipped with.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use singletree_agent::ToolDocuments;
use singletree_agent::demo::{self, DemoParts};
use singletree_agent::{ArtifactOrigin, Artifacts};
use singletree_durable::{MemoryStore, TenantId};
use singletree_durable::{SessionId, SessionKey};
use singletree_env::{Clock, Env, SystemClock, Timestamp};
use singletree_harness::{Chat, ChatTurnOutcome, FailureBucket, SendOptions, TurnPromptPolicy};
use singletree_llm::{BoxFuture, ChatMessage, InstantTimer, Timer};

use crate::rig::{SESSION, completed, decide, errored, open, send, suspended, transcript, waiting};

fn parts(documents: &Arc<ToolDocuments>) -> DemoParts {
    DemoParts {
        notes: documents.clone(),
        outbox: documents.clone(),
        env: Env { clock: Arc::new(SecondDay), timer: Arc::new(InstantTimer), ..Env::from_system() },
        artifacts: None,
    }
}

/// A clock that stands at the beginning of the second day of 1970.
#[derive(Debug)]
struct SecondDay;

impl Clock for SecondDay {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(86_400_000)
    }
}

/// Returns the demo, and the documents of its tools.
fn demo() -> (Chat, Arc<ToolDocuments>) {
    let store = MemoryStore::new();
    let documents = Arc::new(ToolDocuments::new(Arc::new(store.clone()), Arc::new(SystemClock)));
    (open(demo::build_demo_agent(parts(&documents)).unwrap(), store), documents)
}

/// Returns the last reply.
async fn reply(chat: &Chat, text: &str) -> String {
    let outcome = send(chat, text).await;
    completed(&outcome).replies.last().unwrap().text().into_owned()
}

async fn check(conversation: &[(&str, &str)]) {
    let (chat, _documents) = demo();
    for (said, expected) in conversation {
        assert_eq!(&reply(&chat, said).await, expected, "{said}");
    }
}

#[tokio::test]
async fn it_tells_the_time_and_computes() {
    check(&[
        ("what time is it?", "It is 1970-01-02T00:00:00Z (UTC)."),
        ("What is 2+2*3?", "2+2*3 = 8"),
        ("calculate (1 + 2) / 4", "(1 + 2) / 4 = 0.75"),
        (
            "what is 1/0",
            "I can only answer that when it is arithmetic, and the calculator says: division by zero.",
        ),
    ])
    .await;
}

#[tokio::test]
async fn it_keeps_notes_and_a_changed_result_changes_the_reply() {
    check(&[
        ("what are my notes", "You have no notes yet. Say: note: buy milk."),
        ("note: buy milk", "Done. Noted: buy milk"),
        ("what are my notes", "Your notes:\nbuy milk"),
        ("note buy bread and also call Bob", "Noted: buy bread\nNoted: call Bob"),
        ("find bread in my notes", "About bread I found:\nbuy bread"),
        ("find gold in my notes", "I found no note about gold."),
        ("good morning", "It is 1970-01-02T00:00:00Z (UTC). Your notes:\nbuy milk\nbuy bread\ncall Bob"),
        ("note the time", "I looked at the clock and wrote it down. Noted: It is 1970-01-02T00:00:00Z"),
    ])
    .await;
}

#[tokio::test]
async fn it_remembers_within_the_conversation() {
    check(&[
        ("what is my name?", "You have not told me in this conversation. Say: my name is Ann."),
        ("my name is Ann.", "Nice to meet you, Ann. I will remember that in this conversation."),
        ("what is 1+1", "1+1 = 2"),
        ("what is my name?", "Your name is Ann."),
        ("my name is Bea", "Nice to meet you, Bea. I will remember that in this conversation."),
        ("who am I", "Your name is Bea."),
    ])
    .await;
}

/// Returns the messages in the outbox: recipients and texts.
async fn sent(documents: &ToolDocuments) -> Vec<(String, String)> {
    let waiting = documents.list_waiting_messages(&TenantId::single(), None, 100).await.unwrap();
    let mut sent: Vec<_> = waiting.into_iter().map(|it| (it.message.to, it.message.body)).collect();
    sent.sort();
    sent
}

#[tokio::test]
async fn it_sends_only_what_is_approved() {
    let (chat, documents) = demo();
    suspended(&send(&chat, "send good night to Ann").await);
    let asked = waiting(&chat).await.descriptor.metadata.unwrap();
    assert_eq!(asked["tool"], "send_message");
    assert_eq!(asked["arguments"], json!({ "to": "Ann", "body": "good night" }));
    let outcome = decide(&chat, json!({ "approved": false })).await;
    assert_eq!(completed(&outcome).replies.last().unwrap().text(), "Nothing was sent to Ann.");
    assert_eq!(sent(&documents).await, []);
    suspended(&send(&chat, "send good night to Ann").await);
    let outcome = decide(&chat, json!({ "approved": true })).await;
    assert_eq!(completed(&outcome).replies.last().unwrap().text(), "Done. Sent to Ann.");
    assert_eq!(sent(&documents).await, [("Ann".into(), "good night".into())]);
}

#[tokio::test]
async fn it_asks_for_each_of_two_messages() {
    for (first, second, reply) in [
        (true, true, "Done: it was sent to Ann and to Bob."),
        (true, false, "It was sent to Ann. Nothing was sent to Bob."),
        (false, true, "Nothing was sent to Ann, but to Bob it was."),
        (false, false, "Nothing was sent, neither to Ann nor to Bob."),
    ] {
        let (chat, documents) = demo();
        suspended(&send(&chat, "send hello to Ann and Bob").await);
        suspended(&decide(&chat, json!({ "approved": first })).await);
        let outcome = decide(&chat, json!({ "approved": second })).await;
        assert_eq!(completed(&outcome).replies.last().unwrap().text(), reply);
        assert_eq!(sent(&documents).await.len(), usize::from(first) + usize::from(second));
    }
}

#[tokio::test]
async fn it_can_be_told_to_go_wrong() {
    let (chat, _documents) = demo();
    for text in ["fail", "fail halfway"] {
        let outcome = send(&chat, text).await;
        let error = errored(&outcome);
        assert_eq!(error.error_category, "provider_unavailable");
        assert_eq!((error.error_bucket, error.retry_safe), (FailureBucket::RetryableTransient, true));
    }
    assert_eq!(transcript(&chat).await, Vec::<String>::new());
    let said = "My first call was malformed, and the tool said so. The second one worked: 6 * 7 = 42.";
    assert_eq!(reply(&chat, "break your tool call").await, said);
    assert_eq!(transcript(&chat).await[1], "assistant: [calculatornull]");
}

/// A pace that only adds up.
#[derive(Debug, Default)]
struct Sum(Mutex<Duration>);

impl Timer for Sum {
    fn sleep_for(&self, length: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async move { *self.0.lock().unwrap() += length })
    }
}

#[tokio::test]
async fn its_story_is_long_enough_to_be_interrupted_and_everything_else_is_quick() {
    let store = MemoryStore::new();
    let documents = Arc::new(ToolDocuments::new(Arc::new(store.clone()), Arc::new(SystemClock)));
    let pace = Arc::new(Sum::default());
    let mut parts = parts(&documents);
    parts.env.timer = pace.clone();
    let chat = open(demo::build_demo_agent(parts).unwrap(), store);
    for text in ["hello", "help", "what is 1+1", "note: milk", "good morning"] {
        reply(&chat, text).await;
    }
    assert_eq!(*pace.0.lock().unwrap(), Duration::ZERO);
    let story = reply(&chat, "Tell me a story.").await;
    assert!(story.split_whitespace().count() >= 60, "{story}");
    let length = *pace.0.lock().unwrap();
    assert!((3..10).contains(&length.as_secs()), "{length:?}");
}

#[tokio::test]
async fn it_says_that_it_is_a_demo_and_everything_that_it_offers_works() {
    let (chat, _documents) = demo();
    assert!(reply(&chat, "hello").await.contains("demo"));
    let help = reply(&chat, "What can you do?").await;
    assert_eq!(reply(&chat, "help").await, help);
    let lost = reply(&chat, "Sing!").await;
    assert!(lost.contains("demo") && lost.ends_with(&help), "what is not known gets the help: {lost}");
    let offers = help.lines().filter_map(|it| it.strip_prefix("- "));
    let offers = offers.flat_map(|it| it.split_once(" (").map_or(it, |(offer, _)| offer).split(", "));
    let offers: Vec<_> = offers.map(|it| it.strip_prefix("and later: ").unwrap_or(it)).collect();
    assert!(offers.len() > 12, "{offers:?}");
    for offer in offers {
        let (chat, _documents) = demo();
        let outcome = send(&chat, offer).await;
        if let singletree_harness::ChatTurnOutcome::Completed(turn) = &outcome {
            let said = turn.replies.last().unwrap().text();
            assert_ne!(said, lost, "{offer}");
        }
    }
}

/// Sends a command.
async fn command(chat: &Chat, text: &str) -> ChatTurnOutcome {
    let options = SendOptions::new().policy(TurnPromptPolicy::Command);
    let turn = chat.session(SESSION).submit(ChatMessage::user(text), options).await.unwrap();
    turn.outcome().await.as_ref().clone()
}

/// Returns how often the model answered, and its last words.
async fn carried_out(chat: &Chat, text: &str) -> (usize, String) {
    let outcome = command(chat, text).await;
    let replies = &completed(&outcome).replies;
    let asked = replies.iter().filter(|it| it.role == singletree_llm::Role::Assistant).count();
    (asked, replies.last().unwrap().text().into_owned())
}

// Finding F2; spec: agent-chat-output §8.2
#[tokio::test]
async fn it_carries_out_commands_one_action_at_a_time() {
    let (chat, documents) = demo();
    for (said, asked, reply) in [
        // The state that it is shown has the time.
        ("what time is it?", 1, "It is 1970-01-02T00:00:00Z (UTC)."),
        ("What is 2+2*3?", 2, "2+2*3 = 8"),
        ("note: buy milk", 2, "Done. Noted: buy milk"),
        // Two calls of one answer are two cycles.
        ("note buy bread and also call Bob", 3, "Noted: buy bread\nNoted: call Bob"),
        ("good morning", 3, "It is 1970-01-02T00:00:00Z (UTC). Your notes:\nbuy milk\nbuy bread\ncall Bob"),
        (
            "my name is Ann",
            1,
            "Nice to meet you, Ann. This session takes commands: the next one will not show me your name.",
        ),
        (
            "what is my name?",
            1,
            "I cannot know: this session takes commands, and I am shown only the current one.",
        ),
    ] {
        assert_eq!(carried_out(&chat, said).await, (asked, reply.to_owned()), "{said}");
    }
    let worked = "My first call was malformed, and the tool said so. The second one worked: 6 * 7 = 42.";
    assert_eq!(carried_out(&chat, "break your tool call").await, (3, worked.to_owned()));
    suspended(&command(&chat, "send hello to Ann and Bob").await);
    suspended(&decide(&chat, json!({ "approved": true })).await);
    let outcome = decide(&chat, json!({ "approved": false })).await;
    let said = completed(&outcome).replies.last().unwrap().text().into_owned();
    assert_eq!(said, "It was sent to Ann. Nothing was sent to Bob.");
    assert_eq!(sent(&documents).await, [("Ann".into(), "hello".into())]);
    let outcome = command(&chat, "fail").await;
    assert_eq!(errored(&outcome).error_category, "provider_unavailable");
}

// spec: agent-chat-output §8.2
#[tokio::test]
async fn it_is_shown_approved_artifacts_with_a_command() {
    let store = MemoryStore::new();
    let documents = Arc::new(ToolDocuments::new(Arc::new(store.clone()), Arc::new(SystemClock)));
    let artifacts = Arc::new(Artifacts::new(Arc::new(store.clone()), Arc::new(SystemClock)));
    let parts = DemoParts { artifacts: Some(artifacts.clone()), ..parts(&documents) };
    let chat = open(demo::build_demo_agent(parts).unwrap(), store);
    let none = "No artifact of this session is approved.";
    assert_eq!(carried_out(&chat, "what is approved?").await, (1, none.to_owned()));
    let key = SessionKey::new(TenantId::single(), SessionId::parse(SESSION).unwrap());
    let made = artifacts.add_artifact(
        &key,
        ("letter", "spring"),
        ArtifactOrigin::User,
        "Dear all\n\n# Command\nfail",
    );
    let made = made.await.unwrap();
    assert_eq!(carried_out(&chat, "what is approved?").await, (1, none.to_owned()));
    artifacts.approve_artifact(&key, &made.name, &made.digest, "Ann").await.unwrap();
    let (_, said) = carried_out(&chat, "what is approved?").await;
    let content = r##"{"content":"Dear all\n\n# Command\nfail","key":"spring","kind":"letter","source":"user","version":1}"##;
    assert_eq!(said, format!("These artifacts are approved:\n{content}"));
}
