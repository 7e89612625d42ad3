//! The effects of a turn that ended early: every kind of end at every moment of a call, over both stores (D29).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use singletree_durable::{Journal, JournalMaintenance};
use singletree_engine::{Ctx, Graph, NodeError, NodeResult};
use singletree_harness::{
    Budget, Chat, ChatBuilder, ChatTurnOutcome, Durability, ErroredTurn, Limits, ToolCallLog, TurnContext,
};
use singletree_llm::{ChatMessage, ToolCall};
use singletree_store_testing::FailedWriteEffect;

use crate::bench::{Door, Talk, agent, chain, check_rows, history, key, user};
use crate::dying::{Ground, Kind};
use crate::fails_once::FailsOnce;

pub(crate) const DID: &str = "t:c1=did it";
const UNKNOWN: &str =
    r#"t:c1={"reason":"it ran when the turn ended; whether it took effect is not known","status":"unknown"}"#;

/// Where in a turn with one call it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Moment {
    BeforeCall,
    IntentRecorded,
    EffectDone,
    ResultRecorded,
    NextModelCall,
}

const MOMENTS: [Moment; 5] = [
    Moment::BeforeCall,
    Moment::IntentRecorded,
    Moment::EffectDone,
    Moment::ResultRecorded,
    Moment::NextModelCall,
];

/// How it ends there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Category(&'static str),
    Cancel,
    Budget,
    Time,
    Panic,
    /// Not at all: it goes on.
    No,
}

const ENDS: [End; 8] = [
    End::Category("provider_unavailable"),
    End::Category("provider_authentication"),
    End::Category("state_validation_error"),
    End::Category("something_unknown"),
    End::Cancel,
    End::Budget,
    End::Time,
    End::Panic,
];

/// The effects of all processes, and the end that the first run of a turn comes to.
#[derive(Debug, Clone)]
pub(crate) struct World {
    effects: Arc<Mutex<Vec<String>>>,
    door: Door,
    end: Arc<Mutex<End>>,
    at: Moment,
}

impl World {
    pub(crate) fn new(end: End, at: Moment) -> Self {
        Self { effects: Arc::default(), door: Door::shut(), end: Arc::new(Mutex::new(end)), at }
    }

    pub(crate) fn effects(&self) -> usize {
        self.effects.lock().unwrap().len()
    }

    /// Lets turns go on from now on.
    pub(crate) fn heal(&self) {
        *self.end.lock().unwrap() = End::No;
    }

    async fn pass(&self, at: Moment, cx: &Ctx<Talk>) -> Result<(), NodeError> {
        let end = *self.end.lock().unwrap();
        if at != self.at {
            return Ok(());
        }
        match end {
            End::Category(category) => Err(NodeError::new("no").with_category(category)),
            End::Cancel => {
                self.door.pass().await;
                Ok(())
            }
            End::Budget => {
                TurnContext::of(cx).unwrap().budget().count_tool_calls(100)?;
                Ok(())
            }
            End::Time => std::future::pending().await,
            End::Panic => panic!("at {at:?}"),
            End::No => Ok(()),
        }
    }

    /// A model that calls a tool, the tool, and the model's answer.
    pub(crate) fn graph(&self) -> Graph<Talk> {
        let (acting, replying) = (self.clone(), self.clone());
        let builder = Graph::builder()
            .node("ask", |_: Ctx<Talk>| async {
                let call = ToolCall::new("c1", "send", serde_json::Map::new());
                Ok(Talk::update()
                    .notes(["asked".to_owned()])
                    .messages([ChatMessage::assistant("").with_tool_calls([call])]))
            })
            .node("act", move |cx: Ctx<Talk>| act(acting.clone(), cx))
            .node("reply", move |cx: Ctx<Talk>| {
                let world = replying.clone();
                async move {
                    world.pass(Moment::NextModelCall, &cx).await?;
                    Ok(Talk::update().messages([ChatMessage::assistant("done")]))
                }
            });
        chain(builder, &["ask", "act", "reply"])
    }

