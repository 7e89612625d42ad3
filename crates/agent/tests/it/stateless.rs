//! Answers in no session (harness §3.0, D16).

use std::sync::{Arc, Mutex};

use futures_util::StreamExt;
use serde_json::{Map, Value, json};
use singletree_agent::{ApprovalPolicy, ClientTools};
use singletree_durable::MemoryStore;
use singletree_engine::Extensions;
use singletree_harness::{
    Budget, Chat, ChatEvent, ChatEventKind, ChatTurnOutcome, DispatchPath, ErroredTurn, GraphAgent, Limits,
    StatelessRequest,
};
use singletree_llm::{
    BoxFuture, BoxStream, ChatMessage, ModelFinishReason, Provider, Request, Response, ResponseDelta, Result,
    ScriptedProvider, TokenUsage, ToolCall, ToolChoicePolicy, ToolDefinition,
};
use singletree_tools::Recovery;

use crate::probe::World;
use crate::rig::{completed, errored, line, open, script, small, small_with};

/// A scripted model that records its requests.
#[derive(Debug)]
struct Asked(ScriptedProvider, Mutex<Vec<Request>>);

impl Asked {
    fn new() -> Arc<Self> {
        Arc::new(Self(ScriptedProvider::new(script()), Mutex::default()))
    }

    /// Returns the messages, tools and tool choice of each request.
    fn said(&self) -> Vec<(Vec<String>, Vec<String>, Option<ToolChoicePolicy>)> {
        let asked = self.1.lock().unwrap();
        let said = asked.iter().map(|it| {
            let tools = it.tools.iter().map(|it| it.name().to_owned()).collect();
            (it.messages.iter().map(|it| line(it)).collect(), tools, it.tool_choice.clone())
        });
        said.collect()
    }
}

impl Provider for Asked {
    fn model_name(&self) -> &str {
        self.0.model_name()
    }
    fn ready(&self) -> BoxFuture<'_, Result<()>> {
        self.0.ready()
    }
    fn complete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Response>> {
        self.1.lock().unwrap().push(request.clone());
        self.0.complete(request)
    }
    fn can_stream(&self) -> bool {
        self.0.can_stream()
    }
    fn stream_deltas<'a>(
        &'a self,
        request: &'a Request,
    ) -> BoxFuture<'a, Result<BoxStream<'a, Result<ResponseDelta>>>> {
        self.1.lock().unwrap().push(request.clone());
        self.0.stream_deltas(request)
    }
}

fn asking(text: &str) -> StatelessRequest {
    StatelessRequest::new([ChatMessage::user(text)])
}

async fn told(chat: &Chat, request: StatelessRequest) -> Vec<ChatEvent> {
    chat.stateless(request).unwrap().collect().await
}

fn outcome(told: &[ChatEvent]) -> &ChatTurnOutcome {
    told.last().unwrap().what.outcome().unwrap()
}

fn replies(told: &[ChatEvent]) -> Vec<String> {
    completed(outcome(told)).replies.iter().map(|it| line(it)).collect()
}

fn refused(chat: &Chat, request: StatelessRequest) -> ErroredTurn {
    match chat.stateless(request) {
        Ok(_) => panic!("it is answered"),
        Err(error) => *error.into_errored_turn(),
    }
}

#[tokio::test]
async fn a_list_of_messages_is_answered_as_a_turn_is_told_and_nothing_is_kept() {
    let (world, store) = (World::default(), MemoryStore::new());
    let chat = open(small(&world, Recovery::Report), store.clone());
    let told = told(&chat, asking("say one two")).await;
    let (mut shown, mut appended) = (String::new(), Vec::new());
    for event in &told {
        assert_eq!(event.id, None);
        match &event.what {
            ChatEventKind::Delta { id, text, .. } => {
                assert_eq!(id.k, 0);
                shown.push_str(text);
            }
            ChatEventKind::MessageAppended { id, message, .. } => appended.push((id.k, line(message))),
            _ => {}
        }
    }
    assert_eq!(shown, "You said: one two");
    assert_eq!(appended, [(0, "assistant: You said: one two".to_owned())]);
    let done = completed(outcome(&told));
    assert_eq!((done.path, done.turn.ordinal), (DispatchPath::Stateless, 0));
    assert!(chat.sessions(None, 10).await.unwrap().items.is_empty());
    assert_eq!(chat.turn(&done.turn).await.unwrap_err().category(), "chat_turn_unknown");
}

