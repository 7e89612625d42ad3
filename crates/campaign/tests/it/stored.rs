//! Campaigns in a store: read as they were committed, changed by one of two, gone with their session.

use std::sync::Arc;

use serde_json::json;
use singletree_campaign::{
    CampaignBoard, CampaignBudget, CampaignEvent, CampaignProposal, CampaignStore, PersonCommand,
    StoredCampaign, campaign_session, decide_command,
};
use singletree_durable::{
    Batch, DocumentStore, Journal, MemoryStore, RowMutation, SessionId, SessionKey, TenantId,
};
use singletree_env::Timestamp;

use crate::bench::{Bench, campaign, two_tasks};

fn open() -> (CampaignStore, MemoryStore) {
    let store = MemoryStore::new();
    (CampaignStore::new(Arc::new(store.clone())), store)
}

fn now(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

async fn commit(
    store: &CampaignStore,
    stored: &StoredCampaign,
    events: Vec<CampaignEvent>,
) -> StoredCampaign {
    store.commit(stored, events, (now(1), Vec::new())).await.unwrap()
}

async fn load(store: &CampaignStore) -> StoredCampaign {
    store.load(&TenantId::single(), "cmp_spring").await.unwrap().unwrap()
}

// Acceptance 5: after a restart the board is read as it was, and the log alone rebuilds it.
#[tokio::test]
async fn a_campaign_is_read_as_it_was_committed() {
    let mut bench = Bench::with_approved_plan();
    bench.select("letter").unwrap();
    bench.call("letter", ("send", json!({ "to": "Ann" })), true, false).unwrap();
    // A plan with fewer tasks, and then with more.
    let one = two_tasks()[..1].to_vec();
    bench.command(PersonCommand::EditPlan { version: 1, tasks: one }).unwrap();
    bench.command(PersonCommand::EditPlan { version: 2, tasks: two_tasks() }).unwrap();
    let (store, memory) = open();
    let mut stored = store.create(campaign(CampaignBudget::default())).await.unwrap();
    for entry in &bench.log[1..] {
        stored = store.commit(&stored, vec![entry.event.clone()], (entry.at, Vec::new())).await.unwrap();
        assert_eq!(load(&store).await, stored);
    }
    assert_eq!(stored.board, bench.board);
    let again = CampaignStore::new(Arc::new(memory.reopen()));
    assert_eq!(load(&again).await, stored);
    let tenant = TenantId::single();
    let log = again.read_log(&tenant, "cmp_spring", (0, 1_000)).await.unwrap();
    assert_eq!(log, bench.log);
    assert_eq!(CampaignBoard::from_log(&log).unwrap(), stored.board);
    let end = again.read_log(&tenant, "cmp_spring", (3, 2)).await.unwrap();
    assert_eq!(end, bench.log[3..5]);
    let listed = again.list(&tenant, None, 10).await.unwrap();
    assert_eq!(listed.iter().map(|board| board.campaign.id.as_str()).collect::<Vec<_>>(), ["cmp_spring"]);
}

// Acceptance 4: of two that change the same state one wins, and the other one has changed nothing.
#[tokio::test]
async fn of_two_commits_over_the_same_state_one_is_refused() {
    let (store, _) = open();
    let stored = store.create(campaign(CampaignBudget::default())).await.unwrap();
    let policy = Bench::new().policy;
    let events = |command: PersonCommand| decide_command(&stored.board, &command, ("Ann", &policy)).unwrap();
    let paused = commit(&store, &stored, events(PersonCommand::Pause)).await;
    let late = store.commit(&stored, events(PersonCommand::Cancel), (now(2), Vec::new())).await.unwrap_err();
    assert_eq!(late.category(), "campaign_changed");
    assert_eq!(load(&store).await, paused);
    let twice = store.create(campaign(CampaignBudget::default())).await.unwrap_err();
    assert_eq!(twice.category(), "campaign_changed");
}

// A cycle costs what the first cost: a commit writes what has changed, and not the plan.
#[tokio::test]
async fn a_commit_writes_only_what_has_changed() {
    let (store, memory) = open();
    let mut bench = Bench::new();
    bench.propose(CampaignProposal::ReplacePlan { tasks: two_tasks() }).unwrap();
    bench.approve_plan();
    bench.select("letter").unwrap();
    let mut stored = store.create(campaign(CampaignBudget::default())).await.unwrap();
    for entry in &bench.log[1..] {
        stored = commit(&store, &stored, vec![entry.event.clone()]).await;
    }
    let versions = async |kind: &str| {
        let found = memory.read_documents(&TenantId::single(), kind, None, 100).await.unwrap();
        found.iter().map(|document| document.version).collect::<Vec<_>>()
    };
    assert_eq!(versions("campaign").await, [bench.log.len() as u64]);
    assert_eq!(versions("campaign_plan").await, [1]);
    // One row was taken in hand, the other one never changed.
    assert_eq!(versions("campaign_task").await, [2, 1]);
    assert!(versions("campaign_log").await.iter().all(|version| *version == 1));
}

// D25: a campaign goes with its session, and nothing of it stays.
#[tokio::test]
async fn a_deleted_campaign_leaves_nothing() {
    let (store, memory) = open();
    let stored = store.create(campaign(CampaignBudget::default())).await.unwrap();
    let mut bench = Bench::new();
    bench.propose(CampaignProposal::ReplacePlan { tasks: two_tasks() }).unwrap();
    commit(&store, &stored, bench.log[1..].iter().map(|entry| entry.event.clone()).collect()).await;
    let session = SessionId::parse(campaign_session("cmp_spring")).unwrap();
    let key = SessionKey::new(TenantId::single(), session);
    let fence = memory.acquire(&key).await.unwrap().fence;
    let mut batch = Batch::new(key, fence);
    batch.puts = vec![RowMutation::Delete];
    memory.apply(batch).await.unwrap();
    for kind in ["campaign", "campaign_plan", "campaign_task", "campaign_log"] {
        let left = memory.read_documents(&TenantId::single(), kind, None, 100).await.unwrap();
        assert_eq!(left, [], "{kind}");
    }
    assert_eq!(store.load(&TenantId::single(), "cmp_spring").await.unwrap(), None);
}
