//! Sessions of commands: the prompt of the model, and the handling of its proposals (agent-chat-output §8).

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use singletree_agent::{Agent, AgentProfile, ApprovalPolicy, Compaction, SnapshotSource, Team};
use singletree_durable::{MemoryStore, SessionKey};
use singletree_harness::{Chat, ChatTurnOutcome, CreateOptions, HISTORY, SendOptions, TurnPromptPolicy};
use singletree_llm::{
    BoxError, BoxFuture, ChatMessage, ContentBlock, ImageContentSource, Request, Script, canonical_json,
};
use singletree_narration::{
    NarrationMessage, NarrationOwner, NarrationPurpose, NarrationSink, NarrationSpeaker,
};
use singletree_tools::Recovery;

use crate::probe::World;
use crate::rig::{
    SESSION, calls, completed, decide, errored, open, probes, send, suspended, toolbox, transcript,
};
use crate::watched::Watched;

/// The first request of a command, to the byte: rules, state, command, and nothing else.
const FIRST: &str = concat!(
    r##"[{"content":"Be brief.","role":"system"},{"content":"# State\n"##,
    r##"{\"cycle\":1,\"done\":[],\"state\":{\"did\":0}}"##,
    r##"\n\n# Command\nact","role":"user"}]"##,
);

/// The second request: its list of actions comes from the record.
const SECOND: &str = concat!(
    r##"[{"content":"Be brief.","role":"system"},{"content":"# State\n{\"cycle\":2,\"done\":["##,
    r##"{\"arguments\":{\"what\":\"a\"},\"result\":\"did a\",\"tool\":\"act\"}],\"state\":{\"did\":1}}"##,
    r##"\n\n# Command\nact","role":"user"}]"##,
);

/// The state of the world: how much was done.
#[derive(Debug)]
struct Did(World);

impl SnapshotSource for Did {
    fn read_snapshot<'a>(&'a self, session: &'a SessionKey) -> BoxFuture<'a, Result<Value, BoxError>> {
        assert_eq!((session.tenant.as_str(), session.session.as_str()), ("default", SESSION));
        Box::pin(async { Ok(json!({ "did": self.0.whats().len() })) })
    }
}

/// A model that sees no conversation: it carries out the command once.
fn model() -> Arc<Watched> {
    let rule = |command: &str, then: Value| {
        let user = format!("*\"done\":[],*# Command\n{command}");
        json!({ "when": { "user": [user] }, "then": then })
    };
    let act = calls(&[("act", "a")]);
    let rules = [
        rule("act", json!({ "calls": act })),
        rule("say why", json!({ "calls": act, "reply": "Because it is asked for." })),
        rule("remember", json!({ "calls": act, "reply": "As we discussed, I act." })),
        rule("send", json!({ "calls": calls(&[("send", "a")]), "reply": "It has to go out." })),
        rule("both", json!({ "calls": calls(&[("act", "a"), ("send", "b")]), "reply": "Both." })),
        rule(
            "fly",
            json!({ "finish": "error", "calls": [{ "tool": "fly", "arguments": {} }], "reply": "Up." }),
        ),
        rule("hand over", json!({ "calls": [{ "tool": "transfer_to_help", "arguments": {} }] })),
        json!({ "when": { "user": ["*# Command\n{command}"] }, "then": { "reply": "Carried out: {command}." } }),
    ];
    Watched::scripted(Script::from_json(&json!({ "model": "test", "rules": rules }).to_string()).unwrap())
}

fn builder(model: &Arc<Watched>, world: &World) -> Agent {
    member(AgentProfile::new("a", "a", "2026-01-01T00:00:00Z"), model, world)
}

fn member(profile: AgentProfile, model: &Arc<Watched>, world: &World) -> Agent {
    let tools = toolbox(probes(world, Recovery::Report));
    let snapshots = Arc::new(Did(world.clone()));
    Agent::from_profile(profile, model.clone()).instructions("Be brief.").toolbox(tools).snapshots(snapshots)
}

fn command_chat() -> (Chat, Arc<Watched>, World) {
    let (model, world) = (model(), World::default());
    let agent = builder(&model, &world).build().unwrap();
    (open(agent, MemoryStore::new()), model, world)
}

async fn command(chat: &Chat, text: &str) -> ChatTurnOutcome {
    let options = SendOptions::new().policy(TurnPromptPolicy::Command);
    chat.session(SESSION).send_with(ChatMessage::user(text), options).await
}

fn bytes(request: &Request) -> String {
    canonical_json(&json!(request.messages))
}

