//! Scopes and tenants of campaigns: who may do what, and what the audit says of it.

use serde_json::{Value, json};
use singletree_server::{Quotas, TenantQuotas};

use super::{World, story_plan};
use crate::support::rig::within;
use crate::support::{Client, Rig};

async fn key(rig: &Rig, scopes: &[&str]) -> Client {
    let made = rig.operator().post("/v1/keys", &json!({ "tenant": "t", "scopes": scopes })).await.json();
    rig.client().bearer(made["secret"].as_str().unwrap())
}

async fn world_with_keys() -> (World, String) {
    let policy = singletree_server::AccessPolicy { required: true, ..Default::default() };
    let rig = Rig::builder().campaigns(story_plan()).server(|it| it.access_policy(policy)).start().await;
    let all = key(&rig, &["read", "write", "approve", "admin"]).await;
    let api = crate::native::api::Api::with(all).await;
    let world = World { rig, api };
    let id = world.begin_work().await;
    (world, id)
}

// spec: design controller.md, scopes: create, edit, command `write`; approve `approve`; cancel, budget, delete `admin`
#[tokio::test]
async fn every_change_needs_its_scope_and_no_scope_contains_another() {
    let (world, id) = world_with_keys().await;
    let base = format!("/v1/campaigns/{id}");
    let digest = "ab".repeat(32);
    let changes: Vec<(&str, String, Value)> = vec![
        ("write", "/v1/campaigns".into(), json!({ "goal": "x" })),
        ("write", format!("{base}/pause"), json!({})),
        ("write", format!("{base}/resume"), json!({})),
        ("write", format!("{base}/commands"), json!({ "type": "free", "text": "x" })),
        ("write", format!("{base}/commands"), json!({ "type": "unblock", "task": "x" })),
        ("write", format!("{base}/commands"), json!({ "type": "retry", "task": "x" })),
        ("write", format!("{base}/commands"), json!({ "type": "answer", "question": "x", "answer": 1 })),
        ("write", format!("{base}/schedules"), json!({ "expression": "0 8 * * *", "command": "x" })),
        ("approve", format!("{base}/plan/approve"), json!({ "version": 1, "digest": digest })),
        ("approve", format!("{base}/plan/reject"), json!({ "version": 1 })),
        (
            "approve",
            format!("{base}/artifacts/approve"),
            json!({ "kind": "a", "key": "b", "version": 1, "digest": digest }),
        ),
        (
            "approve",
            format!("{base}/commands"),
            json!({ "type": "decide", "digest": digest, "approved": true }),
        ),
        ("approve", format!("{base}/commands"), json!({ "type": "confirm", "task": "x", "question": "x" })),
        ("admin", format!("{base}/commands"), json!({ "type": "budget", "budget": {} })),
        ("admin", format!("{base}/cancel"), json!({})),
    ];
    let all = ["read", "write", "approve", "admin"];
    for (scope, path, body) in changes {
        let others: Vec<&str> = all.into_iter().filter(|other| *other != scope).collect();
        let refused = key(&world.rig, &others).await.post(&path, &body).await;
        assert_eq!(refused.status, 403, "{scope} {path} {body}: {}", refused.text());
        let permitted = key(&world.rig, &[scope]).await.post(&path, &body).await;
        assert_ne!(permitted.status, 403, "{scope} {path} {body}: {}", permitted.text());
    }
    let reader = key(&world.rig, &["write", "approve", "admin"]).await;
    for rest in ["", "/plan", "/tasks", "/log", "/events", "/artifacts", "/schedules"] {
        assert_eq!(reader.get(&format!("{base}{rest}")).await.status, 403, "{rest}");
    }
    let cancelled = world.get(&id, "").await;
    assert_eq!(cancelled["status"], "cancelled", "the last change was permitted");
}

// S7: scopes bound the data that a key can read.
#[tokio::test]
async fn a_key_that_may_not_read_learns_only_that_it_is_done() {
    let (world, id) = world_with_keys().await;
    let writer = key(&world.rig, &["write"]).await;
    for rest in ["/pause", "/resume"] {
        let answer = writer.post(&format!("/v1/campaigns/{id}{rest}"), &json!({})).await;
        assert_eq!((answer.status, answer.text()), (204, String::new()), "{rest}");
    }
}

#[tokio::test]
async fn the_audit_of_the_tenant_has_ids_and_digests_and_no_content() {
    let (world, id) = world_with_keys().await;
    let canary = "canary-4711";
    let command = json!({ "type": "free", "text": canary });
    world.command(&id, command).await;
    world.until(&id, |it| it.get("command").is_none()).await;
    let campaign = world.approve_report(&id).await;
    let digest = campaign["call"]["digest"].clone();
    let decision = json!({ "type": "decide", "digest": digest, "approved": false, "reason": canary });
    world.command(&id, decision).await;
    let audit = world.api.get("/v1/audit?limit=1000").await.json();
    assert!(!audit.to_string().contains(canary), "{audit}");
    let items = audit["items"].as_array().unwrap();
    let of = |action: &str| {
        let found: Vec<&Value> = items.iter().filter(|it| it["action"] == action).collect();
        assert_eq!(found.len(), 1, "{action}: {audit}");
        assert_eq!(found[0]["subject"], *id, "{action}");
        found[0]["details"].clone()
    };
    assert_eq!(of("campaign.plan_approved")["version"], 1);
    assert_eq!(of("campaign.commanded")["digest"].as_str().unwrap().len(), 64);
    assert_eq!(of("campaign.artifact_approved")["artifact"], "report/spring/1");
    assert_eq!(of("campaign.action_decided"), json!({ "digest": digest, "approved": false }));
    // The log, which is deleted with the campaign, has the content.
    assert!(world.get(&id, "/log?limit=500").await.to_string().contains(canary));
}

// S8: the cycles of campaigns use the tokens of their tenant, and no others.
#[tokio::test]
async fn a_tenant_without_tokens_left_has_its_campaigns_paused_and_no_other_tenant_has() {
    let policy = singletree_server::AccessPolicy { required: true, ..Default::default() };
    let tenant = TenantQuotas { tokens: Some(1), ..TenantQuotas::default() };
    let quotas = Quotas { tenant, ..Quotas::default() };
    let rig = Rig::builder().campaigns(story_plan());
    let rig = rig.server(|it| it.access_policy(policy).quotas(quotas)).start().await;
    let mut paused = Vec::new();
    for tenant in ["t", "u"] {
        let asked = json!({ "tenant": tenant, "scopes": ["read", "write"] });
        let made = rig.operator().post("/v1/keys", &asked).await.json();
        let client = rig.client().bearer(made["secret"].as_str().unwrap());
        if tenant == "t" {
            let sent = client.post("/v1/sessions/s/messages", &json!({ "content": "say hello" })).await;
            assert_eq!(sent.status, 200, "{}", sent.text());
        }
        let created = client.post("/v1/campaigns", &json!({ "goal": "Tell Ann." })).await;
        assert_eq!(created.status, 201, "{}", created.text());
        let path = format!("/v1/campaigns/{}", created.json()["id"].as_str().unwrap());
        let settled = within(async {
            loop {
                let detail = client.get(&path).await.json();
                if !detail["pause"].is_null() || !detail["waits_for"].is_null() {
                    return detail;
                }
                tokio::task::yield_now().await;
            }
        });
        paused.push(settled.await["pause"].clone());
    }
    assert_eq!(paused, [json!({ "type": "quota", "category": "server_quota_exceeded" }), Value::Null]);
    rig.stop().await;
}
