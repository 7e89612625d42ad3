//! A store that other processes write, too, is a database of its own: while it is restarted, runs wait for it (D38).

use std::time::Duration;

use singletree_engine::{Ctx, Graph, Item};
use singletree_harness::{Chat, ChatTurnOutcome, Durability, SendOptions, Turn};
use singletree_store_testing::FailedWriteEffect;
use singletree_test_store::TestStore;

use crate::bench::{
    Door, Log, Talk, agent, category, chain, check_rows, door_node, history, say, says, user,
};
use crate::doctor::sound;
use crate::sky::Sky;

/// How long the store is away: less than anybody gives it up.
const SHORT: Duration = Duration::from_secs(40);

/// A graph whose second node waits at a door.
fn three_nodes(door: &Door, log: &Log) -> Graph<Talk> {
    let builder = say(Graph::builder(), log, "first");
    let builder = door_node(builder, door);
    chain(say(builder, log, "last"), &["first", "n", "last"])
}

struct Rig {
    sky: Sky,
    door: Door,
    log: Log,
    chat: Chat,
}

impl Rig {
    fn new(durability: Durability, sky: fn(TestStore) -> Sky) -> Self {
        let (sky, door, log) = (sky(TestStore::new()), Door::shut(), Log::default());
        let graph = three_nodes(&door, &log);
        let chat = Chat::builder().agent(agent(&graph, durability)).open(sky.clone()).unwrap();
        Self { sky, door, log, chat }
    }

    /// Sends a message whose turn is at the door.
    async fn send(&self) -> Turn {
        let turn = self.chat.session("s").submit(user("m"), SendOptions::new()).await.unwrap();
        self.door.somebody().await;
        turn
    }

    /// Lets the store go away for a while.
    fn fall_for(&self, time: Duration) {
        self.sky.fall();
        let sky = self.sky.clone();
        tokio::spawn(async move {
            tokio::time::sleep(time).await;
            sky.clear();
        });
    }

    async fn check(&self) {
        check_rows(&self.sky, "s").await;
        sound(&self.sky.store).await;
    }
}

// Each commit of a run waits: nothing is run again, and no result is lost.
#[tokio::test(start_paused = true)]
async fn a_run_waits_for_a_store_that_is_away_with_each_of_its_commits() {
    for durability in [Durability::Step, Durability::Turn] {
        let rig = Rig::new(durability, Sky::over_shared);
        let turn = rig.send().await;
        rig.fall_for(SHORT);
        rig.door.open();
        assert_eq!(category(turn.outcome().await.as_ref()), "completed", "{durability:?}");
        assert_eq!(rig.log.all(), ["first", "last"], "{durability:?}");
        assert_eq!(history(&rig.chat, "s").await, ["u:m", "a:first", "a:so", "a:last"]);
        rig.check().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_begins_while_the_store_is_away_runs_when_it_is_back() {
    let rig = Rig::new(Durability::Turn, Sky::over_shared);
    let first = rig.send().await;
    let second = rig.chat.session("s").submit(user("n"), SendOptions::new()).await.unwrap();
    rig.fall_for(SHORT);
    rig.door.open();
    assert_eq!(category(first.outcome().await.as_ref()), "completed");
    assert_eq!(category(second.outcome().await.as_ref()), "completed");
    rig.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_message_that_comes_while_the_store_is_away_is_refused_as_one_to_send_again() {
    for (sky, expected) in
        [(Sky::over_shared as fn(TestStore) -> Sky, "store_unavailable"), (Sky::over, "session_load_failed")]
    {
        let rig = Rig::new(Durability::Turn, sky);
        rig.fall_for(SHORT);
        let refused = rig.chat.session("s").submit(user("m"), SendOptions::new()).await.unwrap_err();
        assert_eq!(refused.category(), expected);
        tokio::time::sleep(SHORT).await;
        rig.door.open();
        assert_eq!(category(&rig.chat.session("s").send(user("m")).await), "completed");
    }
}

// The rows of a commit whose reply was lost are removed with its turn. Found by the simulation (seed 50803 with three processes).
#[tokio::test(start_paused = true)]
async fn a_record_whose_reply_was_lost_does_not_outlive_its_turn() {
    let (sky, door) = (Sky::over_shared(TestStore::new()), Door::shut());
    let inside = door.clone();
    let builder = Graph::builder().node("n", move |cx: Ctx<Talk>| {
        let door = inside.clone();
        async move {
            door.pass().await;
            cx.record("fact", Item::from_json(serde_json::json!(1))).await?;
            Ok(says("so"))
        }
    });
    let graph = chain(builder, &["n"]);
    let chat = Chat::builder().agent(agent(&graph, Durability::Step)).open(sky.clone()).unwrap();
    let turn = chat.session("s").submit(user("m"), SendOptions::new()).await.unwrap();
    door.somebody().await;
    sky.fail(1, 1, FailedWriteEffect::After);
    sky.hold();
    door.open();
    sky.holds(1).await;
    // Between the write whose reply is lost and the next attempt.
    sky.release();
    chat.cancel(turn.id()).await.unwrap();
    assert_eq!(category(turn.outcome().await.as_ref()), "chat_turn_cancelled");
    check_rows(&sky, "s").await;
    sound(&sky.store).await;
}

// D20: nobody waits for ever, and the end is recorded all the same.
#[tokio::test(start_paused = true)]
async fn who_waits_for_a_turn_is_told_after_a_minute_that_its_end_is_not_recorded() {
    let rig = Rig::new(Durability::Turn, Sky::over_shared);
    let turn = rig.send().await;
    rig.fall_for(3 * SHORT);
    let began = tokio::time::Instant::now();
    rig.door.open();
    let told = turn.outcome().await;
    let ChatTurnOutcome::Errored(errored) = told.as_ref() else { panic!("{told:?}") };
    assert_eq!((errored.error_category.as_str(), errored.recorded), ("session_save_failed", false));
    let waited = began.elapsed();
    assert!(waited > SHORT && waited < 2 * SHORT, "{waited:?}");
    tokio::time::sleep(2 * SHORT).await;
    assert_eq!(category(rig.chat.turn(turn.id()).await.unwrap().outcome().await.as_ref()), "completed");
    rig.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_store_of_this_process_alone_is_not_waited_for() {
    let rig = Rig::new(Durability::Step, Sky::over);
    let turn = rig.send().await;
    let began = tokio::time::Instant::now();
    rig.fall_for(SHORT);
    rig.door.open();
    assert_eq!(category(turn.outcome().await.as_ref()), "session_save_failed");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}
