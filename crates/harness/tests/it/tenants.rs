//! One chat with several tenants (INV-14).

use std::fmt::Debug;
use std::time::Duration;

use futures_util::StreamExt;
use singletree_durable::TenantId;
use singletree_engine::Signal;
use singletree_harness::{
    Chat, ForkOptions, MessageAddress, MessageId, Retention, SignalAddress, StoreDoctor, Turn, TurnId,
};
use singletree_test_store::TestStore;

use crate::bench::{
    Door, Log, TokioClock, approve, asking, at, category, chain, chat_of, history, plain, say, says, user,
};

fn tenant(name: &str) -> TenantId {
    TenantId::parse(name).unwrap()
}

/// The answer of a call, without the ids that the caller gave itself.
fn told<T: Debug, E: Debug>(answer: Result<T, E>, ids: &[&str]) -> String {
    let told = format!("{answer:?}");
    ids.iter().fold(told, |told, id| told.replace(id, "ID"))
}

fn turn_told<E: Debug>(answer: Result<Turn, E>, ids: &[&str]) -> String {
    told(answer.map(|it| it.id().clone()), ids)
}

/// Makes every call about a session and a turn of it, and returns the answer of each.
async fn every_call(chat: &Chat, session: &str, turn: &TurnId) -> Vec<String> {
    let invocation = turn.invocation.to_string();
    let ids = [session, invocation.as_str()];
    let message = || MessageAddress::from(MessageId { turn: turn.clone(), k: 0 });
    let fresh = || ForkOptions::new().session("fresh");
    let by_invocation = SignalAddress::Invocation(turn.invocation.clone());
    let events = match chat.session(session).events().stream().await {
        Ok(events) => {
            let mut events = Box::pin(events);
            let waiting = events.next();
            // A session that is not there is listened to: it may come.
            format!("{:?}", tokio::time::timeout(Duration::from_millis(1), waiting).await.ok())
        }
        Err(error) => format!("{error:?}"),
    };
    vec![
        told(chat.session(session).info().await, &ids),
        told(chat.session(session).history(0..9).await, &ids),
        told(chat.session(session).value("count").await, &ids),
        told(chat.session(session).export().await, &ids),
        told(chat.session(session).last_turns(9).await, &ids),
        told(chat.session(session).pending().await, &ids),
        told(chat.pending(9).await, &ids),
        told(chat.sessions(None, 9).await, &ids),
        told(chat.session(session).mailbox().await, &ids),
        told(chat.timeline(turn).await, &ids),
        turn_told(chat.turn(turn).await, &ids),
        turn_told(chat.cancel(turn).await, &ids),
        turn_told(chat.answer(at(session, "ok"), approve(true)).await, &ids),
        turn_told(chat.answer(by_invocation, approve(true)).await, &ids),
        turn_told(chat.answer(SignalAddress::Signal("ok".into()), approve(true)).await, &ids),
        told(chat.session(session).fork(fresh()).await, &ids),
        turn_told(chat.session(session).edit_into("fresh", message(), user("x")).await, &ids),
        turn_told(chat.session(session).regenerate_into("fresh", Some(message())).await, &ids),
        told(chat.session(session).transcript(0, 9).await, &ids),
        told(chat.session(session).turns(0, 9).await, &ids),
        told(chat.session(session).turn_info(turn).await, &ids),
        told(chat.recent_sessions(None, 9).await, &ids),
        told(chat.session(session).usage().await, &ids),
        told(chat.session(session).delete(None).await, &ids),
        events,
    ]
}

// INV-14
#[tokio::test(start_paused = true)]
async fn what_another_tenant_has_is_answered_as_what_is_not_there() {
    let graph = asking(&Log::default(), Signal::new("ok"));
    let house = chat_of(&graph).open(TestStore::new()).unwrap();
    let (a, b) = (house.of(tenant("a")), house.of(tenant("b")));
    let turn = b.session("theirs").submit(user("m"), Default::default()).await.unwrap();
    assert_eq!(category(turn.outcome().await), "suspended");
    let unknown = TurnId::new(singletree_durable::InvocationId::parse("none").unwrap(), 0);

    let foreign = every_call(&a, "theirs", turn.id()).await;
    assert_eq!(foreign, every_call(&a, "nobodys", &unknown).await);
    // The comparison means something: the owner is told something else by each call that has anything to tell.
    let own = every_call(&b, "theirs", turn.id()).await;
    let alike: Vec<usize> = (0..own.len()).filter(|it| own[*it] == foreign[*it]).collect();
    // No early signal came, a signal that is answered by its name alone was cancelled before, and a deletion says
    // nothing.
    assert_eq!(alike, [8, 14, 23], "{own:#?}");
}

// INV-14
#[tokio::test]
async fn one_name_in_two_tenants_is_two_sessions() {
    let house = chat_of(&plain(&Log::default())).open(TestStore::new()).unwrap();
    let (a, b) = (house.of(tenant("a")), house.of(tenant("b")));
    a.session("s").send(user("from a")).await;
    b.session("s").send(user("from b")).await;
    b.session("s").send(user("again")).await;
    assert_eq!(history(&a, "s").await, ["u:from a", "a:hello"]);
    assert_eq!(history(&b, "s").await, ["u:from b", "a:hello", "u:again", "a:hello"]);
    assert_eq!(history(&house, "s").await, Vec::<String>::new());
    let named = |it: singletree_harness::SessionListing| {
        it.items.into_iter().map(|it| it.messages).collect::<Vec<_>>()
    };
    assert_eq!(named(a.sessions(None, 9).await.unwrap()), [2]);
    assert_eq!(named(b.sessions(None, 9).await.unwrap()), [4]);
    // A key of one says nothing to the other.
    let key = || crate::bench::key("k");
    let (one, two) = (
        a.session("s").submit(user("x"), key()).await.unwrap(),
        b.session("s").submit(user("y"), key()).await.unwrap(),
    );
    assert_ne!(one.id(), two.id());
    assert_eq!(a.cancel(two.id()).await.unwrap_err().category(), "chat_turn_unknown");
    assert_eq!(category(two.outcome().await), "completed");
}

