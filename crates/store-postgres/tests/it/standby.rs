//! A synchronous standby that is away: nothing is acknowledged that it has not confirmed.

use std::time::SystemTime;

use singletree_durable::Journal;
use tokio_postgres::Client;

use crate::ownership::{fence, head_batch, key};
use crate::server::{Server, open};

/// Returns the time of the server.
async fn now(admin: &Client) -> SystemTime {
    admin.query_one("SELECT clock_timestamp()", &[]).await.unwrap().get(0)
}

/// Waits until a statement with this text that was sent later waits for the standby; returns the process that serves it.
async fn waiting_since(admin: &Client, text: &str, begun: SystemTime) -> i32 {
    let sql = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE $1 AND query_start > $2";
    loop {
        if let Some(row) = admin.query_opt(sql, &[&format!("%{text}%"), &begun]).await.unwrap() {
            return row.get(0);
        }
        admin.query("SELECT pg_sleep(0.01)", &[]).await.unwrap();
    }
}

async fn cancel(admin: &Client, process: i32) {
    admin.execute("SELECT pg_cancel_backend($1)", &[&process]).await.unwrap();
}

async fn set_standby(admin: &Client, name: &str) {
    admin.execute(&format!("ALTER SYSTEM SET synchronous_standby_names = '{name}'"), &[]).await.unwrap();
    admin.execute("SELECT pg_reload_conf()", &[]).await.unwrap();
}

/// Lets every commit wait for a standby that there is not.
async fn lose_standby(server: &Server, admin: &Client) {
    set_standby(admin, "nobody").await;
    let begun = now(admin).await;
    let probe = server.database("standby").await;
    let writing =
        async { while probe.batch_execute("CREATE TABLE probe (); DROP TABLE probe").await.is_ok() {} };
    tokio::select! {
        () = writing => panic!("the probe cannot write"),
        process = waiting_since(admin, "CREATE TABLE probe", begun) => cancel(admin, process).await,
    }
}

// An administrator, or a `statement_timeout`, ends the wait for the standby: the database then acknowledges the commit, though
// a failover would lose it.
#[tokio::test]
async fn a_commit_whose_wait_for_the_standby_was_cancelled_is_not_acknowledged() {
    let test = "a_commit_whose_wait_for_the_standby_was_cancelled_is_not_acknowledged";
    let Some(server) = Server::start_own(test).await else { return };
    let admin = server.database("standby").await;
    let store = open(&server.url("standby")).await;
    let fence = fence(&store, "s").await;
    lose_standby(&server, &admin).await;

    let begun = now(&admin).await;
    let applying = store.apply(head_batch("s", fence, 1));
    let cancelling = async {
        cancel(&admin, waiting_since(&admin, "apply_batch", begun).await).await;
        // It is settled by a write, which waits for the standby in its turn. That one is cancelled, too.
        let settling = waiting_since(&admin, "settle_commit", begun).await;
        let cancelled = now(&admin).await;
        cancel(&admin, settling).await;
        waiting_since(&admin, "settle_commit", cancelled).await;
    };
    tokio::pin!(applying);
    tokio::select! {
        answer = &mut applying => panic!("it is answered before a standby has confirmed it: {answer:?}"),
        () = cancelling => {}
    }
    set_standby(&admin, "").await;
    applying.await.unwrap();
    assert_eq!(store.read_session(&key("s")).await.unwrap().unwrap().head.version, 1);
    store.close().await;
}
