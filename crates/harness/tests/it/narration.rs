//! The content of narration, its session, its language, and that it goes with its session (agent-chat-output §5, §9;
//! INV-9).

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use singletree_durable::{Batch, Journal, RowMutation, SessionHead, TenantId};
use singletree_engine::{Ctx, Graph, Signal};
use singletree_harness::{
    COMMAND, Chat, ChatTurnOutcome, ForkOptions, GraphAgent, Messages, SendOptions, TurnContext,
    TurnPromptPolicy,
};
use singletree_llm::ChatMessage;
use singletree_macros::State;
use singletree_narration::{Locale, NarrationMessage, NarrationOwner, NarrationSink};
use singletree_test_store::TestStore;

use crate::bench::{
    Log, Talk, TokioClock, approve, asking, at, category, chat_of, history, name, plain, user,
};

/// The calls that a sink received: narration with its session, or that a session is forgotten.
#[derive(Debug, Default)]
pub(crate) struct Told(pub(crate) Mutex<Vec<(String, Option<NarrationMessage>)>>);

fn about(whose: NarrationOwner<'_>) -> String {
    format!("{}/{}", whose.tenant, whose.session)
}

impl NarrationSink for Told {
    fn emit_narration(&self, whose: NarrationOwner<'_>, narration: NarrationMessage) {
        self.0.lock().unwrap().push((about(whose), Some(narration)));
    }

    fn forget_session(&self, whose: NarrationOwner<'_>) {
        self.0.lock().unwrap().push((about(whose), None));
    }
}

impl Told {
    fn lines(&self) -> Vec<String> {
        let line = |(whose, said): &(String, Option<NarrationMessage>)| match said {
            Some(it) => format!("{whose} {} {}: {}", it.role.as_str(), it.kind.as_str(), it.content),
            None => format!("{whose} forgotten"),
        };
        self.0.lock().unwrap().iter().map(line).collect()
    }

    fn take(&self) -> Vec<String> {
        let lines = self.lines();
        self.0.lock().unwrap().clear();
        lines
    }
}

fn open(graph: &Graph<Talk>, store: &TestStore, locale: Locale) -> (Chat, Arc<Told>) {
    let told = Arc::new(Told::default());
    let chat = chat_of(graph).narration(told.clone()).narrate_in(locale).clock(TokioClock::new());
    (chat.open(store.clone()).unwrap(), told)
}

// spec: agent-chat-output §5.1, §9: status, ask, rejection, pause, cancel
#[tokio::test(start_paused = true)]
async fn the_controller_tells_what_is_recorded_in_its_language() {
    let english = [
        "default/s user status: m",
        "default/s system ask: Approval is needed: ok.",
        "default/s user status: yes",
        "default/s system error: That request couldn't be processed: the conversation waits for an answer to: ok.",
        "default/s system status: ok was answered; work goes on.",
        "default/s system status: Done.",
        "default/s user status: n",
        "default/s system ask: Approval is needed: ok.",
        "default/s system explanation: ok was cancelled.",
        "default/s system explanation: The turn was stopped.",
    ];
    let german = [
        "default/s user status: m",
        "default/s system ask: Freigabe nötig: ok.",
        "default/s user status: yes",
        english[3],
        "default/s system status: ok ist beantwortet; es geht weiter.",
        "default/s system status: Fertig.",
        "default/s user status: n",
        "default/s system ask: Freigabe nötig: ok.",
        "default/s system explanation: ok wurde zurückgezogen.",
        "default/s system explanation: Der Zug wurde abgebrochen.",
    ];
    for (locale, expected) in [(Locale::English, english), (Locale::German, german)] {
        let graph = asking(&Log::default(), Signal::new("ok").approves("digest"));
        let (chat, told) = open(&graph, &TestStore::new(), locale);
        chat.session("s").send(user("m")).await;
        // The user's text is a new command, and no answer.
        chat.session("s").send(user("yes")).await;
        let wait = chat.session("s").pending().await.unwrap().remove(0).wait.clone();
        let answer = approve(true).to(wait.no, wait.action.unwrap());
        chat.answer(at("s", "ok"), answer).await.unwrap().outcome().await;
        let turn = chat.session("s").submit(user("n"), SendOptions::new()).await.unwrap();
        turn.outcome().await;
        chat.cancel(turn.id()).await.unwrap().outcome().await;
        assert_eq!(told.lines(), expected, "{locale}");
    }
}

// INV-14; spec: agent-chat-output §10: narration of before a restart is not made again.
#[tokio::test]
async fn narration_is_about_the_session_of_a_tenant_and_is_not_repeated() {
    let store = TestStore::new();
    let graph = plain(&Log::default());
    let (chat, told) = open(&graph, &store, Locale::English);
    chat.of(TenantId::parse("b").unwrap()).session("s").send(user("m")).await;
    chat.session("t").send(user("n")).await;
    let said = |whose: &str, text: &str| {
        [format!("{whose} user status: {text}"), format!("{whose} system status: Done.")]
    };
    assert_eq!(told.lines(), [said("b/s", "m"), said("default/t", "n")].concat());
    drop(chat);
    let (chat, told) = open(&graph, &store.reopen(), Locale::English);
    chat.sweep().await.unwrap();
    chat.session("t").send(user("o")).await;
    chat.session("t").fork(ForkOptions::new().session("u")).await.unwrap();
    let forked = "default/u system status: This conversation goes on from t.".to_owned();
    assert_eq!(told.lines(), [said("default/t", "o").as_slice(), &[forked]].concat());
}

