//! A process that stood still, and whose session another one has taken over meanwhile: it runs nothing more of its turn.

use std::sync::Arc;
use std::time::Duration;

use singletree_engine::Graph;
use singletree_env::{Env, FaultPoints};
use singletree_harness::{Chat, Durability, SendOptions};
use singletree_test_store::TestStore;

use crate::bench::{Door, Log, agent, category, chain, chat_of, door_node, history, line, plain, say, user};
use crate::doctor::sound;
use crate::lease::{PausedAt, SharedStore};

/// Whoever stands still before a turn, and loses its session meanwhile, calls no model. Found by the simulation (seed 108888
/// with three processes).
pub(crate) async fn check_turn_lost_before_it_runs(store: &TestStore) {
    let (here, there) = (Log::default(), Log::default());
    let faults = FaultPoints::with_injector(Arc::new(PausedAt("turn_begins")));
    let env = Env { faults, rng: Arc::new(PausedAt("")), ..Env::from_system() };
    let one = chat_of(&plain(&here)).env(env).open(SharedStore(store.open_beside())).unwrap();
    let lost = one.session("t").submit(user("m"), SendOptions::new()).await.unwrap();
    let two = chat_of(&plain(&there)).open(SharedStore(store.open_beside())).unwrap();
    assert_eq!(line(&two.session("t").send(user("n")).await), "completed 3.2 [a:hello]");
    assert_eq!(line(lost.outcome().await.as_ref()), "completed 3.1 [a:hello]", "it is followed in the store");
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(line(&two.session("t").send(user("o")).await), "completed 3.2 [a:hello]");
    assert_eq!((here.all().len(), there.all().len()), (0, 3));
    sound(store).await;
}

/// Whoever stands still in a node, and loses its session meanwhile, begins no other node, also of a run that commits nothing in
/// between.
pub(crate) async fn check_run_lost_between_nodes(store: &TestStore) {
    let open = |door: &Door, log: &Log| {
        let builder = say(door_node(Graph::builder(), door), log, "last");
        let graph = chain(builder, &["n", "last"]);
        let chat = Chat::builder().agent(agent(&graph, Durability::Turn));
        chat.open(SharedStore(store.open_beside())).unwrap()
    };
    let (door, here, there) = (Door::shut(), Log::default(), Log::default());
    let one = open(&door, &here);
    let running = one.session("u").submit(user("m"), SendOptions::new()).await.unwrap();
    door.somebody().await;
    let opened = Door::shut();
    opened.open();
    let two = open(&opened, &there);
    assert_eq!(category(Arc::new(two.session("u").send(user("n")).await)), "completed");
    door.open();
    assert_eq!(category(running.outcome().await), "completed", "it is followed in the store");
    assert_eq!((here.all().len(), there.all().len()), (0, 2));
    assert_eq!(history(&two, "u").await.len(), 6);
    sound(store).await;
}