// D16
#[tokio::test]
async fn tools_that_change_something_and_those_that_need_approval_are_off() {
    let (world, model) = (World::default(), Asked::new());
    let agent = small_with(model.clone(), &world, Recovery::Report).build().unwrap();
    let chat = open(agent, MemoryStore::new());
    let reads = replies(&told(&chat, asking("look")).await);
    assert_eq!(reads, ["assistant: [look{\"what\":\"a\"}]", "tool: did a", "assistant: All done."]);
    for off in ["act", "send", "mixed"] {
        // The model was not offered the tool; a call of it all the same is answered as one of an unknown tool (D30).
        let ended = replies(&told(&chat, asking(off)).await);
        assert!(ended.iter().any(|told| told.starts_with("tool: error: there is no tool \"")), "{ended:?}");
    }
    assert!(model.said().iter().all(|(_, tools, _)| tools == &["look"]));
    // Calls that only read run at once.
    let mut seen = world.whats();
    seen.sort();
    assert_eq!(seen, ["look 1", "look 2", "look 3", "look a"]);

    let builder = small_with(model.clone(), &world, Recovery::Report)
        .ask_before(ApprovalPolicy::nothing().asking("look"));
    let chat = open(builder.build().unwrap(), MemoryStore::new());
    told(&chat, asking("look")).await;
    assert!(model.said().last().unwrap().1.is_empty());
    assert_eq!(world.whats().len(), 4);
}

#[tokio::test]
async fn all_roles_are_taken_and_a_system_message_goes_on_from_the_agents_own() {
    let (world, model) = (World::default(), Asked::new());
    let builder = small_with(model.clone(), &world, Recovery::Report).window(1);
    let chat = open(builder.build().unwrap(), MemoryStore::new());
    let call = ToolCall::new("c", "theirs", Map::new());
    let given = [
        ChatMessage::system("Be kind."),
        ChatMessage::user("say a"),
        ChatMessage::assistant("").with_tool_calls([call]),
        ChatMessage::tool("c", "done"),
        ChatMessage::user("say b"),
    ];
    assert_eq!(replies(&told(&chat, StatelessRequest::new(given)).await), ["assistant: You said: b"]);
    let expect = [
        "system: Be brief.\n\nBe kind.",
        "user: say a",
        "assistant: [theirs{}]",
        "tool: done",
        "user: say b",
    ];
    assert_eq!(model.said()[0].0, expect);
    told(&chat, asking("say c")).await;
    assert_eq!(model.said()[1].0, ["system: Be brief.", "user: say c"]);
}

fn theirs(names: &[&str]) -> ClientTools {
    let schema = json!({ "type": "object", "properties": { "what": { "type": "string" } } });
    let tools = names.iter().map(|it| ToolDefinition::new(it, "Theirs.", schema.clone()).unwrap());
    ClientTools::new(tools).unwrap()
}

fn with(tools: ClientTools, text: &str) -> StatelessRequest {
    asking(text).extensions(Extensions::default().with_value(tools))
}

