//! Messages that call tools: the order in which they run, and the results that the model reads.

use std::sync::Arc;

use singletree_agent::Agent;
use singletree_durable::MemoryStore;
use singletree_harness::ChatEventKind;
use singletree_llm::{BoxFuture, BoxStream, Provider, Request, Response, ResponseDelta, ScriptedProvider};
use singletree_tools::{Effect, LiveToolbox, Offer, Recovery, Tool, ToolContext, Toolset, TypedTool};
use tokio::sync::Barrier;

use crate::probe::{Probe, World};
use crate::rig::{chat, completed, open, probes, script, send, toolbox, transcript, watched};
use crate::watched::Watched;

#[tokio::test]
async fn a_result_goes_back_to_the_model_and_its_answer_ends_the_turn() {
    let (chat, world) = chat();
    let outcome = send(&chat, "act").await;
    assert_eq!(completed(&outcome).replies.len(), 3);
    let expected = ["user: act", "assistant: [act{\"what\":\"a\"}]", "tool: did a", "assistant: All done."];
    assert_eq!(transcript(&chat).await, expected);
    assert_eq!(world.whats(), ["act a"]);
}

#[tokio::test]
async fn what_changes_something_runs_alone_and_in_order_with_what_reads_around_it() {
    let (chat, world) = chat();
    completed(&send(&chat, "mixed").await);
    assert_eq!(world.whats(), ["look 1", "act a", "look 2", "act b", "look 3"]);
    let transcript = transcript(&chat).await;
    assert_eq!(transcript[2..7], ["tool: did 1", "tool: did a", "tool: did 2", "tool: did b", "tool: did 3"]);
    let keys = world.by_key();
    assert_eq!(keys.len(), 5, "every call has a key of its own: {keys:?}");
}

#[tokio::test]
async fn tools_are_added_one_by_one_behind_those_of_the_toolbox_and_none_twice() {
    let world = World::default();
    let [look, act, send_tool] = probes(&world, Recovery::Report).try_into().expect("three probes");
    let builder = Agent::new("a", ScriptedProvider::new(script()));
    // In either order of the calls.
    let builder = builder.tool(act.clone()).toolbox(toolbox(vec![look.clone()])).tool(send_tool);
    let chat = open(builder.build().unwrap(), MemoryStore::new());
    completed(&send(&chat, "mixed").await);
    assert_eq!(world.whats(), ["look 1", "act a", "look 2", "act b", "look 3"]);

    let builder = Agent::new("a", ScriptedProvider::new(script()));
    let twice = builder.tool(act.clone()).tool(look).tool(act).build().unwrap_err();
    assert_eq!(twice.category(), "tool_duplicate");
    let builder = Agent::new("a", ScriptedProvider::new(script()));
    let nameless = || TypedTool::new("", "", Effect::Read, async |_: Meet, _| Ok("never"));
    assert_eq!(builder.tool(nameless).build().unwrap_err().category(), "tool_definition_invalid");
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Meet {
    what: String,
}

#[tokio::test]
async fn calls_that_only_read_run_at_once() {
    let both = Arc::new(Barrier::new(2));
    // Each call waits for the other one: run one after the other, both would time out.
    let meet = TypedTool::new("meet", "Meets.", Effect::Read, move |it: Meet, _: ToolContext| {
        let both = both.clone();
        async move {
            both.wait().await;
            Ok(format!("met as {}", it.what))
        }
    });
    let tools: Vec<Arc<dyn Tool>> = vec![Arc::new(meet.unwrap())];
    let provider = Arc::new(ScriptedProvider::new(script()));
    let agent = Agent::new("a", provider).toolbox(toolbox(tools)).build().unwrap();
    let chat = open(agent, MemoryStore::new());
    completed(&send(&chat, "meet").await);
    assert_eq!(transcript(&chat).await[2..4], ["tool: met as a", "tool: met as b"]);
}

// spec: llm-provider §3 (degraded calls), §6
#[tokio::test]
async fn calls_that_do_not_read_are_told_to_the_model_and_need_no_approval() {
    let (chat, world) = chat();
    completed(&send(&chat, "garble").await);
    let transcript = transcript(&chat).await;
    assert_eq!(
        transcript[2],
        "tool: error: the arguments are not a JSON object; what was written: {\"what\":"
    );
    assert_eq!(transcript[3], "tool: error: there is no tool \"fly\"; the tools are: look, act, send");
    assert!(transcript[4].starts_with("tool: error: the arguments do not fit the schema"), "{transcript:?}");
    assert_eq!(world.whats(), Vec::<String>::new());
}

#[tokio::test]
async fn tool_activity_is_shown_as_it_happens() {
    let (chat, _) = chat();
    let events = watched(&chat, "act", &[]).await;
    let shown = events.iter().filter_map(|it| match &it.what {
        ChatEventKind::ToolStarted { call, name, arguments } => Some(format!("{call} {name} {arguments}")),
        ChatEventKind::ToolFinished { call, name, success, content } => {
            Some(format!("{call} {name} {success} {content}"))
        }
        _ => None,
    });
    assert_eq!(shown.collect::<Vec<_>>(), ["call_2_0 act {\"what\":\"a\"}", "call_2_0 act true did a"]);
}

#[tokio::test]
async fn an_agent_with_effects_is_never_run_at_level_turn() {
    let world = World::default();
    let builder = |tools| Agent::new("a", ScriptedProvider::new(script())).toolbox(toolbox(tools));
    let agent = builder(probes(&world, Recovery::Report)).build().unwrap();
    // D26: refused, should anybody lower the level.
    let lowered = agent.durability(singletree_harness::Durability::Turn);
    let refused = singletree_harness::Chat::builder().agent(lowered).open(MemoryStore::new()).unwrap_err();
    assert_eq!(refused.category(), "chat_durability_invalid");
    let doubled = [probes(&world, Recovery::Report), probes(&world, Recovery::Report)].concat();
    let limits = singletree_tools::ToolLimits::standard();
    let error = singletree_tools::Toolbox::new(doubled, limits).unwrap_err();
    assert_eq!(singletree_agent::Error::from(error).category(), "tool_duplicate");
}

/// A set of one tool that comes, goes, and becomes dangerous.
#[derive(Debug)]
struct Coming {
    tools: std::sync::Mutex<Arc<[Arc<dyn Tool>]>>,
}

impl Toolset for Coming {
    fn name(&self) -> &str {
        "coming"
    }

    fn offer_tools(&self) -> BoxFuture<'_, Offer> {
        let tools = self.tools.lock().unwrap().clone();
        Box::pin(async move { Ok(tools) })
    }
}

