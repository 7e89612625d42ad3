//! Tokens by model, of turns, sessions and tenants (INV-3).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use singletree_durable::TenantId;
use singletree_engine::{Ctx, END, Graph, NodeError, Signal, Target};
use singletree_harness::{Chat, Durability, ForkOptions, ModelTokenUsage, Retention, TurnContext};
use singletree_llm::TokenUsage;
use singletree_store_testing::FailedWriteEffect;
use singletree_test_store::TestStore;

use crate::bench::{Door, Talk, agent, approve, at, category, chain, chat_of, says, user};
use crate::dying::{Ground, Kind};
use crate::sky::Sky;

/// Counts the calls that nodes made of models.
type Calls = Arc<AtomicU64>;

/// Reports one call of ten tokens and one, and says something.
fn asks(cx: &Ctx<Talk>, model: &str, calls: &Calls) -> Result<(), NodeError> {
    calls.fetch_add(1, Ordering::SeqCst);
    let usage = TokenUsage { prompt_tokens: Some(10), completion_tokens: Some(1), ..TokenUsage::default() };
    let turn = TurnContext::of(cx).unwrap();
    let budget = turn.budget();
    budget
        .count_model_call(model, &usage)
        .map_err(|it| NodeError::new(it.to_string()).with_category(it.category()))
}

/// Asks one model, then waits, then asks that and another one; the user's text decides where it fails or stands.
fn graph(calls: &Calls, door: &Door) -> Graph<Talk> {
    let (first, second, door) = (calls.clone(), calls.clone(), door.clone());
    let builder = Graph::builder().node("ask", move |cx: Ctx<Talk>| {
        let (calls, door) = (first.clone(), door.clone());
        async move {
            asks(&cx, "small", &calls)?;
            let said = cx.state().messages.last().map(|it| it.text().into_owned()).unwrap_or_default();
            match said.as_str() {
                "fail" => return Err(NodeError::new("it broke")),
                "stand" => door.pass().await,
                _ => {}
            }
            Ok(says("asked"))
        }
    });
    let builder = builder.node("gate", |cx: Ctx<Talk>| async move { cx.suspend(Signal::new("ok")).await });
    let builder = builder.node("act", move |cx: Ctx<Talk>| {
        let calls = second.clone();
        async move {
            asks(&cx, "small", &calls)?;
            asks(&cx, "large", &calls)?;
            Ok(says("done"))
        }
    });
    chain(builder, &["ask", "gate", "act"])
}

fn lines(usage: &[ModelTokenUsage]) -> Vec<String> {
    usage
        .iter()
        .map(|it| format!("{} {}: {}+{}", it.model, it.calls, it.prompt_tokens, it.completion_tokens))
        .collect()
}

/// Returns the usage of each turn of a session, in order.
async fn turns(chat: &Chat, session: &str) -> Vec<Vec<String>> {
    let page = chat.session(session).turns(0, 100).await.unwrap();
    page.items.iter().map(|it| lines(&it.usage)).collect()
}

#[tokio::test]
async fn every_end_of_a_turn_tells_what_it_used() {
    for durability in [Durability::Turn, Durability::Step] {
        let (calls, door) = (Calls::default(), Door::shut());
        let chat =
            Chat::builder().agent(agent(&graph(&calls, &door), durability)).open(TestStore::new()).unwrap();
        assert_eq!(category(chat.session("s").send(user("fail")).await), "node_exception");
        let standing = chat.session("s").submit(user("stand"), Default::default()).await.unwrap();
        door.somebody().await;
        assert_eq!(turns(&chat, "s").await[1], Vec::<String>::new(), "it has not ended");
        chat.cancel(standing.id()).await.unwrap();
        assert_eq!(category(standing.outcome().await), "chat_turn_cancelled");
        assert_eq!(category(chat.session("s").send(user("m")).await), "suspended");
        let resumed = chat.answer(at("s", "ok"), approve(true)).await.unwrap();
        assert_eq!(category(resumed.outcome().await), "completed");
        let small = vec!["small 1: 10+1".to_owned()];
        let both = vec!["large 1: 10+1".to_owned(), "small 1: 10+1".to_owned()];
        assert_eq!(turns(&chat, "s").await, [small.clone(), small.clone(), small, both]);
        assert_eq!(lines(&chat.session("s").usage().await.unwrap()), ["large 1: 10+1", "small 4: 40+4"]);
        assert_eq!(calls.load(Ordering::SeqCst), 5);
    }
}

#[tokio::test]
async fn a_wait_that_is_given_up_uses_nothing_and_a_turn_without_a_model_tells_nothing() {
    let (calls, door) = (Calls::default(), Door::shut());
    let chat = chat_of(&graph(&calls, &door)).open(TestStore::new()).unwrap();
    let turn = chat.session("s").submit(user("m"), Default::default()).await.unwrap();
    turn.outcome().await;
    let closing = chat.cancel(turn.id()).await.unwrap();
    assert_eq!(category(closing.outcome().await), "chat_turn_cancelled");
    assert_eq!(turns(&chat, "s").await, [vec!["small 1: 10+1".to_owned()], vec![]]);
    let quiet = Graph::<Talk>::builder().node("n", |_: Ctx<Talk>| async { Ok(says("x")) });
    let quiet = quiet.edge("n", Target::from(END)).entry("n").compile().unwrap();
    let chat = chat_of(&quiet).open(TestStore::new()).unwrap();
    chat.session("s").send(user("m")).await;
    assert_eq!(
        (chat.session("s").usage().await.unwrap(), chat.usage_of_tenant().await.unwrap()),
        (vec![], vec![])
    );
}