    pub(crate) fn builder(&self, durability: Durability, limits: Limits) -> ChatBuilder {
        let budget = Budget { tool_calls: Some(9), ..Budget::default() };
        Chat::builder().agent(agent(&self.graph(), durability).budget(budget)).limits(limits)
    }
}

async fn act(world: World, cx: Ctx<Talk>) -> NodeResult<Talk> {
    let message = cx.state().messages.len() - 1;
    world.pass(Moment::BeforeCall, &cx).await?;
    let log = ToolCallLog::from_records(&cx.records(), message)?;
    let text = match (log.find_result(0), log.is_in_doubt(0)) {
        (Some(text), _) => text.to_owned(),
        (None, true) => "unknown: it may have run".to_owned(),
        (None, false) => {
            let (name, fact) = ToolCallLog::intent_record(message, 0);
            cx.record(&name, fact).await?;
            world.pass(Moment::IntentRecorded, &cx).await?;
            world.effects.lock().unwrap().push(cx.identity().invocation_id.to_string());
            world.pass(Moment::EffectDone, &cx).await?;
            let (name, fact) = ToolCallLog::result_record(message, 0, "did it", None);
            cx.record(&name, fact).await?;
            "did it".to_owned()
        }
    };
    world.pass(Moment::ResultRecorded, &cx).await?;
    Ok(Talk::update().count(1).messages([ChatMessage::tool("c1", text)]))
}

pub(crate) fn failed(outcome: &ChatTurnOutcome) -> &ErroredTurn {
    let ChatTurnOutcome::Errored(turn) = outcome else { panic!("it does not fail: {outcome:?}") };
    turn
}

fn category_of(end: End) -> &'static str {
    match end {
        End::Category(category) => category,
        End::Cancel => "chat_turn_cancelled",
        End::Budget | End::Time => "chat_budget_exhausted",
        End::Panic => "node_exception",
        End::No => panic!("it does not end"),
    }
}

/// The expected history after an end at a moment: all of it with an effect; nothing without, except after a cancel,
/// which keeps the part that was shown (D10).
fn kept(end: End, at: Moment) -> Vec<String> {
    let tool = match (end, at) {
        (End::Cancel, Moment::BeforeCall) => {
            r#"t:c1={"reason":"the turn was cancelled","status":"cancelled"}"#
        }
        (_, Moment::BeforeCall) => return Vec::new(),
        (_, Moment::IntentRecorded | Moment::EffectDone) => UNKNOWN,
        (_, Moment::ResultRecorded | Moment::NextModelCall) => DID,
    };
    ["u:m", "a:(c1)", tool].map(str::to_owned).to_vec()
}

/// Ends a turn, checks the rest, and sends the same message under the same key again.
async fn ends(kind: Kind, durability: Durability, end: End, at: Moment) {
    let place = format!("{end:?} at {at:?}, {durability:?} over {kind:?}");
    let (ground, world) = (Ground::new(kind).await, World::new(end, at));
    let limits = Limits { turn_time: Duration::from_secs(9), ..Limits::default() };
    let chat = ground.open(world.builder(durability, limits));
    let turn = chat.session("s").submit(user("m"), key("k")).await.unwrap();
    if end == End::Cancel {
        world.door.somebody().await;
        chat.cancel(turn.id()).await.unwrap();
    }
    let outcome = turn.outcome().await;
    let had_effects = at > Moment::BeforeCall;
    assert_eq!(failed(&outcome).error_category, category_of(end), "{place}");
    assert!(!(had_effects && failed(&outcome).retry_safe), "{place}");
    assert_eq!(history(&chat, "s").await, kept(end, at), "{place}");
    if had_effects {
        let entries = chat.session("s").history(0..9).await.unwrap();
        let side = entries.last().unwrap().side.clone().unwrap();
        assert_eq!(side["stopped"]["category"], category_of(end), "{place}: {side}");
        assert_eq!(side["stopped"]["turn"], turn.id().to_string(), "{place}: {side}");
    }
    let effects = world.effects();
    assert_eq!(effects, usize::from(at > Moment::IntentRecorded), "{place}");
    world.heal();
    let again = chat.session("s").submit(user("m"), key("k")).await.unwrap();
    let is_same = again.id() == turn.id();
    assert_eq!(is_same, had_effects || !failed(&outcome).retry_safe, "{place}: the key");
    again.outcome().await;
    assert_eq!(world.effects() - effects, usize::from(!is_same), "{place}");
    chat.shutdown(Duration::from_secs(5)).await;
    ground.is_sound("s").await;
}