// INV-2, INV-14
#[tokio::test]
async fn a_sweep_takes_over_what_all_tenants_left_or_only_the_one_it_is_bound_to() {
    let (store, door) = (TestStore::new(), Door::shut());
    let at_door = door.clone();
    let builder = singletree_engine::Graph::builder().node("n", move |_| {
        let door = at_door.clone();
        async move {
            door.pass().await;
            Ok(says("x"))
        }
    });
    let graph = chain(builder, &["n"]);
    let house = chat_of(&graph).open(store.clone()).unwrap();
    for name in ["a", "b", "c"] {
        house.of(tenant(name)).session("s").submit(user("m"), Default::default()).await.unwrap();
    }
    let store = store.reopen();
    let bound = chat_of(&graph).tenant(tenant("b")).open(store.clone()).unwrap();
    assert_eq!(bound.sweep().await.unwrap().len(), 1);
    let store = store.reopen();
    door.open();
    let house = chat_of(&graph).open(store).unwrap();
    let swept = house.sweep().await.unwrap();
    assert_eq!(swept.len(), 3);
    for turn in swept {
        assert_eq!(category(turn.outcome().await), "completed");
        // Its events are read in its own tenant's log.
        let events: Vec<_> = turn.events().map(Result::unwrap).collect().await;
        let last = events.last().and_then(|it| it.what.outcome().cloned());
        assert_eq!(last.map(category), Some("completed".to_owned()));
    }
    for name in ["a", "b", "c"] {
        assert_eq!(history(&house.of(tenant(name)), "s").await, ["u:m", "a:x"]);
    }
}

// INV-7, INV-14
#[tokio::test(start_paused = true)]
async fn deadlines_of_all_tenants_end_their_waits_and_a_bound_chat_leaves_others_alone() {
    let clock = TokioClock::new();
    let signal = Signal::new("ok").expires_in(Duration::from_secs(60));
    let graph = asking(&Log::default(), signal);
    let store = TestStore::new();
    let house = chat_of(&graph).clock(clock.clone()).open(store.clone()).unwrap();
    for name in ["a", "b"] {
        assert_eq!(category(house.of(tenant(name)).session("s").send(user("m")).await), "suspended");
    }
    house.shutdown(Duration::from_secs(1)).await;
    let pending = async |chat: &Chat, name| chat.of(tenant(name)).pending(9).await.unwrap().len();

    let store = store.reopen();
    let bound = chat_of(&graph).clock(clock.clone()).tenant(tenant("a")).open(store.clone()).unwrap();
    bound.sweep().await.unwrap();
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(pending(&bound, "a").await, 0);
    bound.shutdown(Duration::from_secs(1)).await;

    let house = chat_of(&graph).clock(clock).open(store.reopen()).unwrap();
    assert_eq!(pending(&house, "b").await, 1);
    house.sweep().await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(pending(&house, "b").await, 0);
}

// INV-12, INV-14
#[tokio::test]
async fn retention_reaches_every_tenant_that_the_chat_serves() {
    let store = TestStore::new();
    let graph = chain(say(singletree_engine::Graph::builder(), &Log::default(), "x"), &["x"]);
    let house = chat_of(&graph).open(store.clone()).unwrap();
    for name in ["a", "b", "c"] {
        let part = house.of(tenant(name));
        for _ in 0..3 {
            assert_eq!(category(part.session("s").send(user("m")).await), "completed");
        }
    }
    let bound = chat_of(&graph).tenant(tenant("b")).open(store.clone()).unwrap();
    let one = Retention { turns: Some(1), ..Retention::default() };
    let kept = async |name| house.of(tenant(name)).session("s").last_turns(9).await.unwrap().len();
    assert_eq!(bound.retain(&one).await.unwrap().turns, 2);
    assert_eq!((kept("a").await, kept("b").await, kept("c").await), (3, 1, 3));
    assert_eq!(house.retain(&one).await.unwrap().turns, 4);
    assert_eq!((kept("a").await, kept("b").await, kept("c").await), (1, 1, 1));
    let doctor = StoreDoctor::new(std::sync::Arc::new(store.clone()), std::sync::Arc::new(store));
    assert_eq!(doctor.examine().await.unwrap().sessions, 3);
    assert_eq!(doctor.tenant(tenant("b")).examine().await.unwrap().sessions, 1);
}

// INV-14
#[tokio::test]
async fn a_chat_that_is_bound_to_a_tenant_refuses_every_other() {
    let graph = plain(&Log::default());
    let store = TestStore::new();
    let bound = chat_of(&graph).tenant(tenant("a")).open(store.clone()).unwrap();
    assert_eq!(category(bound.session("s").send(user("m")).await), "completed");
    assert_eq!(category(bound.of(tenant("a")).session("s").send(user("m")).await), "completed");
    let other = bound.of(tenant("b"));
    assert_eq!(category(other.session("s").send(user("m")).await), "chat_tenant_foreign");
    assert_eq!(other.sessions(None, 9).await.unwrap_err().category(), "chat_tenant_foreign");
    assert_eq!(other.pending(9).await.unwrap_err().category(), "chat_tenant_foreign");
    assert_eq!(other.session("s").info().await.unwrap_err().category(), "chat_tenant_foreign");
    let unbound = chat_of(&graph).open(store).unwrap();
    assert_eq!(unbound.of(tenant("b")).sessions(None, 9).await.unwrap().items, []);
}
