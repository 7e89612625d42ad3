//! Artifacts of campaigns: listed, read, approved as they were read, and proofs only then.

use serde_json::json;

use super::World;

#[tokio::test]
async fn an_artifact_is_approved_as_it_was_read_and_becomes_a_proof() {
    let world = World::start().await;
    let id = world.begin_work().await;
    let items = world.get(&id, "/artifacts").await["items"].clone();
    let report = items[0].clone();
    assert_eq!(
        (&report["kind"], &report["key"], &report["source"]),
        (&json!("report"), &json!("spring"), &json!("agent"))
    );
    assert_eq!(
        (&report["task"], report.get("approved_by"), report.get("content")),
        (&json!("report"), None, None)
    );
    let whole = world.get(&id, &format!("/artifacts/report/spring/{}", report["version"])).await;
    assert_eq!(whole["digest"], report["digest"]);
    assert_eq!(whole["content"].as_str().unwrap().len() as u64, report["bytes"].as_u64().unwrap());
    for missing in ["/artifacts/report/spring/99", "/artifacts/report/spring/x", "/artifacts/letter/spring/1"]
    {
        let answer = world.api.get(&format!("/v1/campaigns/{id}{missing}")).await;
        assert_eq!(
            (answer.status, answer.json()["error"]["category"].clone()),
            (404, json!("artifact_refused")),
            "{missing}"
        );
    }
    let path = format!("/v1/campaigns/{id}/artifacts/approve");
    let approval = |digest: &str| json!({ "kind": "report", "key": "spring", "version": report["version"], "digest": digest });
    assert_eq!(world.refusal(&path, approval(&"ab".repeat(32))).await, (409, "artifact_refused".into()));
    let proof = world.get(&id, "/tasks").await["items"][0]["proof"][0].clone();
    assert_eq!(proof["found"], false, "nobody has approved it");
    for _ in 0..2 {
        let approved =
            world.post(&id, "/artifacts/approve", approval(report["digest"].as_str().unwrap())).await;
        assert_eq!(approved["approved_by"], "local");
    }
    let campaign = world.until(&id, |it| it["waits_for"]["type"] == "action").await;
    assert_eq!(campaign["tasks"]["done"], 1);
    let log = world.get(&id, "/log?limit=500").await;
    let approvals = log["items"].as_array().unwrap().iter().filter(|it| it["type"] == "artifact_approved");
    assert_eq!(approvals.count(), 1, "{log}");
}
