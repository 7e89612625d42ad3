//! Several agents in one conversation.

use std::sync::Arc;

use serde_json::{Value, json};
use singletree_agent::{Agent, AgentProfile, ApprovalPolicy, Team};
use singletree_durable::MemoryStore;
use singletree_harness::{Chat, ChatEvent, ChatEventKind, ForkOptions, SendOptions};
use singletree_llm::{
    BoxFuture, BoxStream, ChatMessage, Provider, Request, Response, ResponseDelta, Result, Script,
};
use singletree_tools::Recovery;

use crate::probe::World;
use crate::rig::{
    SESSION, calls, completed, decide, errored, open, probes, send, suspended, toolbox, transcript, watched,
};
use crate::watched::Watched;

fn record(id: &str, skills: Option<&[&str]>) -> AgentProfile {
    AgentProfile {
        description: Some(format!("Knows {id}.")),
        role_prompt: Some(format!("You are {id}.")),
        skill_ids: skills.map(|it| it.iter().map(|it| (*it).to_owned()).collect()),
        ..AgentProfile::new(id, id, "2026-01-01T00:00:00Z")
    }
}

/// A model that says who it is, hands over when it is asked to, and looks.
fn model(id: &str) -> Arc<Watched> {
    let to =
        |name: &str| json!({ "tool": format!("transfer_to_{name}"), "arguments": { "reason": "asked" } });
    let rules = [
        json!({ "when": { "user": ["sales please"], "results": [] }, "then": { "calls": [to("sales")] } }),
        json!({ "when": { "user": ["both please"] }, "then": { "calls": [to("sales"), to("help"), json!({ "tool": "look", "arguments": { "what": "a" } })] } }),
        json!({ "when": { "user": ["look"] }, "then": { "calls": calls(&[("look", "a")]) } }),
        json!({ "when": { "user": ["send"] }, "then": { "calls": calls(&[("send", "a")]) } }),
        json!({ "when": { "user": ["act anyway"] }, "then": { "finish": "error", "calls": calls(&[("act", "a")]) } }),
        json!({ "when": { "results": "any" }, "then": { "reply": format!("I am {id}.") } }),
        json!({ "when": { "user": ["*"] }, "then": { "reply": format!("I am {id}.") } }),
    ];
    // A message that is handed over is the next one's: it says who it is.
    let rules: Vec<Value> = rules
        .into_iter()
        .filter(|it| id == "front" || it["when"]["user"] != json!(["sales please"]))
        .collect();
    let rules: Vec<Value> = rules
        .into_iter()
        .filter(|it| id == "front" || it["when"]["user"] != json!(["both please"]))
        .collect();
    Watched::scripted(Script::from_json(&json!({ "model": id, "rules": rules }).to_string()).unwrap())
}

struct Models {
    front: Arc<Watched>,
    sales: Arc<Watched>,
    help: Arc<Watched>,
}

fn models() -> Models {
    Models { front: model("front"), sales: model("sales"), help: model("help") }
}

fn team(models: &Models, world: &World) -> Team {
    let agent = |profile: AgentProfile, model: &Arc<Watched>| {
        Agent::from_profile(profile, model.clone())
            .instructions("Be brief.")
            .toolbox(toolbox(probes(world, Recovery::Report)))
    };
    Team::new("team")
        .member(agent(record("front", Some(&["look"])), &models.front))
        .member(agent(record("sales", None), &models.sales))
        .member(agent(record("help", Some(&["look"])), &models.help))
        .hands_off("sales", ["help"])
}

async fn owners(chat: &Chat) -> Vec<Option<String>> {
    let history = chat.session(SESSION).history(0..100).await.unwrap();
    history.iter().map(|it| it.side.as_ref().and_then(|it| it["agent"].as_str().map(str::to_owned))).collect()
}