// D25: the last thing that is heard of a deleted session is that it is forgotten; also when it is deleted again.
#[tokio::test]
async fn narration_goes_with_its_session() {
    let graph = asking(&Log::default(), Signal::new("ok"));
    let (chat, told) = open(&graph, &TestStore::new(), Locale::English);
    chat.session("s").send(user("m")).await;
    chat.session("t").send(user("m")).await;
    told.take();
    chat.session("s").delete(None).await.unwrap();
    let lines = told.take();
    assert_eq!(lines.last().unwrap(), "default/s forgotten");
    assert!(lines.iter().all(|it| it.starts_with("default/s ")), "{lines:?}");
    chat.session("s").delete(None).await.unwrap();
    assert_eq!(told.take().last().unwrap(), "default/s forgotten");
    chat.session("s").send(user("new")).await;
    assert_eq!(told.take()[0], "default/s user status: new");
}

/// A state that takes commands.
#[derive(Debug, State)]
#[state(engine = singletree_engine)]
struct Commanded {
    #[state(append)]
    messages: Messages,
    current_command: Option<String>,
}

/// A graph that says its current command, and why.
fn commanded() -> Graph<Commanded> {
    let node = |cx: Ctx<Commanded>| async move {
        let policy = TurnContext::of(&cx).unwrap().prompt_policy().map(|policy| policy.to_string());
        TurnContext::of(&cx).unwrap().narrator().unwrap().narrate_rationale("  Because.\n");
        TurnContext::of(&cx).unwrap().narrator().unwrap().narrate_rationale(" ");
        let said = json!([policy, cx.state().current_command]).to_string();
        Ok(Commanded::update().messages([ChatMessage::assistant(said)]))
    };
    Graph::builder().node("do", node).edge("do", singletree_engine::END).entry("do").compile().unwrap()
}

async fn last(chat: &Chat) -> Value {
    let history = chat.session("s").history(0..99).await.unwrap();
    serde_json::from_str(&history.last().unwrap().message.text()).unwrap()
}

// spec: agent-chat-output §8.2
#[tokio::test]
async fn a_command_stands_in_the_state_of_its_turn_and_a_conversation_has_none() {
    let told = Arc::new(Told::default());
    let open = |store: TestStore| {
        let agent = GraphAgent::new("a", &commanded());
        Chat::builder().agent(agent).narration(told.clone()).open(store).unwrap()
    };
    let store = TestStore::new();
    let chat = open(store.clone());
    let options = SendOptions::new().policy(TurnPromptPolicy::Command);
    chat.session("s").send_with(user("one"), options.clone()).await;
    assert_eq!(last(&chat).await, json!(["command", "one"]));
    let said = ["default/s user status: one", "default/s agent explanation: Because."];
    assert_eq!(told.take(), [said.as_slice(), &["default/s system status: Done."]].concat());
    // The session keeps its policy: also in the next process, whatever is said then.
    let chat = open(store.reopen());
    chat.session("s").send(user("two")).await;
    assert_eq!(last(&chat).await, json!(["command", "two"]));
    chat.session("s").delete(None).await.unwrap();
    chat.session("s").send(user("three")).await;
    chat.session("s").send_with(user("four"), options).await;
    assert_eq!(last(&chat).await, json!(["conversation", null]));
}

// INV-7's neighbour: an idempotency key stands for the policy, too (D3).
#[tokio::test]
async fn the_same_key_under_another_policy_is_another_message() {
    let chat = Chat::builder().agent(GraphAgent::new("a", &commanded())).open(TestStore::new()).unwrap();
    let key = || SendOptions::new().key("k");
    let command = || key().policy(TurnPromptPolicy::Command);
    let first = chat.session("s").send_with(user("one"), command()).await;
    assert_eq!(category(chat.session("s").send_with(user("one"), key()).await), "chat_idempotency_conflict");
    let again = chat.session("s").send_with(user("one"), command()).await;
    assert_eq!(again.turn_id(), first.turn_id());
}

#[tokio::test]
async fn an_agent_that_takes_no_commands_refuses_them_and_nothing_is_stored() {
    let (chat, told) = open(&plain(&Log::default()), &TestStore::new(), Locale::English);
    let options = SendOptions::new().policy(TurnPromptPolicy::Command);
    let ChatTurnOutcome::Errored(refused) = chat.session("s").send_with(user("m"), options).await else {
        panic!("it is refused")
    };
    assert_eq!((refused.error_category.as_str(), refused.turn), ("chat_policy_unsupported", None));
    assert!(refused.diagnostic.contains(COMMAND), "{}", refused.diagnostic);
    assert_eq!(history(&chat, "s").await, Vec::<String>::new());
    assert_eq!(chat.session("s").info().await.unwrap_err().category(), "chat_session_unknown");
    assert_eq!(told.lines(), Vec::<String>::new());
}

// INV-13, INV-8: which texts a model may see is not guessed, and nothing stays in limbo.
#[tokio::test]
async fn a_session_whose_policy_nobody_can_read_answers_nothing() {
    let store = TestStore::new();
    let chat = Chat::builder().agent(GraphAgent::new("a", &commanded())).open(store.clone()).unwrap();
    chat.session("s").send(user("one")).await;
    drop(chat);
    let head = store.read_session(&name("s")).await.unwrap().unwrap().head;
    let store = store.reopen();
    let mut batch = Batch::new(name("s"), store.acquire(&name("s")).await.unwrap().fence);
    batch.put(RowMutation::Head(SessionHead { prompt_policy: "later".into(), ..head }));
    store.apply(batch).await.unwrap();
    let chat = Chat::builder().agent(GraphAgent::new("a", &commanded())).open(store).unwrap();
    assert_eq!(category(chat.session("s").send(user("two")).await), "store_corrupt");
    assert_eq!(history(&chat, "s").await.len(), 2);
}