// D29, D3: C1 and C2 of the findings, for every kind of end. Rows with calls run at level `step` (D26), the others at
// both.
#[tokio::test(start_paused = true)]
async fn a_turn_that_ends_early_keeps_what_it_did_and_its_key() {
    for end in ENDS {
        for at in MOMENTS {
            ends(Kind::Memory, Durability::Step, end, at).await;
        }
        ends(Kind::Memory, Durability::Turn, end, Moment::BeforeCall).await;
    }
}

#[tokio::test]
async fn a_turn_that_ends_early_keeps_what_it_did_in_a_file() {
    let ends_now = ENDS.into_iter().filter(|end| *end != End::Time);
    for end in ends_now {
        for at in MOMENTS {
            ends(Kind::File, Durability::Step, end, at).await;
        }
        ends(Kind::File, Durability::Turn, end, Moment::BeforeCall).await;
    }
}

/// The stored rows describe the end, wherever the process died or a commit failed.
async fn says_what_happened(chat: &Chat, world: &World, place: &str) {
    let first = chat.session("s").turns(0, 1).await.unwrap().items.remove(0);
    let outcome = chat.turn(&first.id).await.unwrap().outcome().await;
    let (seen, effects) = (history(chat, "s").await, world.effects());
    assert!(effects <= 1, "{place}: {effects} effects");
    if matches!(outcome.as_ref(), ChatTurnOutcome::Errored(_)) {
        let tool = seen.get(2).map_or("", String::as_str);
        match effects {
            0 => {
                assert!(seen.is_empty() || (tool.contains("unknown") && seen.len() == 3), "{place}: {seen:?}")
            }
            _ => {
                assert!(seen.starts_with(&["u:m".into(), "a:(c1)".into()]), "{place}: {seen:?} {outcome:?}");
                assert!(tool == DID || tool.contains("unknown"), "{place}: {seen:?}");
                assert!(!failed(&outcome).retry_safe, "{place}");
            }
        }
    }
    world.heal();
    let again = chat.session("s").submit(user("m"), key("k")).await.unwrap();
    again.outcome().await;
    let keeps_key = effects > 0 || !seen.is_empty();
    assert!(!keeps_key || *again.id() == first.id, "{place}: the key");
    assert_eq!(world.effects(), if keeps_key { effects } else { world.effects().min(1) }, "{place}");
    check_rows_of(chat).await;
}

async fn check_rows_of(chat: &Chat) {
    assert!(chat.session("s").open_turns().await.unwrap().is_empty());
}

/// Lets a process die at every write; the next one gives the turn up, or runs it again to its end.
async fn dies_everywhere(kind: Kind, end: End, deaths: u32) {
    for n in 1.. {
        let mut reached = false;
        for land in [FailedWriteEffect::Before, FailedWriteEffect::After] {
            let place = format!("{end:?}, dies at {n} {land:?} over {kind:?}, {deaths} deaths");
            let (ground, world) = (Ground::new(kind).await, World::new(end, Moment::NextModelCall));
            let builder = world.builder(Durability::Step, Limits::default());
            let send = async |chat: &Chat| {
                if let Ok(turn) = chat.session("s").submit(user("m"), key("k")).await {
                    drop(turn.outcome().await);
                }
            };
            reached |= ground.dies(builder, (n, land), send).await;
            let ground = ground.reopen().await;
            let limits = Limits { deaths, ..Limits::default() };
            let chat = ground.open(world.builder(Durability::Step, limits));
            for turn in chat.sweep().await.unwrap() {
                turn.outcome().await;
            }
            let first = chat.session("s").submit(user("m"), key("k")).await.unwrap();
            first.outcome().await;
            says_what_happened(&chat, &world, &place).await;
            chat.shutdown(Duration::from_secs(5)).await;
            ground.is_sound("s").await;
        }
        if !reached {
            assert!(n > 5, "{n} writes");
            return;
        }
    }
}