// D17, INV-11: the new owner answers at once and from then on, in this process and the next.
#[tokio::test]
async fn a_conversation_that_is_handed_over_belongs_to_the_new_agent_also_after_a_restart() {
    for restart in [false, true] {
        let (models, world, store) = (models(), World::default(), MemoryStore::new());
        let agent = || team(&models, &world).build().unwrap();
        let mut chat = open(agent(), store.clone());
        completed(&send(&chat, "hello").await);
        completed(&send(&chat, "sales please").await);
        if restart {
            chat = open(agent(), store.reopen());
        }
        completed(&send(&chat, "who are you").await);
        let said = [
            "user: hello",
            "assistant: I am front.",
            "user: sales please",
            r#"assistant: [transfer_to_sales{"reason":"asked"}]"#,
            r#"tool: {"agent":"sales","reason":"asked","status":"transferred","to":"sales"}"#,
            "assistant: I am sales.",
            "user: who are you",
            "assistant: I am sales.",
        ];
        assert_eq!(transcript(&chat).await, said);
        let (front, sales) = (Some("front".to_owned()), Some("sales".to_owned()));
        let owned = [None, front.clone(), None, front.clone(), front, sales.clone(), None, sales];
        assert_eq!(owners(&chat).await, owned);
        // Each model has its own prompt and tools.
        let (front, sales) = (models.front.asked(), models.sales.asked());
        assert!(front.iter().all(|it| it[0] == "system: Be brief.\n\nYou are front."), "{front:?}");
        assert!(sales.iter().all(|it| it[0] == "system: Be brief.\n\nYou are sales."), "{sales:?}");
        assert_eq!(sales.len(), 2);
        assert_eq!(models.front.offered()[0], ["look", "transfer_to_sales", "transfer_to_help"]);
        assert_eq!(models.sales.offered()[0], ["look", "act", "send", "transfer_to_help"]);
        models.sales.assert_legal("handed over");
    }
}

// D17: who reads along knows who speaks before the first word.
#[tokio::test]
async fn the_pieces_of_a_message_say_whose_it_is() {
    let (models, world) = (models(), World::default());
    let chat = open(team(&models, &world).build().unwrap(), MemoryStore::new());
    let speakers = |told: &[ChatEvent]| -> Vec<(bool, String)> {
        let speaker = |it: &ChatEvent| match &it.what {
            ChatEventKind::Delta { side, .. } => Some((false, side.as_ref()?["agent"].to_string())),
            ChatEventKind::MessageAppended { side, .. } => Some((true, side.as_ref()?["agent"].to_string())),
            _ => None,
        };
        let mut speakers: Vec<_> = told.iter().filter_map(speaker).collect();
        speakers.dedup();
        speakers
    };
    let told = watched(&chat, "sales please", &[]).await;
    let (front, sales) = ("\"front\"".to_owned(), "\"sales\"".to_owned());
    assert_eq!(speakers(&told), [(true, front), (false, sales.clone()), (true, sales)]);
}

#[tokio::test]
async fn of_two_hand_offs_in_one_message_the_first_counts_and_every_call_is_answered() {
    let (models, world) = (models(), World::default());
    let chat = open(team(&models, &world).build().unwrap(), MemoryStore::new());
    completed(&send(&chat, "both please").await);
    let said = transcript(&chat).await;
    assert_eq!(
        said[2..],
        [
            r#"tool: {"agent":"sales","reason":"asked","status":"transferred","to":"sales"}"#,
            r#"tool: {"reason":"the conversation was handed over already","status":"failed"}"#,
            "tool: did a",
            "assistant: I am sales.",
        ]
    );
    models.sales.assert_legal("handed over once");
}

// spec: steerable chat, ChatAgent: the list is held to where calls are run.
#[tokio::test]
async fn a_tool_that_is_not_on_an_agents_list_does_not_run_whatever_its_model_says() {
    let (models, world) = (models(), World::default());
    let chat = open(team(&models, &world).build().unwrap(), MemoryStore::new());
    completed(&send(&chat, "act anyway").await);
    let answer = transcript(&chat).await[2].clone();
    assert!(answer.starts_with("tool: error: ") && answer.contains("look"), "{answer}");
    assert_eq!(world.whats(), Vec::<String>::new());
}

// The list is that of the process which runs the call, not of the one which made it.
#[tokio::test]
async fn a_call_that_waited_for_approval_is_held_to_the_list_of_the_day() {
    let (store, world) = (MemoryStore::new(), World::default());
    let agent = |allowed: &[&str]| {
        let script = crate::rig::script();
        let model = Watched::scripted(script);
        let tools = toolbox(probes(&world, Recovery::Report));
        let agent = Agent::new("a", model).toolbox(tools).allow(allowed.iter().copied());
        agent.ask_before(ApprovalPolicy::default()).build().unwrap()
    };
    suspended(&send(&open(agent(&["look", "send"]), store.clone()), "send").await);
    let chat = open(agent(&["look"]), store.reopen());
    completed(&decide(&chat, json!({ "approved": true })).await);
    assert_eq!(world.whats(), Vec::<String>::new());
    assert!(transcript(&chat).await[2].starts_with("tool: error: "), "{:?}", transcript(&chat).await);
}