// The toolbox is read at each call of the model; a tool that became dangerous since the model called it does not run
// without approval.
#[tokio::test]
async fn tools_come_and_go_between_the_calls_of_the_model() {
    let world = World::default();
    let set = Arc::new(Coming { tools: std::sync::Mutex::new(Arc::new([])) });
    let live = LiveToolbox::new(toolbox(Vec::new()), [set.clone() as Arc<dyn Toolset>]);
    let model = Watched::scripted(script());
    let chat = open(Agent::new("a", model.clone()).toolbox(live).build().unwrap(), MemoryStore::new());
    completed(&send(&chat, "say hello").await);
    *set.tools.lock().unwrap() = probes(&world, Recovery::Report).into();
    completed(&send(&chat, "act").await);
    assert_eq!(world.whats(), ["act a"]);
    *set.tools.lock().unwrap() = Arc::new([]);
    completed(&send(&chat, "say hello").await);
    let act = ["look", "act", "send"].map(str::to_owned).to_vec();
    assert_eq!(model.offered(), [vec![], act.clone(), act, vec![]]);
}

/// A model that lets something happen once it has answered.
#[derive(Debug)]
struct Then(ScriptedProvider, Arc<Coming>, World);

impl Provider for Then {
    fn model_name(&self) -> &str {
        self.0.model_name()
    }

    fn ready(&self) -> BoxFuture<'_, singletree_llm::Result<()>> {
        self.0.ready()
    }

    fn can_stream(&self) -> bool {
        false
    }

    fn stream_deltas<'a>(
        &'a self,
        request: &'a Request,
    ) -> BoxFuture<'a, singletree_llm::Result<BoxStream<'a, singletree_llm::Result<ResponseDelta>>>> {
        self.0.stream_deltas(request)
    }

    fn complete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, singletree_llm::Result<Response>> {
        Box::pin(async move {
            let answer = self.0.complete(request).await;
            let act = Probe::shared("act", Effect::Destructive, Recovery::Report, &self.2);
            let served = self.1.clone();
            // Once the request's own look at the tools is over.
            tokio::spawn(async move { *served.tools.lock().unwrap() = Arc::new([act]) }).await.unwrap();
            answer
        })
    }
}

#[tokio::test]
async fn a_tool_that_becomes_dangerous_after_it_was_called_is_not_run_unasked() {
    let world = World::default();
    let set = Arc::new(Coming { tools: std::sync::Mutex::new(probes(&world, Recovery::Report).into()) });
    let live = LiveToolbox::new(toolbox(Vec::new()), [set.clone() as Arc<dyn Toolset>]);
    let model = Then(ScriptedProvider::new(script()), set, world.clone());
    let chat = open(Agent::new("a", model).toolbox(live).build().unwrap(), MemoryStore::new());
    completed(&send(&chat, "act").await);
    assert_eq!(world.whats(), Vec::<String>::new());
    assert!(transcript(&chat).await[2].contains("needs an approval"), "{:?}", transcript(&chat).await);
}
