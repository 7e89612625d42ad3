//! Processes read each other's commits.

use std::collections::BTreeSet;

use singletree_durable::{
    BatchPrecondition, ChangeFollower, CommittedChange, CreatedSession, EventRow, Journal, RowMutation,
    TenantId, Timestamp,
};

use crate::ownership::{fence, head_batch, key};
use crate::server::{Server, open};

fn event(seq: u64) -> EventRow {
    let at = Timestamp::from_millis(1);
    EventRow { seq, turn: 1, kind: "turn.accepted".into(), item: None, at, body: None }
}

fn own_tenant() -> BTreeSet<TenantId> {
    BTreeSet::from([TenantId::single()])
}

fn follow(store: &dyn Journal) -> Box<dyn ChangeFollower> {
    store.follow_changes().unwrap()
}

/// Reads the changes; the tenant was followed before.
async fn read(follower: &mut dyn ChangeFollower) -> Vec<CommittedChange> {
    let read = follower.read_changes(&own_tenant()).await.unwrap();
    assert_eq!((&read.anew[..], read.has_more), (&[][..], false));
    read.changes
}

fn change(session: &str, events: &[u64]) -> CommittedChange {
    let events = events.iter().map(|seq| event(*seq)).collect();
    CommittedChange { key: key(session), created: None, deleted_at: None, events }
}

fn created(session: &str) -> CommittedChange {
    let created = Some(CreatedSession { agent: "agent".to_owned(), at: Timestamp::from_millis(1) });
    CommittedChange { created, ..change(session, &[]) }
}

#[tokio::test]
async fn a_follower_reads_what_all_processes_commit() {
    let Some(server) = Server::start("a_follower_reads_what_all_processes_commit").await else { return };
    let client = server.database("changes").await;
    let (one, two) = (open(&server.url("changes")).await, open(&server.url("changes")).await);
    let count = || async {
        client.query_one("SELECT count(*) FROM singletree.change", &[]).await.unwrap().get::<_, i64>(0)
    };
    let held = [fence(&one, "s").await, fence(&two, "t").await];
    one.apply(head_batch("s", held[0], 1)).await.unwrap();
    assert_eq!(count().await, 0_i64, "nobody follows");
    let mut follower = follow(&two);
    let first = follower.read_changes(&own_tenant()).await.unwrap();
    assert_eq!((first.changes.len(), &first.anew[..]), (0, &[TenantId::single()][..]));
    // An event and more, a session that is made, a commit that is no change, and a session that is deleted.
    let mut events = head_batch("s", held[0], 2);
    events.put(RowMutation::Event(event(4)));
    events.put(RowMutation::Event(event(5)));
    let mut made = head_batch("t", held[1], 1);
    made.requires.push(BatchPrecondition::SessionAbsent);
    let mut deleted = head_batch("s", held[0], 4);
    deleted.puts = vec![RowMutation::Delete];
    one.apply(events).await.unwrap();
    two.apply(made).await.unwrap();
    one.apply(head_batch("s", held[0], 3)).await.unwrap();
    assert_eq!(read(follower.as_mut()).await, [change("s", &[4, 5]), created("t")]);
    one.apply(deleted).await.unwrap();
    let deleted = read(follower.as_mut()).await.pop().unwrap();
    assert!(deleted.deleted_at.is_some(), "{deleted:?}");
    assert_eq!(CommittedChange { deleted_at: None, ..deleted }, change("s", &[]));
    assert_eq!(read(follower.as_mut()).await, []);
    // Another tenant's are not read, and nothing is kept when the last one goes.
    let others = BTreeSet::from([TenantId::parse("other").unwrap()]);
    let mut other = follow(&one);
    assert_eq!(other.read_changes(&others).await.unwrap().anew.len(), 1);
    let mut more = head_batch("t", held[1], 2);
    more.put(RowMutation::Event(event(0)));
    two.apply(more).await.unwrap();
    assert_eq!(other.read_changes(&others).await.unwrap().changes, []);
    assert_eq!(read(follower.as_mut()).await, [change("t", &[0])]);
    for follower in [&mut follower, &mut other] {
        follower.read_changes(&BTreeSet::new()).await.unwrap();
    }
    assert_eq!(count().await, 0_i64);
    // A process that was killed leaves some: the next one that opens the database removes them.
    let left = "INSERT INTO singletree.change (tenant, session, created) VALUES ('default', 's', false)";
    client.execute(left, &[]).await.unwrap();
    assert_eq!(count().await, 1);
    drop(open(&server.url("changes")).await);
    assert_eq!(count().await, 0);
}

