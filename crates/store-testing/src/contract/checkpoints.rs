//! Checkpoints.

use singletree_durable::{
    CheckpointFilter, CheckpointRecord, CheckpointState, CheckpointSummary, EnclosingInstance,
    FanOutProgress, InstanceProgress, InstanceState, NodePosition, PositionHistory, Result, Timestamp,
};

use super::ContractStores;
use super::bench::{StoreFactory, Verdict, ensure_equal};
use super::rows::{invocation_named, json_document, tenant_named};

/// The save time by which the faulty checkpointer recognizes the record of [`loads`].
pub(super) const MARK: Timestamp = Timestamp::from_millis(777);

fn node_position(step: u64) -> NodePosition {
    let (namespace, node_name) = (vec!["outer".to_owned()], "node".to_owned());
    NodePosition { namespace, node_name, step, attempt_index: 1, fan_out_index: None }
}

fn checkpoint_record(name: &str, steps: &[u64]) -> CheckpointRecord {
    CheckpointRecord {
        invocation_id: invocation_named(name),
        correlation_id: format!("work of {name}"),
        session_id: None,
        schema_version: "v1".into(),
        state: [("field".to_owned(), json_document(r#"{"b": 1.0, "a":[null, "\n"]}"#))].into(),
        parent_states: Vec::new(),
        completed_positions: steps.iter().copied().map(node_position).collect::<PositionHistory>(),
        fan_out_progress: Vec::new(),
        last_saved_at: Timestamp::from_millis(1000),
        cursor: None,
    }
}

/// A record with every optional part set.
fn full_checkpoint_record(name: &str) -> CheckpointRecord {
    let failed = InstanceProgress {
        result: Some(json_document("null")),
        result_is_error: true,
        extra_outputs: [("more".to_owned(), json_document("[1,  2]"))].into(),
        ..InstanceProgress::with_state(InstanceState::Completed)
    };
    let in_flight = InstanceProgress {
        completed_inner_positions: vec![NodePosition { fan_out_index: Some(1), ..node_position(9) }],
        ..InstanceProgress::with_state(InstanceState::InFlight)
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
        parent_states: vec![[("x".to_owned(), json_document("3"))].into(), CheckpointState::new()],
        fan_out_progress: vec![progress],
        cursor: Some(json_document(r#"{ "frames": [] }"#)),
        ..checkpoint_record(name, &[0, 1, 2])
    }
}

async fn save_checkpoint(stores: &ContractStores, record: &CheckpointRecord) -> Result<()> {
    stores.checkpoints.save(&tenant_named("tenant-a"), record).await
}

async fn load_checkpoint(stores: &ContractStores, name: &str) -> Result<Option<CheckpointRecord>> {
    stores.checkpoints.load(&tenant_named("tenant-a"), &invocation_named(name)).await
}

async fn list_checkpoints(
    stores: &ContractStores,
    filter: CheckpointFilter,
) -> Result<Vec<CheckpointSummary>> {
    stores.checkpoints.list(&tenant_named("tenant-a"), &filter).await
}

async fn delete_checkpoint(stores: &ContractStores, name: &str) -> Result<()> {
    stores.checkpoints.delete(&tenant_named("tenant-a"), &invocation_named(name)).await
}

pub(super) async fn check_checkpoint_loads(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    let marked = CheckpointRecord { last_saved_at: MARK, ..full_checkpoint_record("c") };
    for record in [checkpoint_record("a", &[]), full_checkpoint_record("b"), marked] {
        let name = record.invocation_id.as_str();
        ensure_equal("an absent record", &load_checkpoint(&stores, name).await?, &None)?;
        save_checkpoint(&stores, &record).await?;
        ensure_equal("the record", &load_checkpoint(&stores, name).await?, &Some(record.clone()))?;
    }
    Ok(())
}

pub(super) async fn check_checkpoint_replaces(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    save_checkpoint(&stores, &full_checkpoint_record("inv")).await?;
    for steps in [&[0, 1, 2, 3][..], &[0, 9, 2, 3, 4], &[0, 9], &[], &[5, 6], &[5, 7, 8]] {
        let record = checkpoint_record("inv", steps);
        save_checkpoint(&stores, &record).await?;
        ensure_equal("the record", &load_checkpoint(&stores, "inv").await?, &Some(record))?;
    }
    Ok(())
}

pub(super) async fn check_checkpoint_listed(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    let (a, b) = (checkpoint_record("a", &[0, 1]), full_checkpoint_record("b"));
    save_checkpoint(&stores, &b).await?;
    save_checkpoint(&stores, &a).await?;
    let found = list_checkpoints(&stores, CheckpointFilter::default()).await?;
    ensure_equal("the listing", &found, &vec![a.to_summary(), b.to_summary()])
}

pub(super) async fn check_checkpoint_filtered(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    let (early, late) = (checkpoint_record("a", &[]), checkpoint_record("b", &[]));
    let late = CheckpointRecord { last_saved_at: Timestamp::from_millis(2000), ..late };
    save_checkpoint(&stores, &early).await?;
    save_checkpoint(&stores, &late).await?;
    let all = CheckpointFilter::default;
    let correlation_id = Some(late.correlation_id.clone());
    for (filter, expected) in [
        (CheckpointFilter { correlation_id, ..all() }, &late),
        (CheckpointFilter { saved_after: Some(early.last_saved_at), ..all() }, &late),
        (CheckpointFilter { saved_before: Some(late.last_saved_at), ..all() }, &early),
    ] {
        ensure_equal("the listing", &list_checkpoints(&stores, filter).await?, &vec![expected.to_summary()])?;
    }
    Ok(())
}

pub(super) async fn check_checkpoint_deleted(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    save_checkpoint(&stores, &full_checkpoint_record("inv")).await?;
    save_checkpoint(&stores, &checkpoint_record("other", &[0])).await?;
    delete_checkpoint(&stores, "inv").await?;
    ensure_equal("the deleted record", &load_checkpoint(&stores, "inv").await?, &None)?;
    ensure_equal("whether the other is there", &load_checkpoint(&stores, "other").await?.is_some(), &true)
}

pub(super) async fn check_checkpoint_delete_twice(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    delete_checkpoint(&stores, "inv").await?;
    save_checkpoint(&stores, &full_checkpoint_record("inv")).await?;
    delete_checkpoint(&stores, "inv").await?;
    Ok(delete_checkpoint(&stores, "inv").await?)
}

pub(super) async fn check_checkpoint_tenants(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    let (checkpoints, of, name) = (&stores.checkpoints, tenant_named("tenant-b"), invocation_named("inv"));
    save_checkpoint(&stores, &full_checkpoint_record("inv")).await?;
    ensure_equal("the other's record", &checkpoints.load(&of, &name).await?, &None)?;
    ensure_equal(
        "the other's listing",
        &checkpoints.list(&of, &CheckpointFilter::default()).await?,
        &Vec::new(),
    )?;
    checkpoints.save(&of, &checkpoint_record("inv", &[7])).await?;
    checkpoints.delete(&of, &name).await?;
    ensure_equal("the record", &load_checkpoint(&stores, "inv").await?, &Some(full_checkpoint_record("inv")))
}

pub(super) async fn check_checkpoint_durable(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    save_checkpoint(&stores, &full_checkpoint_record("inv")).await?;
    let stores = bench.reopen(stores).await?;
    ensure_equal("the record", &load_checkpoint(&stores, "inv").await?, &Some(full_checkpoint_record("inv")))
}
