//! Several agents in one chat: who speaks is said before they do (spec: steerable chat, Conversational ownership).

use std::sync::Arc;

use serde_json::{Value, json};
use singletree_agent::{Agent, AgentProfile, Team};
use singletree_harness::GraphAgent;
use singletree_llm::{Script, ScriptedProvider, Timer};

use super::{messages, said, send};
use crate::support::Rig;

fn member(profile: AgentProfile, pace: &Arc<dyn Timer>) -> Agent {
    let id = profile.id.as_str();
    let to_sales = json!({ "calls": [{ "tool": "transfer_to_sales", "arguments": { "reason": "asked" } }] });
    let reply = json!({ "reply": format!("I am {id}.") });
    let mut rules = vec![
        json!({ "when": { "results": "any" }, "then": reply }),
        json!({ "when": { "user": ["*"] }, "then": reply }),
    ];
    if id == "front" {
        rules.insert(0, json!({ "when": { "user": ["sales please"], "results": [] }, "then": to_sales }));
    }
    let script = Script::from_json(&json!({ "model": id, "rules": rules }).to_string()).unwrap();
    Agent::from_profile(profile, ScriptedProvider::new(script).with_pace(pace.clone()))
}

fn listed() -> [AgentProfile; 2] {
    let made = "2026-01-01T00:00:00Z";
    let sales = AgentProfile {
        icon: Some("$".into()),
        color: Some("#00ff00".into()),
        role_prompt: Some("Sell.".into()),
        ..AgentProfile::new("sales", "Sales", made)
    };
    [AgentProfile::new("front", "Front", made), sales]
}

fn team(pace: &Arc<dyn Timer>) -> GraphAgent {
    let [front, sales] = listed();
    Team::new("team").member(member(front, pace)).member(member(sales, pace)).build().unwrap()
}

/// Returns whose each message is, by the stream alone: the agent that was told last before its first word or call.
fn owners(told: &[Value]) -> Vec<(String, Value)> {
    let (mut speaker, mut owners) = (Value::Null, Vec::<(String, Value)>::new());
    for event in told {
        match event["type"].as_str() {
            Some("agent") => speaker = event["agentId"].clone(),
            Some("content" | "tool_call") => {
                let id = event["messageId"].as_str().unwrap();
                if owners.iter().all(|it| it.0 != id) {
                    owners.push((id.to_owned(), speaker.clone()));
                }
            }
            _ => {}
        }
    }
    owners
}

#[tokio::test]
async fn who_speaks_is_told_before_and_kept_with_the_message() {
    let rig = Rig::builder().also(team).server(|it| it.listed_agents(listed())).start().await;
    let client = rig.client();
    let mut all = Vec::new();
    for text in ["hello", "sales please", "who are you"] {
        let body = json!({ "content": text, "metadata": { "agentId": "team" } });
        let told = super::turn(client.post_events("/v1/chats/s/send", &body).await).await;
        all.push(told);
    }
    let speakers: Vec<Vec<&Value>> =
        all.iter().map(|it| it.iter().filter(|it| it["type"] == "agent").collect()).collect();
    let front =
        json!({ "type": "agent", "agentId": "front", "payload": { "agentId": "front", "name": "Front" } });
    let sales = json!({
        "type": "agent", "agentId": "sales",
        "payload": { "agentId": "sales", "name": "Sales", "icon": "$", "color": "#00ff00" },
    });
    // Each stream names the speaker again; within a stream only changes are sent.
    assert_eq!(speakers, [vec![&front], vec![&front, &sales], vec![&sales]]);
    let told: Vec<(String, Value)> = all.iter().flat_map(|it| owners(it)).collect();
    let kept: Vec<(String, Value)> = messages(&client, "s")
        .await
        .iter()
        .filter(|it| it["role"] == "assistant")
        .map(|it| (it["id"].as_str().unwrap().to_owned(), it["agentId"].clone()))
        .collect();
    assert_eq!(told, kept);
    assert_eq!(said(&all[1]).last().unwrap().1, "I am sales.");
    assert!(!format!("{all:?}").contains("Sell."), "what is said to a model is nobody's to see");
}

// With nobody told to speak, messages are nobody's.
#[tokio::test]
async fn a_single_agent_is_not_announced() {
    let rig = Rig::start().await;
    let told = send(&rig.client(), "s", "look").await;
    assert!(told.iter().all(|it| it["type"] != "agent"), "{told:?}");
    let kept = messages(&rig.client(), "s").await;
    assert!(kept.iter().all(|it| it.get("agentId").is_none()), "{kept:?}");
}
