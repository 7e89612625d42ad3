//! The environment that is given to a chat: its tasks and its waits go through it (INV-11).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use singletree_durable::BoxFuture;
use singletree_engine::{Ctx, Graph};
use singletree_env::{Env, InstantTimer, Spawner};
use singletree_harness::{Budget, Chat, Durability};
use singletree_test_store::TestStore;

use crate::bench::{Log, Talk, agent, category, chain, chat_of, line, plain, user};

/// Counts the tasks that it starts.
#[derive(Debug, Default)]
struct CountingSpawner(AtomicUsize);

impl Spawner for CountingSpawner {
    fn spawn_task(&self, task: BoxFuture<'static, ()>) {
        self.0.fetch_add(1, Ordering::SeqCst);
        drop(tokio::spawn(task));
    }
}

#[tokio::test]
async fn the_tasks_of_a_chat_are_started_by_its_spawner() {
    let spawner = Arc::new(CountingSpawner::default());
    let env = Env { spawner: spawner.clone(), ..Env::from_system() };
    let chat = chat_of(&plain(&Log::default())).env(env).open(TestStore::new()).unwrap();
    assert_eq!(line(&chat.session("s").send(user("m")).await), "completed 3.1 [a:hello]");
    assert!(spawner.0.load(Ordering::SeqCst) > 0);
}

// The time limit of the turn is an hour, and the timer lets it pass at once.
#[tokio::test]
async fn the_time_of_a_turn_is_that_of_its_timer() {
    let graph: Graph<Talk> = chain(Graph::builder().node("n", |_: Ctx<Talk>| std::future::pending()), &["n"]);
    let env = Env { timer: Arc::new(InstantTimer), ..Env::from_system() };
    let budget = Budget { turn_time: Some(Duration::from_hours(1)), ..Budget::default() };
    let chat = Chat::builder()
        .agent(agent(&graph, Durability::Step).budget(budget))
        .env(env)
        .open(TestStore::in_memory("its timer lets all time pass while a write is on its way"))
        .unwrap();
    assert_eq!(category(&chat.session("s").send(user("m")).await), "chat_budget_exhausted");
}
