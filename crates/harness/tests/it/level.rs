//! The cost of a turn: two commits at level turn, and the same bytes however long the history is (INV-4).

use std::sync::Arc;
use std::time::Duration;

use singletree_durable::{FieldValue, Journal, Timestamp};
use singletree_engine::{Ctx, Graph};
use singletree_env::{Clock, Env, MonotonicClock};
use singletree_harness::{Chat, Durability};
use singletree_store_sqlite::SqliteStore;
use singletree_test_store::TestStore;

use crate::bench::{Log, Talk, agent, chain, chat_of, name, plain, say, says, user};
use crate::sky::Sky;

/// Clocks that stand still: stored times and spans have the same length in every turn, however long it takes.
#[derive(Debug)]
struct StoppedClock;

impl Clock for StoppedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000)
    }
}

impl MonotonicClock for StoppedClock {
    fn elapsed_since_origin(&self) -> Duration {
        Duration::ZERO
    }
}

#[tokio::test]
async fn a_plain_turn_is_two_commits_and_a_step_one_more() {
    for (durability, expected) in [(Durability::Turn, 2), (Durability::Step, 3)] {
        let log = Log::default();
        let graph = chain(say(say(Graph::builder(), &log, "one"), &log, "two"), &["one", "two"]);
        let sky = Sky::over(TestStore::new());
        let chat = Chat::builder().agent(agent(&graph, durability)).open(sky.clone()).unwrap();
        for _ in 0..3 {
            let before = sky.applies();
            chat.session("s").send(user("m")).await;
            assert_eq!(sky.applies() - before, expected, "{durability:?}");
        }
    }
}

// INV-4
#[tokio::test]
async fn a_turn_writes_the_same_bytes_at_any_length_of_history() {
    for durability in [Durability::Turn, Durability::Step] {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteStore::options(folder.path().join("s.db"));
        let store =
            options.durability(singletree_store_sqlite::CommitDurability::Normal).open().await.unwrap();
        let log = Log::default();
        let env =
            Env { clock: Arc::new(StoppedClock), monotonic: Arc::new(StoppedClock), ..Env::from_system() };
        // Its records have times of the graph.
        let builder = Graph::builder().env(env.clone());
        let graph = chain(say(say(builder, &log, "one"), &log, "two"), &["one", "two"]);
        let chat = Chat::builder().agent(agent(&graph, durability)).env(env).open(store.clone()).unwrap();
        let mut bytes = Vec::new();
        for n in 0..200 {
            let before = store.bytes_written();
            chat.session("s").send(user(&format!("{n:0200}"))).await;
            bytes.push(store.bytes_written() - before);
        }
        assert!(bytes[199] * 100 <= bytes[9] * 102, "{durability:?}: {} and {}", bytes[9], bytes[199]);
        // The first turn makes the session; its messages are written once all the same.
        assert!(bytes[0] <= bytes[9] + 300, "{durability:?}: {} and {}", bytes[0], bytes[9]);
    }
}

#[tokio::test]
async fn a_value_is_written_only_when_it_changes() {
    let builder = Graph::builder().node("n", |cx: Ctx<Talk>| async move {
        let update = says("x");
        let long = cx.state().messages.len() > 4;
        Ok(if long { update.words(vec!["late".to_owned()]) } else { update })
    });
    let store = TestStore::new();
    let chat = chat_of(&chain(builder, &["n"])).open(store.clone()).unwrap();
    let field = |field: &'static str| {
        let store = store.clone();
        async move {
            let row = store.read_session(&name("s")).await.unwrap().unwrap();
            row.fields.into_iter().find(|it| it.name == field).map(|it| it.value)
        }
    };
    for len in [2, 4] {
        chat.session("s").send(user("m")).await;
        // {"role":"user","content":"m"} and {"role":"assistant","content":"x"}
        let bytes = len / 2 * (29 + 34);
        assert_eq!(field("messages").await, Some(FieldValue::List { generation: 0, len, bytes }));
        assert_eq!(
            field("words").await,
            Some(FieldValue::Value(singletree_durable::JsonDocument::from_text("[]")))
        );
    }
    chat.session("s").send(user("m")).await;
    let late = singletree_durable::JsonDocument::from_text("[\"late\"]");
    assert_eq!(field("words").await, Some(FieldValue::Value(late)));
    assert_eq!(plain(&Log::default()).warnings().len(), 0);
}
