//! Messages that steer the loop.

use std::sync::Arc;

use serde_json::json;
use singletree_agent::Agent;
use singletree_durable::MemoryStore;
use singletree_harness::SendOptions;
use singletree_llm::{ChatMessage, Script};
use singletree_tools::{Effect, Tool, ToolContext, TypedTool};
use tokio::sync::Semaphore;

use crate::rig::{SESSION, completed, open, toolbox, transcript};
use crate::watched::Watched;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct What {
    what: String,
}

/// A model that acts once for each message of the user.
fn script() -> Script {
    let act = |user: &str, what: &str| {
        json!({ "when": { "user": [user] },
            "then": { "calls": [{ "tool": "act", "arguments": { "what": what } }] } })
    };
    let done = |user: &str, reply: &str| json!({ "when": { "user": [user], "results": "any" }, "then": { "reply": reply } });
    let rules = [
        act("go left", "left"),
        act("no, right", "right"),
        done("go left", "Went left."),
        done("no, right", "Went right."),
    ];
    Script::from_json(&json!({ "model": "test", "rules": rules }).to_string()).unwrap()
}

// INV-2, D7: taken by the next request to the model, after the answers of its calls; and the calls after it have keys
// of their own, though they are the first ones after a message of the user.
#[tokio::test]
async fn a_message_that_steers_is_in_the_next_request_to_the_model() {
    let (begun, go, keys) = (
        Arc::new(Semaphore::new(0)),
        Arc::new(Semaphore::new(0)),
        Arc::new(std::sync::Mutex::new(Vec::new())),
    );
    let (began, may, noted) = (begun.clone(), go.clone(), keys.clone());
    let act = TypedTool::new("act", "Acts.", Effect::SafeWrite, move |it: What, cx: ToolContext| {
        let (began, may) = (began.clone(), may.clone());
        noted.lock().unwrap().push(cx.key.as_str().to_owned());
        async move {
            began.add_permits(1);
            may.acquire().await.unwrap().forget();
            Ok(format!("did {}", it.what))
        }
    });
    let tools: Vec<Arc<dyn Tool>> = vec![Arc::new(act.unwrap())];
    let model = Watched::scripted(script());
    let agent = Agent::new("a", model.clone()).toolbox(toolbox(tools)).build().unwrap();
    let chat = open(agent, MemoryStore::new());
    let turn = chat.session(SESSION).submit(ChatMessage::user("go left"), SendOptions::new()).await.unwrap();
    begun.acquire().await.unwrap().forget();
    let steered =
        chat.session(SESSION).steer(ChatMessage::user("no, right"), SendOptions::new()).await.unwrap();
    go.add_permits(2);
    completed(turn.outcome().await.as_ref());
    completed(steered.outcome().await.as_ref());
    let said = [
        "user: go left",
        r#"assistant: [act{"what":"left"}]"#,
        "tool: did left",
        "user: no, right",
        r#"assistant: [act{"what":"right"}]"#,
        "tool: did right",
        "assistant: Went right.",
    ];
    assert_eq!(transcript(&chat).await, said);
    assert_eq!(model.asked(), [said[..1].to_vec(), said[..4].to_vec(), said[..6].to_vec()]);
    model.assert_legal("steered");
    crate::payloads::check(&chat, &model).await;
    let keys = keys.lock().unwrap();
    assert_eq!(keys.len(), 2);
    assert_ne!(keys[0], keys[1], "each call has its own key");
}