#[tokio::test]
async fn a_call_of_a_tool_that_the_caller_brought_ends_the_run_and_is_the_callers_to_run() {
    let (world, model) = (World::default(), Asked::new());
    let agent = small_with(model.clone(), &world, Recovery::Report).build().unwrap();
    let chat = open(agent, MemoryStore::new());
    // `act` is theirs; the agent's own that reads is offered, too.
    let tools = theirs(&["act"]).with_tool_choice(ToolChoicePolicy::Tool("act".into()));
    let ended = told(&chat, with(tools.clone(), "act")).await;
    assert_eq!(replies(&ended), ["assistant: [act{\"what\":\"a\"}]"]);
    assert!(tools.is_client_call(&completed(outcome(&ended)).replies[0].tool_calls[0]));
    assert_eq!(model.said()[0].1, ["look", "act"]);
    assert_eq!(model.said()[0].2, Some(ToolChoicePolicy::Tool("act".into())));
    // Of a message with calls of both none is run.
    assert_eq!(replies(&told(&chat, with(theirs(&["act"]), "mixed")).await).len(), 1);
    // In the place of the agent's own.
    assert_eq!(replies(&told(&chat, with(theirs(&["look"]), "look")).await).len(), 1);
    assert_eq!(model.said().last().unwrap().1, ["look"]);
    assert!(world.whats().is_empty());
    // After an answer of the agent's own tool the choice is free again.
    told(&chat, with(theirs(&["act"]).with_tool_choice(ToolChoicePolicy::Required), "look")).await;
    let choices: Vec<_> = model.said().into_iter().rev().take(2).map(|it| it.2).collect();
    assert_eq!(choices, [None, Some(ToolChoicePolicy::Required)]);

    assert_eq!(ClientTools::new(twice()).unwrap_err().category(), "tool_duplicate");
}

fn twice() -> [ToolDefinition; 2] {
    [(); 2].map(|()| ToolDefinition::new("a", "", json!({ "type": "object" })).unwrap())
}

#[tokio::test]
async fn what_no_model_could_answer_and_who_is_not_there_is_refused_before_anything_runs() {
    let world = World::default();
    let chat = open(small(&world, Recovery::Report), MemoryStore::new());
    let empty = refused(&chat, StatelessRequest::default());
    assert_eq!((empty.error_category.as_str(), empty.turn), ("chat_message_shape_invalid", None));
    let last = refused(&chat, StatelessRequest::new([ChatMessage::user("a"), ChatMessage::assistant("b")]));
    assert_eq!(last.error_category, "chat_message_shape_invalid");
    assert_eq!(refused(&chat, asking("a").agent("nobody")).error_category, "chat_agent_unknown");
    chat.shutdown(std::time::Duration::ZERO).await;
    assert_eq!(refused(&chat, asking("a")).error_category, "chat_shutting_down");
}

#[tokio::test]
async fn an_agent_without_a_graph_for_it_and_one_that_wants_to_wait_need_a_session() {
    let world = World::default();
    let graph = small_with(Asked::new(), &world, Recovery::Report).graph().unwrap();
    let chat = open(
        GraphAgent::new("bare", &graph).durability(singletree_harness::Durability::Step),
        MemoryStore::new(),
    );
    let bare = refused(&chat, asking("say a"));
    assert_eq!(bare.error_category, "chat_session_required");
    assert_eq!(bare.diagnostic, "the agent 'bare' needs a session: it answers in sessions only");

    // A graph of an application that waits all the same: the loop with its gate.
    let agent = small(&world, Recovery::Report).stateless(&graph);
    let chat = open(agent, MemoryStore::new());
    let told = told(&chat, asking("send")).await;
    let failed = errored(outcome(&told));
    assert_eq!(failed.error_category, "chat_session_required");
    assert!(world.whats().is_empty());
}

#[tokio::test]
async fn what_fails_is_told_by_the_outcome() {
    let world = World::default();
    let chat = open(small(&world, Recovery::Report), MemoryStore::new());
    let told_cut = told(&chat, asking("cut")).await;
    let failed = errored(outcome(&told_cut));
    assert_eq!(
        (failed.error_category.as_str(), failed.retry_safe, failed.recorded),
        ("provider_unavailable", true, false)
    );
    // D13: the budgets of a turn hold.
    let budget = Budget { tool_calls: Some(0), ..Budget::default() };
    let chat = open(small(&world, Recovery::Report).budget(budget), MemoryStore::new());
    let told_budget = told(&chat, asking("look")).await;
    assert_eq!(errored(outcome(&told_budget)).error_category, "chat_budget_exhausted");
}

