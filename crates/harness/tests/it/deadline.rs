//! Deadlines by the clock on the wall: an answer that comes at its deadline comes too late, and a machine that was
//! suspended does not prolong one (D2, D37).

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use singletree_durable::Timestamp;
use singletree_engine::{Clock, Signal};
use singletree_harness::{Chat, SendOptions};
use singletree_test_store::TestStore;

use crate::bench::{Log, approve, asking, at, category, chat_of, check_rows, fields, history, line, user};
use crate::sky::Sky;

/// A clock that the test sets, and that no timer follows.
#[derive(Debug, Default)]
struct WallClock(AtomicI64);

impl WallClock {
    fn advance(&self, span: Duration) {
        self.0.fetch_add(i64::try_from(span.as_millis()).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for WallClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_000_000 + self.0.load(Ordering::SeqCst))
    }
}

const HOUR: Duration = Duration::from_secs(3600);

async fn waiting(signal: Signal) -> (Chat, Arc<WallClock>, TestStore) {
    let (clock, store) = (Arc::new(WallClock::default()), TestStore::new());
    let chat = chat_of(&asking(&Log::default(), signal)).clock(clock.clone()).open(store.clone()).unwrap();
    assert_eq!(line(&chat.session("s").send(user("m")).await), "suspended 3.1 ok [a:ask]");
    (chat, clock, store)
}

// D37: by the time that the transition records; nothing watches the deadlines here.
#[tokio::test(start_paused = true)]
async fn an_answer_at_its_deadline_is_refused_and_its_wait_expires() {
    for (late, taken) in [(HOUR - Duration::from_millis(1), true), (HOUR, false), (2 * HOUR, false)] {
        let (chat, clock, store) = waiting(Signal::new("ok").expires_in(HOUR)).await;
        clock.advance(late);
        let answered = chat.answer(at("s", "ok"), approve(true)).await;
        if taken {
            assert_eq!(line(answered.unwrap().outcome().await.as_ref()), "completed 3.3 [a:done]");
        } else {
            assert_eq!(answered.unwrap_err().category(), "chat_signal_expired");
            let closed = chat.session("s").last_turns(1).await.unwrap().remove(0);
            let outcome = chat.turn(&closed).await.unwrap().outcome().await;
            assert_eq!(category(outcome), "chat_signal_expired");
            assert_eq!(history(&chat, "s").await, ["u:m", "a:ask"]);
        }
        assert_eq!(chat.pending(9).await.unwrap(), []);
        check_rows(&store, "s").await;
        assert_eq!(line(&chat.session("s").send(user("n")).await), "suspended 3.2 ok [a:ask]");
    }
}

// D2, D37: the graph goes on with the values that the wait names for this case, not with the answer.
#[tokio::test(start_paused = true)]
async fn a_wait_that_expires_under_a_late_answer_goes_on_with_its_own_values() {
    let otherwise = fields(&[("approved", false.into())]);
    let (chat, clock, _) = waiting(Signal::new("ok").expires_in(HOUR).on_deadline(otherwise)).await;
    clock.advance(HOUR);
    let refused = chat.answer(at("s", "ok"), approve(true)).await.unwrap_err().into_errored_turn();
    assert_eq!(refused.error_category, "chat_signal_expired");
    let next = chat.session("s").submit(user("n"), SendOptions::new()).await.unwrap();
    assert_eq!(line(next.outcome().await.as_ref()), "suspended 3.2 ok [a:ask]");
    assert_eq!(history(&chat, "s").await, ["u:m", "a:ask", "a:not done", "u:n", "a:ask"]);
}

// D37: the machine is suspended for two hours; timers stand still meanwhile.
#[tokio::test(start_paused = true)]
async fn a_deadline_that_passes_while_the_machine_is_suspended_is_seen_within_a_minute() {
    let (clock, store) = (Arc::new(WallClock::default()), TestStore::new());
    let graph = asking(&Log::default(), Signal::new("ok").expires_in(HOUR));
    let chat = chat_of(&graph).clock(clock.clone()).open(store).unwrap();
    chat.sweep().await.unwrap();
    chat.session("s").send(user("m")).await;
    tokio::time::sleep(Duration::from_secs(90)).await;
    assert_eq!(chat.pending(9).await.unwrap().len(), 1);
    clock.advance(2 * HOUR);
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(chat.pending(9).await.unwrap(), []);
}

// The other process has died, or has given the session back: nothing tells this one of the wait.
#[tokio::test(start_paused = true)]
async fn a_deadline_of_another_process_is_seen_within_five_seconds() {
    let (clock, store) = (Arc::new(WallClock::default()), Sky::over_shared(TestStore::new()));
    let pass = async |seconds: u64| {
        clock.advance(Duration::from_secs(seconds));
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    };
    let graph = asking(&Log::default(), Signal::new("ok").expires_in(Duration::from_secs(30)));
    let survivor = chat_of(&graph).clock(clock.clone()).open(store.clone()).unwrap();
    survivor.sweep().await.unwrap();
    pass(1).await;
    let other = chat_of(&graph).clock(clock.clone()).open(store.clone()).unwrap();
    assert_eq!(line(&other.session("s").send(user("m")).await), "suspended 3.1 ok [a:ask]");
    drop(other);
    pass(29).await;
    assert_eq!(survivor.pending(9).await.unwrap().len(), 1);
    pass(6).await;
    assert_eq!(survivor.pending(9).await.unwrap(), []);
}
