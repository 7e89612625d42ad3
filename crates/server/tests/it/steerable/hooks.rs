//! The framework's own hooks, in a page without a browser.

use std::path::Path;

use serde_json::{Value, json};

use super::messages;
use crate::clients::{installed, run};
use crate::support::Rig;

/// Returns the bubbles that a page shows for stored messages: the hook has one bubble a turn, which holds all of it.
fn bubbles(kept: &[Value]) -> Vec<Value> {
    let mut bubbles: Vec<Value> = Vec::new();
    for message in kept.iter().filter(|message| message["failed"] != true) {
        match message["role"].as_str().unwrap() {
            "user" => {
                bubbles.push(json!({ "role": "user", "content": message["content"], "toolCalls": [] }));
                bubbles.push(json!({ "role": "assistant", "content": "", "toolCalls": [] }));
            }
            "assistant" => {
                let bubble = bubbles.last_mut().unwrap();
                let content =
                    bubble["content"].as_str().unwrap().to_owned() + message["content"].as_str().unwrap();
                bubble["content"] = content.into();
                let calls = message["toolCalls"].as_array().into_iter().flatten().cloned();
                bubble["toolCalls"].as_array_mut().unwrap().extend(calls);
            }
            _ => {}
        }
    }
    bubbles
}

#[tokio::test]
async fn the_frameworks_own_hooks_show_what_is_kept() {
    let test = "the_frameworks_own_hooks_show_what_is_kept";
    let Some((tools, _)) = installed(test, "node_modules/@steerable/agent-ui/package.json") else { return };
    let rig = Rig::start().await;
    let client = rig.client();
    let told = run(&rig, Path::new("node"), &[tools.as_os_str()], "steerable.mjs").await;
    let shown = |name: &str, what: &str| told[name][what].as_array().unwrap().clone();

    // A turn with tools, by the framework's parser and by the reader that its documentation shows.
    let kept = messages(&client, "tools").await;
    let mut all = shown("tools", "shown");
    all.extend(shown("reloaded", "shown"));
    assert_eq!(all, bubbles(&kept));
    assert_eq!(shown("plain", "shown"), bubbles(&messages(&client, "plain").await));
    assert_eq!(told["tools"]["complete"], json!([true, true]), "the parser has seen the end of each stream");
    assert_eq!(told["reloaded"]["same"], true);
    let results: Vec<Value> = kept.iter().filter_map(|it| it.get("toolResult").cloned()).collect();
    assert_eq!(shown("tools", "results"), results);
    let others: Vec<_> = shown("tools", "others").iter().map(|it| it["event"].clone()).collect();
    assert_eq!(others, ["accepted", "accepted"]);

    // An approval, and its outcome at a page that listens.
    let approval = &told["approval"];
    assert_eq!((&approval["wait"]["metadata"]["tool"], &approval["done"]), (&json!("send"), &json!([true])));
    let heard: Vec<_> = approval["heard"].as_array().unwrap().iter().collect();
    let text: String = heard.iter().filter_map(|it| it["content"].as_str()).collect();
    assert_eq!((heard[0]["event"].as_str(), text.as_str()), (Some("signal"), "All done."));
    let mut asked = shown("approval", "asked");
    asked[1]["content"] = text.into();
    assert_eq!(asked, bubbles(&messages(&client, "approval").await));

    // An error stands in the bubble of its turn, which is no part of the conversation.
    let errors: Vec<_> = shown("errors", "shown").iter().map(|it| it["content"].clone()).collect();
    let trouble = "[stream error] I had trouble responding. Try again in a moment.";
    let nothing = "[stream error] there is nothing said";
    assert_eq!(
        errors,
        ["fail retryable", trouble, "fail halfway", trouble, "say on", "You said: on", "", nothing]
    );
    assert_eq!(shown("errors", "shown")[4..6], bubbles(&messages(&client, "errors").await));

    // A connection that breaks off cancels nothing; the turn is told again from its beginning.
    let reconnect = bubbles(&messages(&client, "reconnect").await);
    assert_eq!(
        (shown("reconnect", "shown"), &reconnect[1]["content"]),
        (reconnect.clone(), &json!("You said: one two three four"))
    );
    let halfway = told["reconnect"]["halfway"][1]["content"].as_str().unwrap();
    assert!("You said: one two three four".starts_with(halfway) && halfway.len() < 28, "{halfway}");
    assert_eq!(rig.chat.session("reconnect").turns(0, 9).await.unwrap().items.len(), 1);

    assert_eq!(told["steer"]["outcomes"], json!(["sent", "steered"]));
    let sessions = &told["sessions"];
    assert_eq!(
        (&sessions["current"]["sessionId"], &sessions["made"][0]["sessionId"]),
        (&json!("tools"), &json!("made"))
    );
    assert_eq!(sessions["error"], Value::Null);
    rig.stop().await;
}
