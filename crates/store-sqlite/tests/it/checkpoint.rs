//! Checkpoints in a file (pipeline-utilities §10.1, §10.13).

use singletree_durable::{
    CheckpointFilter, CheckpointRecord, Checkpointer, EnclosingInstance, FanOutProgress, InstanceProgress,
    InstanceState, NodePosition, PositionHistory, SessionId,
};
use singletree_store_sqlite::SqliteStore;

use crate::made::{at, invocation, json, scratch, store, tenant};

fn position(step: u64) -> NodePosition {
    NodePosition {
        namespace: vec!["outer".into()],
        node_name: "node".into(),
        step,
        attempt_index: 1,
        fan_out_index: None,
    }
}

fn record(id: &str, positions: PositionHistory) -> CheckpointRecord {
    CheckpointRecord {
        invocation_id: invocation(id),
        correlation_id: "work".into(),
        session_id: None,
        schema_version: "v1".into(),
        state: [("z".to_owned(), json("{\"b\": 1.0, \"a\":[null]}"))].into(),
        parent_states: Vec::new(),
        completed_positions: positions,
        fan_out_progress: Vec::new(),
        last_saved_at: at(1000),
        cursor: None,
    }
}

/// A record with everything.
fn full(id: &str) -> CheckpointRecord {
    let in_flight = InstanceProgress {
        completed_inner_positions: vec![NodePosition { fan_out_index: Some(1), ..position(9) }],
        ..InstanceProgress::with_state(InstanceState::InFlight)
    };
    let failed = InstanceProgress {
        result: Some(json("null")),
        result_is_error: true,
        extra_outputs: [("more".to_owned(), json("[1,  2]"))].into(),
        ..InstanceProgress::with_state(InstanceState::Completed)
    };
    let progress = FanOutProgress {
        fan_out_node_name: "each".into(),
        namespace: vec!["rows".into()],
        enclosing_fan_out_lineage: vec![EnclosingInstance {
            namespace: Vec::new(),
            fan_out_node_name: "rows".into(),
            fan_out_index: 4,
        }],
        execution: 2,
        instance_count: 3,
        instances: vec![failed, in_flight, InstanceProgress::with_state(InstanceState::NotStarted)],
    };
    CheckpointRecord {
        session_id: Some(SessionId::parse("s").unwrap()),
        parent_states: vec![[("x".to_owned(), json("\"é\\n\""))].into(), Default::default()],
        fan_out_progress: vec![progress],
        cursor: Some(json("{ \"frames\": [] }")),
        ..record(id, (0..3).map(position).collect())
    }
}

async fn load(store: &SqliteStore, id: &str) -> Option<CheckpointRecord> {
    Checkpointer::load(store, &tenant("default"), &invocation(id)).await.unwrap()
}

async fn save(store: &SqliteStore, record: &CheckpointRecord) {
    Checkpointer::save(store, &tenant("default"), record).await.unwrap();
}

// spec: pipeline-utilities §10.1: round trip, and durable.
#[tokio::test]
async fn what_was_saved_is_loaded_letter_by_letter_also_by_the_next_process() {
    let scratch = scratch();
    let store = SqliteStore::open(&scratch.path).await.unwrap();
    for saved in
        [full("i"), record("i", PositionHistory::new()), full("i"), record("other", PositionHistory::new())]
    {
        save(&store, &saved).await;
        assert_eq!(load(&store, saved.invocation_id.as_str()).await, Some(saved));
    }
    store.close().await;
    let store = SqliteStore::open(&scratch.path).await.unwrap();
    assert_eq!(load(&store, "i").await, Some(full("i")));
    assert_eq!(store.find_damage().await.unwrap(), []);
}

// Positions that are stored are recognized by their digest; others are replaced, however they differ.
#[tokio::test]
async fn positions_are_appended_where_they_go_on_and_replaced_where_they_do_not() {
    let (_scratch, store) = store().await;
    let steps = |steps: &[u64]| steps.iter().copied().map(position).collect::<PositionHistory>();
    for list in [&[0, 1, 2][..], &[0, 1, 2, 3], &[0, 9, 2, 3, 4], &[0, 9], &[], &[5], &[5, 6, 7], &[5, 6, 8]]
    {
        let saved = record("i", steps(list));
        save(&store, &saved).await;
        assert_eq!(load(&store, "i").await, Some(saved), "{list:?}");
    }
}

// The cost of a save depends on its new positions only: the list of positions is never written again.
#[tokio::test]
async fn a_save_writes_the_new_positions_only() {
    let (_scratch, store) = store().await;
    let mut positions = PositionHistory::new();
    let mut costs = Vec::new();
    for step in 1000..1400 {
        positions.push(position(step));
        let before = store.bytes_written();
        save(&store, &record("i", positions.clone())).await;
        costs.push(store.bytes_written() - before);
    }
    assert_eq!(costs[10], costs[390]);
}

// spec: pipeline-utilities §10.1
#[tokio::test]
async fn a_listing_shows_what_passes_its_filter_and_a_deleted_record_is_gone() {
    let (_scratch, store) = store().await;
    let mut late = full("b");
    (late.last_saved_at, late.correlation_id) = (at(5000), "other".into());
    save(&store, &late).await;
    save(&store, &record("a", PositionHistory::new())).await;
    Checkpointer::save(&store, &tenant("theirs"), &record("c", PositionHistory::new())).await.unwrap();
    let list = async |filter: CheckpointFilter| {
        let found = Checkpointer::list(&store, &tenant("default"), &filter).await.unwrap();
        found.iter().map(|it| (it.invocation_id.to_string(), it.completed_node_count)).collect::<Vec<_>>()
    };
    let (a, b) = (("a".to_owned(), 0), ("b".to_owned(), 3));
    assert_eq!(list(CheckpointFilter::default()).await, [a.clone(), b.clone()]);
    let other = CheckpointFilter { correlation_id: Some("other".into()), ..Default::default() };
    assert_eq!(list(other).await, std::slice::from_ref(&b));
    let later = CheckpointFilter { saved_after: Some(at(1000)), ..Default::default() };
    assert_eq!(list(later).await, [b]);
    let earlier = CheckpointFilter { saved_before: Some(at(5000)), ..Default::default() };
    assert_eq!(list(earlier).await, std::slice::from_ref(&a));
    for _ in 0..2 {
        Checkpointer::delete(&store, &tenant("default"), &invocation("b")).await.unwrap();
    }
    assert_eq!((load(&store, "b").await, list(CheckpointFilter::default()).await), (None, vec![a]));
    let theirs = Checkpointer::load(&store, &tenant("theirs"), &invocation("c")).await.unwrap();
    assert_eq!(theirs, Some(record("c", PositionHistory::new())));
}