#[tokio::test(start_paused = true)]
async fn it_runs_no_longer_than_a_turn_may() {
    #[derive(Debug)]
    struct Slow;
    impl singletree_llm::Timer for Slow {
        fn sleep_for(&self, length: std::time::Duration) -> BoxFuture<'_, ()> {
            Box::pin(tokio::time::sleep(length))
        }
    }
    let rules: Value =
        json!({ "model": "m", "rules": [], "fallback": { "reply": "a b c d", "delay_ms": 60_000 } });
    let model = ScriptedProvider::new(singletree_llm::Script::from_json(&rules.to_string()).unwrap());
    let model = Arc::new(model.with_pace(Arc::new(Slow)));
    let agent = small_with(model, &World::default(), Recovery::Report).build().unwrap();
    let limits = Limits { turn_time: std::time::Duration::from_secs(100), ..Limits::default() };
    let chat = Chat::builder().agent(agent).limits(limits).open(MemoryStore::new()).unwrap();
    let told = told(&chat, asking("x")).await;
    assert_eq!(errored(outcome(&told)).error_category, "chat_budget_exhausted");
    assert!(told.iter().any(|it| matches!(it.what, ChatEventKind::Delta { .. })));
}

/// A model that says everything nearly at once, piece by piece.
#[derive(Debug)]
struct Flood(Arc<Asked>);

impl Provider for Flood {
    fn model_name(&self) -> &str {
        self.0.model_name()
    }
    fn ready(&self) -> BoxFuture<'_, Result<()>> {
        self.0.ready()
    }
    fn complete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Response>> {
        self.0.complete(request)
    }
    fn can_stream(&self) -> bool {
        true
    }
    fn stream_deltas<'a>(
        &'a self,
        _: &'a Request,
    ) -> BoxFuture<'a, Result<BoxStream<'a, Result<ResponseDelta>>>> {
        let end = ResponseDelta::Finish {
            reason: ModelFinishReason::Stop,
            usage: TokenUsage::default(),
            raw: Value::Null,
        };
        let pieces = (0..200).map(|it| ResponseDelta::from_text(format!("w{it} "))).chain([end]);
        let stream = futures_util::stream::iter(pieces).enumerate().then(async |(at, piece)| {
            if at == 150 {
                tokio::task::yield_now().await;
            }
            Ok(piece)
        });
        let stream: BoxStream<'_, _> = Box::pin(stream);
        Box::pin(std::future::ready(Ok(stream)))
    }
}

// INV-12: missed pieces come as one piece.
#[tokio::test]
async fn more_pieces_than_are_kept_for_a_slow_reader_come_in_one() {
    let text = (0..200).map(|it| format!("w{it} ")).collect::<String>();
    let limits = Limits { feed_backlog: 4, ..Limits::default() };
    let model = Arc::new(Flood(Asked::new()));
    let agent = small_with(model, &World::default(), Recovery::Report).build().unwrap();
    let chat = Chat::builder().agent(agent).limits(limits).open(MemoryStore::new()).unwrap();
    let told = told(&chat, asking("x")).await;
    let mut shown = String::new();
    for event in &told {
        if let ChatEventKind::Delta { text, so_far, .. } = &event.what {
            if *so_far {
                shown.clear();
            }
            shown.push_str(text);
        }
    }
    let so_far =
        told.iter().filter(|it| matches!(it.what, ChatEventKind::Delta { so_far: true, .. })).count();
    assert!(so_far > 0, "the backlog was never exceeded");
    assert!(text.starts_with(&shown) && shown.len() > text.len() / 2, "{shown}");
    assert_eq!(replies(&told), [format!("assistant: {text}")]);
}

#[tokio::test]
async fn dropping_the_stream_ends_the_run() {
    let (world, model) = (World::default(), Asked::new());
    let agent = small_with(model.clone(), &world, Recovery::Report).build().unwrap();
    let chat = open(agent, MemoryStore::new());
    let mut events = chat.stateless(asking("look")).unwrap();
    let first = events.next().await.unwrap();
    assert_eq!(first.what.as_str(), "tool.started");
    drop(events);
    tokio::task::yield_now().await;
    assert_eq!(model.said().len(), 1, "nobody asked it again");
}