// D24, D29: poison, and a crash at every write of a turn that fails.
#[tokio::test]
async fn wherever_the_process_dies_the_history_says_what_happened() {
    for kind in [Kind::Memory, Kind::File] {
        dies_everywhere(kind, End::Category("provider_unavailable"), 1).await;
    }
    dies_everywhere(Kind::Memory, End::Category("provider_unavailable"), 3).await;
    dies_everywhere(Kind::Memory, End::No, 1).await;
}

/// Lets one write fail, for every write of a turn.
async fn fails_everywhere(kind: Kind, end: End) {
    for n in 1.. {
        let mut reached = false;
        for land in [FailedWriteEffect::Before, FailedWriteEffect::After] {
            let place = format!("{end:?}, write {n} fails {land:?} over {kind:?}");
            let (ground, world) = (Ground::new(kind).await, World::new(end, Moment::NextModelCall));
            let (journal, upkeep) = ground.parts();
            let failing = Arc::new(FailsOnce::new(journal, upkeep, n, land));
            let limits = Limits { record_retry: Duration::from_millis(1), ..Limits::default() };
            let builder = world.builder(Durability::Step, limits);
            let shared: (Arc<dyn Journal>, Arc<dyn JournalMaintenance>) = (failing.clone(), failing.clone());
            let chat = builder.open_shared(shared.0, shared.1).unwrap();
            let mut turn = chat.session("s").submit(user("m"), key("k")).await;
            if turn.is_err() {
                turn = chat.session("s").submit(user("m"), key("k")).await;
            }
            turn.unwrap().outcome().await;
            // An end whose commit failed is recorded once the store works again.
            while !chat.session("s").open_turns().await.unwrap().is_empty() {
                tokio::task::yield_now().await;
            }
            says_what_happened(&chat, &world, &place).await;
            reached |= failing.fired();
            chat.shutdown(Duration::from_secs(5)).await;
            ground.is_sound("s").await;
        }
        if !reached {
            assert!(n > 5, "{n} writes");
            return;
        }
    }
}

// D20, D29: a commit that failed.
#[tokio::test]
async fn whichever_commit_fails_the_history_says_what_happened() {
    for kind in [Kind::Memory, Kind::File] {
        fails_everywhere(kind, End::Category("provider_unavailable")).await;
    }
    fails_everywhere(Kind::Memory, End::No).await;
}

// D29: the other fields of the session are those of the last committed step.
#[tokio::test]
async fn a_turn_with_effects_keeps_every_field_of_its_session() {
    for kind in [Kind::Memory, Kind::File] {
        let world = World::new(End::Category("provider_unavailable"), Moment::NextModelCall);
        let ground = Ground::new(kind).await;
        let chat = ground.open(world.builder(Durability::Step, Limits::default()));
        chat.session("s").send(user("m")).await;
        let (journal, _) = ground.parts();
        let row = journal.read_session(&crate::bench::name("s")).await.unwrap().unwrap();
        let fields: Vec<_> = row.fields.iter().map(|field| format!("{field:?}")).collect();
        let of = |name: &str| fields.iter().find(|field| field.contains(name)).cloned().unwrap_or_default();
        assert!(of("\"count\"").contains('1'), "{fields:?}");
        assert!(of("\"notes\"").contains("len: 1"), "{fields:?}");
        check_rows(journal.as_ref(), "s").await;
        // A later process goes on from there.
        world.heal();
        chat.shutdown(Duration::from_secs(5)).await;
        let ground = ground.reopen().await;
        let chat = ground.open(world.builder(Durability::Step, Limits::default()));
        chat.session("s").send(user("n")).await;
        assert_eq!(history(&chat, "s").await[2..5], [DID, "u:n", "a:(c1)"]);
    }
}
