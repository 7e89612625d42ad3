//! A campaign of 1,000 tasks and 10,000 cycles: its prompts are bounded, and a cycle costs what the first one cost
//! (acceptance 7; INV-5, INV-12).

use std::sync::Arc;

use serde_json::{Value, json};
use singletree_campaign::{CampaignEvent, CampaignStore, SNAPSHOT_BYTES_MAX};
use singletree_durable::MemoryStore;
use singletree_env::Timestamp;

use crate::rig::{Rig, tenant};
use crate::slow_store::SlowStore;
use crate::world::RecordingModel;

const TASKS: usize = 1_000;
const CYCLES: u64 = 10_000;

/// Tasks whose descriptions are as long as they may be.
fn many_tasks() -> Value {
    let proof = json!([{ "type": "user_confirmed", "question": "Is it done?" }]);
    let task =
        |at: usize| json!({ "id": format!("t{at}"), "description": "d".repeat(2 << 10), "proof": proof });
    (0..TASKS).map(task).collect()
}

/// Appends a cycle of a long history.
fn past_cycle(number: u64) -> [CampaignEvent; 3] {
    [
        CampaignEvent::CycleBegan { number },
        CampaignEvent::CycleMeasured { tokens: 10, time_ms: 1, seen: None },
        CampaignEvent::ProposalRefused {
            category: "campaign_proposal_invalid".to_owned(),
            why: "w".repeat(4 << 10),
        },
    ]
}

#[tokio::test(start_paused = true)]
async fn the_prompt_and_the_cost_of_a_cycle_do_not_grow() {
    let store = SlowStore::over(MemoryStore::new());
    let model = RecordingModel::proposing(&[json!({ "action": "select_task", "task": "t0" })]);
    let rig = Rig::over(Arc::new(store.clone()), model.clone());
    let id = rig.begin_with_plan(many_tasks()).await;
    rig.controller.run_one_cycle(&tenant(), &id).await.unwrap();
    store.take_counts();
    rig.controller.run_one_cycle(&tenant(), &id).await.unwrap();
    let early = store.take_counts();

    let documents = CampaignStore::new(Arc::new(store.clone()));
    let mut stored = documents.load(&tenant(), &id).await.unwrap().unwrap();
    let at = Timestamp::from_millis(1_767_225_600_000);
    for block in (3..=CYCLES).collect::<Vec<_>>().chunks(1_000) {
        let events = block.iter().flat_map(|number| past_cycle(*number)).collect();
        stored = documents.commit(&stored, events, (at, Vec::new())).await.unwrap();
    }
    // The refusals were another controller's to judge.
    let resumed = vec![CampaignEvent::Resumed { by: None }];
    documents.commit(&stored, resumed, (at, Vec::new())).await.unwrap();
    store.take_counts();
    let board = rig.controller.run_one_cycle(&tenant(), &id).await.unwrap();
    assert_eq!(board.usage.cycles, CYCLES + 1);
    assert_eq!(store.take_counts(), early, "documents read and changed");
    for request in model.request_bytes() {
        assert!(request.len() < SNAPSHOT_BYTES_MAX, "{}", request.len());
        assert!(request.len() < 32 << 10, "{}", request.len());
    }
    // The session holds the end of its transcript only.
    let loaded = rig.chat.loaded();
    assert!(loaded.bytes < 64 << 10, "{loaded:?}");
}
