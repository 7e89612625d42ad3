//! Checkpoints.

use singletree_durable::{
    CheckpointFilter, CheckpointRecord, CheckpointState, CheckpointSummary, EnclosingInstance,
    FanOutProgress, InstanceProgress, InstanceState, NodePosition, PositionHistory, Result, Timestamp,
};

use super::ContractStores;
use super::bench::{StoreFactory, Verdict, same};
use super::rows::{invocation, json, tenant};

/// The save time by which the faulty checkpointer recognizes the record of [`loads`].
pub(super) const MARK: Timestamp = Timestamp::from_millis(777);

fn position(step: u64) -> NodePosition {
    let (namespace, node_name) = (vec!["outer".to_owned()], "node".to_owned());
    NodePosition { namespace, node_name, step, attempt_index: 1, fan_out_index: None }
}

fn record(name: &str, steps: &[u64]) -> CheckpointRecord {
    CheckpointRecord {
        invocation_id: invocation(name),
        correlation_id: format!("work of {name}"),
        session_id: None,
        schema_version: "v1".into(),
        state: [("field".to_owned(), json(r#"{"b": 1.0, "a":[null, "\n"]}"#))].into(),
        parent_states: Vec::new(),
        completed_positions: steps.iter().copied().map(position).collect::<PositionHistory>(),
        fan_out_progress: Vec::new(),
        last_saved_at: Timestamp::from_millis(1000),
        cursor: None,
    }
}

/// A record with every optional part set.
fn full(name: &str) -> CheckpointRecord {
    let failed = InstanceProgress {
        result: Some(json("null")),
        result_is_error: true,
        extra_outputs: [("more".to_owned(), json("[1,  2]"))].into(),
        ..InstanceProgress::at(InstanceState::Completed)
    };
    let in_flight = InstanceProgress {
        completed_inner_positions: vec![NodePosition { fan_out_index: Some(1), ..position(9) }],
        ..InstanceProgress::at(InstanceState::InFlight)
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
        instances: vec![failed, in_flight, InstanceProgress::at(InstanceState::NotStarted)],
    };
    CheckpointRecord {
        parent_states: vec![[("x".to_owned(), json("3"))].into(), CheckpointState::new()],
        fan_out_progress: vec![progress],
        cursor: Some(json(r#"{ "frames": [] }"#)),
        ..record(name, &[0, 1, 2])
    }
}

async fn save(stores: &ContractStores, record: &CheckpointRecord) -> Result<()> {
    stores.checkpoints.save(&tenant("tenant-a"), record).await
}

async fn load(stores: &ContractStores, name: &str) -> Result<Option<CheckpointRecord>> {
    stores.checkpoints.load(&tenant("tenant-a"), &invocation(name)).await
}

async fn list(stores: &ContractStores, filter: CheckpointFilter) -> Result<Vec<CheckpointSummary>> {
    stores.checkpoints.list(&tenant("tenant-a"), &filter).await
}

async fn delete(stores: &ContractStores, name: &str) -> Result<()> {
    stores.checkpoints.delete(&tenant("tenant-a"), &invocation(name)).await
}

pub(super) async fn loads(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    let marked = CheckpointRecord { last_saved_at: MARK, ..full("c") };
    for record in [record("a", &[]), full("b"), marked] {
        let name = record.invocation_id.as_str();
        same("an absent record", &load(&stores, name).await?, &None)?;
        save(&stores, &record).await?;
        same("the record", &load(&stores, name).await?, &Some(record.clone()))?;
    }
    Ok(())
}

pub(super) async fn replaces(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    save(&stores, &full("inv")).await?;
    for steps in [&[0, 1, 2, 3][..], &[0, 9, 2, 3, 4], &[0, 9], &[], &[5, 6], &[5, 7, 8]] {
        let record = record("inv", steps);
        save(&stores, &record).await?;
        same("the record", &load(&stores, "inv").await?, &Some(record))?;
    }
    Ok(())
}

pub(super) async fn listed(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    let (a, b) = (record("a", &[0, 1]), full("b"));
    save(&stores, &b).await?;
    save(&stores, &a).await?;
    let found = list(&stores, CheckpointFilter::default()).await?;
    same("the listing", &found, &vec![a.summary(), b.summary()])
}

pub(super) async fn filtered(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    let (early, late) = (record("a", &[]), record("b", &[]));
    let late = CheckpointRecord { last_saved_at: Timestamp::from_millis(2000), ..late };
    save(&stores, &early).await?;
    save(&stores, &late).await?;
    let all = CheckpointFilter::default;
    let correlation_id = Some(late.correlation_id.clone());
    for (filter, expected) in [
        (CheckpointFilter { correlation_id, ..all() }, &late),
        (CheckpointFilter { saved_after: Some(early.last_saved_at), ..all() }, &late),
        (CheckpointFilter { saved_before: Some(late.last_saved_at), ..all() }, &early),
    ] {
        same("the listing", &list(&stores, filter).await?, &vec![expected.summary()])?;
    }
    Ok(())
}

pub(super) async fn deleted(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    save(&stores, &full("inv")).await?;
    save(&stores, &record("other", &[0])).await?;
    delete(&stores, "inv").await?;
    same("the deleted record", &load(&stores, "inv").await?, &None)?;
    same("whether the other is there", &load(&stores, "other").await?.is_some(), &true)
}

pub(super) async fn delete_idempotent(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    delete(&stores, "inv").await?;
    save(&stores, &full("inv")).await?;
    delete(&stores, "inv").await?;
    Ok(delete(&stores, "inv").await?)
}

pub(super) async fn tenants_apart(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    let (checkpoints, of, name) = (&stores.checkpoints, tenant("tenant-b"), invocation("inv"));
    save(&stores, &full("inv")).await?;
    same("the other's record", &checkpoints.load(&of, &name).await?, &None)?;
    same("the other's listing", &checkpoints.list(&of, &CheckpointFilter::default()).await?, &Vec::new())?;
    checkpoints.save(&of, &record("inv", &[7])).await?;
    checkpoints.delete(&of, &name).await?;
    same("the record", &load(&stores, "inv").await?, &Some(full("inv")))
}

pub(super) async fn durable(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    save(&stores, &full("inv")).await?;
    let stores = bench.reopen(stores).await?;
    same("the record", &load(&stores, "inv").await?, &Some(full("inv")))
}