/// A model that never answers.
#[derive(Debug, Default)]
struct Stuck(Arc<tokio::sync::Notify>);

impl Provider for Stuck {
    fn model_name(&self) -> &str {
        "stuck"
    }

    fn ready(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }

    fn can_stream(&self) -> bool {
        false
    }

    fn stream_deltas<'a>(
        &'a self,
        _: &'a Request,
    ) -> BoxFuture<'a, Result<BoxStream<'a, Result<ResponseDelta>>>> {
        Box::pin(std::future::pending())
    }

    fn complete<'a>(&'a self, _: &'a Request) -> BoxFuture<'a, Result<Response>> {
        self.0.notify_one();
        Box::pin(std::future::pending())
    }
}

// D10: a cancelled turn keeps the hand-off and the owner of the conversation; also in a fork of it.
#[tokio::test]
async fn a_turn_that_is_cancelled_after_a_hand_off_leaves_the_conversation_to_the_new_agent() {
    let (models, world, store) = (models(), World::default(), MemoryStore::new());
    let stuck = Stuck::default();
    let reached = stuck.0.clone();
    let held = Team::new("team")
        .member(Agent::from_profile(record("front", None), models.front.clone()))
        .member(Agent::from_profile(record("sales", None), stuck));
    let chat = open(held.build().unwrap(), store.clone());
    let turn =
        chat.session(SESSION).submit(ChatMessage::user("sales please"), SendOptions::new()).await.unwrap();
    reached.notified().await;
    chat.cancel(turn.id()).await.unwrap().outcome().await;
    let chat = open(team(&models, &world).build().unwrap(), store.reopen());
    chat.session(SESSION).fork(ForkOptions::new().session("f")).await.unwrap();
    for session in [SESSION, "f"] {
        let outcome = chat.session(session).send(ChatMessage::user("who are you")).await;
        assert_eq!(completed(&outcome).replies[0].text(), "I am sales.", "{session}");
    }
    models.sales.assert_legal("after a cancel");
}

// INV-13: who answers now is not guessed.
#[tokio::test]
async fn a_conversation_whose_agent_is_gone_says_so() {
    let (models, world, store) = (models(), World::default(), MemoryStore::new());
    let chat = open(team(&models, &world).build().unwrap(), store.clone());
    completed(&send(&chat, "sales please").await);
    let fewer = Team::new("team")
        .member(Agent::from_profile(record("front", None), models.front.clone()))
        .member(Agent::from_profile(record("help", None), models.help.clone()));
    let chat = open(fewer.build().unwrap(), store.reopen());
    assert_eq!(errored(&send(&chat, "who are you").await).error_category, "chat_agent_unknown");
}

#[test]
fn agents_that_do_not_go_together_are_refused() {
    let one = |id: &str, name: &str| AgentProfile { name: name.into(), ..record(id, None) };
    let team = |records: Vec<AgentProfile>| {
        records
            .into_iter()
            .fold(Team::new("team"), |it, record| it.member(Agent::from_profile(record, model("front"))))
    };
    for (builder, why) in [
        (team(vec![]), "there is nobody"),
        (team(vec![one("a", "A"), one("a", "B")]), "two agents have the id 'a'"),
        (team(vec![one("a", "Ann B"), one("b", "ann_b")]), "two agents are called by 'transfer_to_ann_b'"),
        (team(vec![one("a", "A")]).hands_off("a", ["x"]), "a hand-off names 'x', who is not there"),
    ] {
        let error = builder.build().unwrap_err();
        assert_eq!(error.category(), "agent_team_invalid");
        assert_eq!(error.to_string(), format!("the team of agents cannot be made: {why}"));
    }
    let roster = team(vec![one("a", "A")]).list_public_agents();
    assert_eq!((roster[0].id.as_str(), &roster[0].role_prompt), ("a", &None));
}

/// The tools that a member was given one by one are its own, and one that is there twice is told with the team.
#[test]
fn a_member_with_a_tool_twice_makes_no_team() {
    let tool = || singletree_tools::Calculator::new().unwrap();
    let member = Agent::new("a", model("front")).tool(tool()).tool(tool());
    let error = Team::new("team").member(member).build().unwrap_err();
    assert_eq!(error.category(), "tool_duplicate");
}