// spec: agent-chat-output §8.2: rules, snapshot, command, and nothing else, to the byte.
#[tokio::test]
async fn a_request_is_made_of_rules_state_and_command_and_each_cycle_sees_the_record() {
    let (chat, model, _) = command_chat();
    completed(&command(&chat, "act").await);
    let requests = model.requests();
    assert_eq!(requests.iter().map(bytes).collect::<Vec<_>>(), [FIRST, SECOND]);
    for request in &requests {
        let names: Vec<_> = request.tools.iter().map(|it| it.name()).collect();
        assert_eq!(names, ["look", "act", "send"], "what may be proposed");
        assert_eq!((&request.tool_choice, &request.response_schema), (&None, &None));
        assert_eq!(request.config, singletree_llm::RuntimeConfig::default());
    }
    // The transcript is written all the same, and the next command is shown none of it.
    let said =
        ["user: act", "assistant: [act{\"what\":\"a\"}]", "tool: did a", "assistant: Carried out: act."];
    assert_eq!(transcript(&chat).await, said);
    completed(&send(&chat, "look around").await);
    let third = bytes(&model.requests()[2]);
    let expected =
        FIRST.replace("\\\"did\\\":0", "\\\"did\\\":1").replace("act\",\"role", "look around\",\"role");
    assert_eq!(third, expected, "the session keeps its policy");
}

// INV-11: the same requests in one process, and in one process for each turn.
#[tokio::test]
async fn the_command_is_the_same_after_a_restart_and_after_a_resume() {
    let mut seen = Vec::new();
    for restart in [false, true] {
        let (model, world, store) = (model(), World::default(), MemoryStore::new());
        let agent = || builder(&model, &world).build().unwrap();
        let mut chat = open(agent(), store.clone());
        let again = |chat: Chat| if restart { open(agent(), store.reopen()) } else { chat };
        completed(&command(&chat, "act").await);
        chat = again(chat);
        suspended(&command(&chat, "send").await);
        chat = again(chat);
        completed(&decide(&chat, json!({ "approved": false, "reason": "not now" })).await);
        chat = again(chat);
        completed(&command(&chat, "act").await);
        seen.push(model.requests().iter().map(bytes).collect::<Vec<_>>());
        assert_eq!(world.whats(), ["act a", "act a"]);
    }
    assert_eq!(seen[0], seen[1]);
    let resumed = &seen[0][3];
    assert!(resumed.contains("# Command\\nsend\""), "the command is in the record: {resumed}");
    assert!(resumed.contains("not now"), "and so is what came of the proposal: {resumed}");
    assert_eq!(seen[0].len(), 6);
}

// spec: agent-chat-output §4.1: an invalid message is rejected, and no part of it is carried out.
#[tokio::test]
async fn several_actions_at_once_are_all_rejected_and_nobody_is_asked() {
    let (chat, model, world) = command_chat();
    completed(&command(&chat, "both").await);
    assert_eq!(world.whats(), Vec::<String>::new());
    let reason = "one action at a time; none of these was carried out";
    let rejected = format!("tool: {{\"reason\":\"{reason}\",\"status\":\"denied\"}}");
    assert_eq!(transcript(&chat).await[2..4], [rejected.clone(), rejected]);
    let second = bytes(&model.requests()[1]);
    assert_eq!(second.matches(reason).count(), 2, "{second}");
    // One that nobody can carry out is answered by the toolbox.
    completed(&command(&chat, "fly").await);
    let fourth = bytes(&model.requests()[3]);
    assert!(fourth.contains("\\\"tool\\\":\\\"fly\\\"") && fourth.contains("no tool"), "{fourth}");
}

/// The narration, each with the effects so far.
#[derive(Debug, Default)]
struct Heard {
    said: Mutex<Vec<(NarrationMessage, Vec<String>)>>,
    world: World,
}

impl NarrationSink for Heard {
    fn emit_narration(&self, whose: NarrationOwner<'_>, narration: NarrationMessage) {
        assert_eq!(whose, NarrationOwner { tenant: "default", session: SESSION });
        self.said.lock().unwrap().push((narration, self.world.whats()));
    }