// The number of a commit is drawn before it lands: one that lands late is read all the same.
#[tokio::test]
async fn a_commit_that_lands_behind_later_ones_is_read() {
    let Some(server) = Server::start("a_commit_that_lands_behind_later_ones_is_read").await else { return };
    let mut client = server.database("late_change").await;
    let store = open(&server.url("late_change")).await;
    let mut follower = follow(&store);
    follower.read_changes(&own_tenant()).await.unwrap();
    let late = client.transaction().await.unwrap();
    let insert = "INSERT INTO singletree.change (tenant, session, created) VALUES ('default', 'late', true)";
    late.execute(insert, &[]).await.unwrap();
    let mut batch = head_batch("s", fence(&store, "s").await, 1);
    batch.put(RowMutation::Event(event(0)));
    store.apply(batch).await.unwrap();
    assert_eq!(read(follower.as_mut()).await, [change("s", &[0])]);
    late.commit().await.unwrap();
    // Its session is not there any more.
    assert_eq!(read(follower.as_mut()).await, [change("late", &[])]);
    assert_eq!(read(follower.as_mut()).await, []);
}

// After an outage, a pause or a crash of the database, something may be missing.
#[tokio::test]
async fn who_was_away_is_told_that_it_follows_anew() {
    let Some(server) = Server::start("who_was_away_is_told_that_it_follows_anew").await else { return };
    let client = server.database("away").await;
    let store = open(&server.url("away")).await;
    let mut follower = follow(&store);
    let anew = follower.read_changes(&own_tenant()).await.unwrap().anew;
    assert_eq!(anew, [TenantId::single()]);
    assert_eq!(read(follower.as_mut()).await, []);
    let pause = "UPDATE singletree.follower SET follows_until = follows_until - interval '6 seconds'";
    for lost in [pause, "TRUNCATE singletree.follower, singletree.change"] {
        client.execute(lost, &[]).await.unwrap();
        assert_eq!(follower.read_changes(&own_tenant()).await.unwrap().anew, anew, "{lost}");
        assert_eq!(read(follower.as_mut()).await, [], "{lost}");
    }
}

// Who begins to follow waits for the batches that have not looked for it.
#[tokio::test]
async fn a_commit_under_way_ends_before_its_tenant_is_followed() {
    let Some(server) = Server::start("a_commit_under_way_ends_before_its_tenant_is_followed").await else {
        return;
    };
    let mut client = server.database("under_way").await;
    let store = open(&server.url("under_way")).await;
    store.apply(head_batch("s", fence(&store, "s").await, 1)).await.unwrap();
    let under_way = client.transaction().await.unwrap();
    under_way.execute("UPDATE singletree.lease SET commit_id = NULL", &[]).await.unwrap();
    let mut follower = follow(&store);
    let tenants = own_tenant();
    let mut following = std::pin::pin!(follower.read_changes(&tenants));
    let is_followed = async {
        let followed = "SELECT 1 FROM singletree.follower";
        while under_way.query(followed, &[]).await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        // It has looked for batches, and waits.
        for _ in 0..100 {
            under_way.query("SELECT 1", &[]).await.unwrap();
        }
    };
    tokio::select! {
        read = &mut following => panic!("{read:?}"),
        () = is_followed => {}
    }
    under_way.commit().await.unwrap();
    assert_eq!(following.await.unwrap().anew.len(), 1);
}