// INV-14
#[tokio::test]
async fn sums_outlive_records_and_sessions_and_are_a_tenants_own() {
    let (calls, door) = (Calls::default(), Door::shut());
    let house = chat_of(&graph(&calls, &door)).open(TestStore::new()).unwrap();
    let a = house.of(TenantId::parse("a").unwrap());
    for session in ["s", "t"] {
        for _ in 0..3 {
            a.session(session).send(user("fail")).await;
        }
    }
    a.retain(&Retention { turns: Some(1), ..Retention::default() }).await.unwrap();
    assert_eq!(turns(&a, "s").await.len(), 1);
    assert_eq!(lines(&a.session("s").usage().await.unwrap()), ["small 3: 30+3"]);
    a.session("s").fork(ForkOptions::new().session("fork")).await.unwrap();
    assert_eq!(a.session("fork").usage().await.unwrap(), []);
    a.session("s").delete(None).await.unwrap();
    assert_eq!(a.session("s").usage().await.unwrap_err().category(), "chat_session_unknown");
    assert_eq!(lines(&a.usage_of_tenant().await.unwrap()), ["small 6: 60+6"]);
    assert_eq!(house.usage_of_tenant().await.unwrap(), []);
    assert_eq!(house.session("t").usage().await.unwrap_err().category(), "chat_session_unknown");
    a.session("s").send(user("fail")).await;
    assert_eq!(lines(&a.session("s").usage().await.unwrap()), ["small 1: 10+1"]);
    assert_eq!(lines(&a.usage_of_tenant().await.unwrap()), ["small 7: 70+7"]);
}

// D20
#[tokio::test(start_paused = true)]
async fn what_a_turn_used_whose_end_could_not_be_recorded_at_once_is_told_when_it_is() {
    let (calls, door) = (Calls::default(), Door::shut());
    let sky = Sky::over(TestStore::new());
    let agent = agent(&graph(&calls, &door), Durability::Turn);
    let chat = Chat::builder().agent(agent).open(sky.clone()).unwrap();
    sky.fail(2, 1000, FailedWriteEffect::Before);
    let turn = chat.session("s").submit(user("fail"), Default::default()).await.unwrap();
    assert_eq!(category(turn.outcome().await), "session_save_failed");
    sky.clear();
    assert_eq!(category(chat.session("s").send(user("fail")).await), "node_exception");
    // The end that it had come to is kept (D38).
    assert_eq!(category(turn.outcome().await), "node_exception");
    let one = || vec!["small 1: 10+1".to_owned()];
    assert_eq!(turns(&chat, "s").await, [one(), one()]);
    assert_eq!(lines(&chat.session("s").usage().await.unwrap()), ["small 2: 20+2"]);
}

/// Talks until the turn that was accepted has ended, whichever process does it.
async fn talk(chat: &Chat) {
    chat.session("s").send(user("m")).await;
    if let Ok(turn) = chat.answer(at("s", "ok"), approve(true)).await {
        turn.outcome().await;
    }
}

// INV-3: a turn's usage is counted once, in the commit that tells how the turn ended, wherever processes die.
#[tokio::test]
async fn wherever_a_process_dies_the_sums_are_those_of_the_turns_and_no_call_is_counted_twice() {
    for (kind, durability) in
        [(Kind::Memory, Durability::Turn), (Kind::Memory, Durability::Step), (Kind::File, Durability::Step)]
    {
        for land in [FailedWriteEffect::Before, FailedWriteEffect::After] {
            for n in 1.. {
                let (calls, door) = (Calls::default(), Door::shut());
                let build = || Chat::builder().agent(agent(&graph(&calls, &door), durability));
                let ground = Ground::new(kind).await;
                let died = ground.dies(build(), (n, land), talk).await;
                let ground = ground.reopen().await;
                let chat = ground.open(build());
                for turn in chat.sweep().await.unwrap() {
                    turn.outcome().await;
                }
                talk(&chat).await;
                let sums = chat.session("s").usage().await.unwrap();
                let at = format!("{kind:?} {durability:?} write {n} {land:?}: {sums:?}");
                assert_eq!(sums, chat.usage_of_tenant().await.unwrap(), "{at}");
                let page = chat.session("s").turns(0, 100).await.unwrap();
                for sum in &sums {
                    let own = page.items.iter().flat_map(|it| &it.usage).filter(|it| it.model == sum.model);
                    assert_eq!(own.map(|it| it.calls).sum::<u64>(), sum.calls, "{at}");
                }
                let (counted, made) =
                    (sums.iter().map(|it| it.calls).sum::<u64>(), calls.load(Ordering::SeqCst));
                // A node that was running when its process died may have made calls that nobody knows of.
                assert!(counted <= made && made <= counted + 2, "{at}: {made} calls were made");
                if durability == Durability::Step && !died {
                    assert_eq!(counted, made, "{at}");
                }
                if !died {
                    break;
                }
            }
        }
    }
}