    fn forget_session(&self, _whose: NarrationOwner<'_>) {}
}

impl Heard {
    fn of_the_agent(&self) -> Vec<(NarrationPurpose, String, Vec<String>)> {
        let said = self.said.lock().unwrap();
        let own = said.iter().filter(|(it, _)| it.role == NarrationSpeaker::Agent);
        own.map(|(it, world)| (it.kind, it.content.clone(), world.clone())).collect()
    }
}

// spec: agent-chat-output §5.2: the reason is narrated before the action runs; no reason for an action that cannot run.
#[tokio::test]
async fn the_agent_says_why_before_what_it_proposes_is_done() {
    let (model, world) = (model(), World::default());
    let heard = Arc::new(Heard { world: world.clone(), ..Heard::default() });
    let agent = builder(&model, &world).build().unwrap();
    let chat = Chat::builder().agent(agent).narration(heard.clone()).open(MemoryStore::new()).unwrap();
    for text in ["act", "say why", "both", "fly"] {
        completed(&command(&chat, text).await);
    }
    suspended(&command(&chat, "send").await);
    let why = |text: &str, done: usize| {
        (NarrationPurpose::Explanation, text.to_owned(), vec!["act a".to_owned(); done])
    };
    assert_eq!(heard.of_the_agent(), [why("Because it is asked for.", 1), why("It has to go out.", 2)]);
    // "X happened" is the controller's, and comes after it (finding F5).
    let said: Vec<String> = heard.said.lock().unwrap().iter().map(|(it, _)| it.content.clone()).collect();
    let at = |text: &str| said.iter().rposition(|it| it == text).unwrap();
    assert!(at("Because it is asked for.") < at("act succeeded."), "{said:?}");
    // In a conversation the text beside a call is the conversation's, and is not narrated.
    let rule = json!({ "when": { "user": ["act"] }, "then": { "calls": calls(&[("act", "a")]), "reply": "Because." } });
    let rest = json!({ "when": { "results": "any" }, "then": { "reply": "Done." } });
    let script = Script::from_json(&json!({ "model": "test", "rules": [rule, rest] }).to_string()).unwrap();
    let heard = Arc::new(Heard::default());
    let agent = builder(&Watched::scripted(script), &world).build().unwrap();
    let chat = Chat::builder().agent(agent).narration(heard.clone()).open(MemoryStore::new()).unwrap();
    completed(&send(&chat, "act").await);
    assert_eq!(heard.of_the_agent(), []);
    assert_eq!(heard.said.lock().unwrap().len(), 4, "the controller narrates: message, call, result, end");
}

// spec: agent-chat-output §11
#[tokio::test]
async fn a_text_that_claims_a_memory_is_marked_beside_the_message() {
    let (chat, _, _) = command_chat();
    completed(&command(&chat, "remember").await);
    let history = chat.session(SESSION).history(0..10).await.unwrap();
    let sides: Vec<_> = history.iter().map(|it| it.side.clone()).collect();
    assert_eq!(sides, [None, Some(json!({ "claims_memory": "as we discussed" })), None, None]);
}

// D27
#[tokio::test]
async fn commands_are_never_summarised() {
    let (model, world) = (model(), World::default());
    let agent = builder(&model, &world)
        .compaction(Compaction::with_kept_messages(1).summarise_every(1).summarise_on_command("/compact"));
    let chat = open(agent.build().unwrap(), MemoryStore::new());
    for text in ["look around", "look again", "/compact"] {
        completed(&command(&chat, text).await);
    }
    assert_eq!(transcript(&chat).await.last().unwrap(), "assistant: Carried out: /compact.");
    assert_eq!(chat.session(SESSION).export().await.unwrap().values["summary"], Value::Null);
    assert_eq!(model.requests().len(), 3, "no model was asked for a summary");
}

// spec: agent-chat-output §9: a person's message is a new command.
#[tokio::test]
async fn a_message_that_steers_is_the_next_command() {
    let (chat, model, _) = command_chat();
    suspended(&command(&chat, "send").await);
    // While a decision is pending, to say yes is no decision.
    let refused = command(&chat, "yes").await;
    assert_eq!(errored(&refused).error_category, "chat_session_suspended");
    completed(&decide(&chat, json!({ "approved": true })).await);
    let (first, second) = tokio::join!(command(&chat, "act"), async {
        let options = SendOptions::new();
        chat.session(SESSION).steer(ChatMessage::user("look around"), options).await.unwrap().outcome().await
    });
    completed(&first);
    completed(&second);
    let asked: Vec<_> = model.requests().iter().map(bytes).collect();
    let of = |text: &str| asked.iter().filter(|it| it.contains(&format!("# Command\\n{text}\""))).count();
    assert_eq!([of("act"), of("look around"), asked.len()], [2, 1, 5]);
}

// spec: harness-chat §4; the owner is known from the state, not from the messages.
#[tokio::test]
async fn a_team_takes_commands_and_knows_its_owner_without_the_transcript() {
    let (front, help, world) = (model(), model(), World::default());
    let record = |id: &str| AgentProfile::new(id, id, "2026-01-01T00:00:00Z");
    let team = Team::new("team").member(member(record("front"), &front, &world)).member(member(
        record("help"),
        &help,
        &world,
    ));
    let chat = open(team.build().unwrap(), MemoryStore::new());
    completed(&command(&chat, "hand over").await);
    completed(&command(&chat, "look around").await);
    assert_eq!([front.requests().len(), help.requests().len()], [1, 2]);
    assert!(bytes(&help.requests()[0]).contains("transferred"));
}

#[tokio::test]
async fn what_is_no_command_is_refused_before_it_is_accepted() {
    let (chat, model, _) = command_chat();
    let source = ImageContentSource::Url { url: "https://example.com/a.png".into() };
    let image = ContentBlock::Image { source, media_type: None, detail: None };
    let options = || SendOptions::new().policy(TurnPromptPolicy::Command);
    for message in [
        ChatMessage::user(vec![ContentBlock::from_text("look"), image]),
        ChatMessage::system("look"),
        ChatMessage::assistant("look"),
    ] {
        let outcome = chat.session(SESSION).send_with(message, options()).await;
        assert_eq!(errored(&outcome).error_category, "chat_message_shape_invalid");
    }
    assert_eq!(chat.session(SESSION).info().await.unwrap_err().category(), "chat_session_unknown");
    let blocks = vec![ContentBlock::from_text("look "), ContentBlock::from_text("around")];
    completed(&chat.session(SESSION).send_with(ChatMessage::user(blocks), options()).await);
    assert!(bytes(&model.requests()[0]).contains("# Command\\nlook around\""));
}

// A session that was made as a copy, or brought in, is shown no more than the one it comes from.
#[tokio::test]
async fn the_policy_goes_with_a_fork_and_with_an_export() {
    let (chat, model, _) = command_chat();
    completed(&command(&chat, "look around").await);
    let export = chat.session(SESSION).export().await.unwrap();
    assert_eq!(export.prompt_policy, TurnPromptPolicy::Command);
    assert!(export.lists.contains_key(HISTORY));
    chat.session(SESSION).delete(None).await.unwrap();
    chat.import_session(export, None).await.unwrap();
    completed(&send(&chat, "look again").await);
    let asked = bytes(&model.requests()[1]);
    assert!(asked.contains("# Command\\nlook again\"") && !asked.contains("around"), "{asked}");
}

#[tokio::test]
async fn a_conversation_is_shown_no_snapshot_and_asks_for_approval_as_ever() {
    let rule = json!({ "when": { "user": ["say {what}"] }, "then": { "reply": "You said: {what}" } });
    let script = Script::from_json(&json!({ "model": "test", "rules": [rule] }).to_string()).unwrap();
    let (model, world) = (Watched::scripted(script), World::default());
    let chat = open(
        builder(&model, &world).ask_before(ApprovalPolicy::nothing()).build().unwrap(),
        MemoryStore::new(),
    );
    completed(&send(&chat, "say a").await);
    assert_eq!(model.asked(), [["system: Be brief.", "user: say a"]]);
}

// A session has the policy that its request names, else that of its agent.
#[tokio::test]
async fn an_agent_has_a_policy_for_new_sessions() {
    let (model, world) = (model(), World::default());
    let agent = builder(&model, &world).prompt_policy(TurnPromptPolicy::Command);
    let chat = open(agent.build().unwrap(), MemoryStore::new());
    completed(&send(&chat, "act").await);
    assert_eq!(chat.session(SESSION).info().await.unwrap().prompt_policy, TurnPromptPolicy::Command);
    let policy = async |session: &str, options: Option<TurnPromptPolicy>| {
        let create = CreateOptions::new().session(session);
        let create = options.into_iter().fold(create, CreateOptions::policy);
        chat.create_session(create).await.unwrap().prompt_policy
    };
    assert_eq!(policy("b", None).await, TurnPromptPolicy::Command);
    let conversation = TurnPromptPolicy::Conversation;
    assert_eq!(policy("c", Some(conversation)).await, conversation);
    // A message to a session that is there changes nothing.
    let options = SendOptions::new().policy(conversation);
    chat.session(SESSION).send_with(ChatMessage::user("act"), options).await;
    assert_eq!(chat.session(SESSION).info().await.unwrap().prompt_policy, TurnPromptPolicy::Command);
}
