//! Campaigns over HTTP: from a goal to its end, and everything that is refused on the way.

mod artifacts;
mod client;
mod events;
mod plans;
mod refused;
mod repeated;
mod reserved;
mod rules;
mod schedules;
mod scopes;
mod story;

use serde_json::{Value, json};

use crate::native::api::Api;
use crate::support::Rig;
use crate::support::rig::within;

/// A plan: a report that a person approves, and a message that a person approves and confirms.
pub(crate) fn story_plan() -> Value {
    json!([
        { "id": "report", "description": "Write the report.", "proof": [
            { "type": "artifact_approved", "kind": "report", "key": "spring" },
        ] },
        { "id": "send", "description": "Send it.", "needs": ["report"], "proof": [
            { "type": "tool_succeeded", "tool": "send", "args": { "what": "report" } },
            { "type": "user_confirmed", "question": "Did it arrive?" },
        ] },
    ])
}

/// A server with campaigns, and somebody who holds it to its document.
pub(crate) struct World {
    pub(crate) rig: Rig,
    pub(crate) api: Api,
}

impl World {
    pub(crate) async fn start() -> Self {
        let rig = Rig::builder().campaigns(story_plan()).start().await;
        let api = Api::of(&rig).await;
        Self { rig, api }
    }

    /// Creates a campaign from a goal, and waits for its plan.
    pub(crate) async fn begin(&self) -> String {
        let created = self.api.post("/v1/campaigns", json!({ "goal": "Tell Ann." })).await;
        assert_eq!(created.status, 201, "{}", created.text());
        let id = created.json()["id"].as_str().unwrap().to_owned();
        assert_eq!(created.header("location"), format!("/v1/campaigns/{id}"));
        self.until(&id, |it| it["waits_for"]["type"] == "plan").await;
        id
    }

    /// Creates a campaign and approves its plan; waits for the proposed report.
    pub(crate) async fn begin_work(&self) -> String {
        let id = self.begin().await;
        let plan = self.get(&id, "/plan").await;
        let approval = json!({ "version": plan["version"], "digest": plan["digest"] });
        let approved = self.post(&id, "/plan/approve", approval).await;
        assert_eq!(approved["status"], "active");
        self.until(&id, |it| it["pause"]["type"] == "nothing_to_propose").await;
        id
    }

    /// Approves the report, and waits for the call that needs an approval.
    pub(crate) async fn approve_report(&self, id: &str) -> Value {
        let items = self.get(id, "/artifacts").await["items"].clone();
        let report = &items.as_array().unwrap().iter().find(|it| it["kind"] == "report").unwrap();
        let approval = json!({ "kind": "report", "key": "spring", "version": report["version"], "digest": report["digest"] });
        self.post(id, "/artifacts/approve", approval).await;
        self.until(id, |it| it["waits_for"]["type"] == "action").await
    }

    /// Reads something of a campaign.
    pub(crate) async fn get(&self, id: &str, rest: &str) -> Value {
        let answer = self.api.get(&format!("/v1/campaigns/{id}{rest}")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    /// Changes something of a campaign.
    pub(crate) async fn post(&self, id: &str, rest: &str, body: Value) -> Value {
        let answer = self.api.post(&format!("/v1/campaigns/{id}{rest}"), body).await;
        assert_eq!(answer.status, 200, "{rest}: {}", answer.text());
        answer.json()
    }

    /// Gives a command.
    pub(crate) async fn command(&self, id: &str, body: Value) -> Value {
        self.post(id, "/commands", body).await
    }

    /// Follows a campaign until it is like this.
    pub(crate) async fn until(&self, id: &str, is_there: impl Fn(&Value) -> bool) -> Value {
        let mut events = self.api.client.events(&format!("/v1/campaigns/{id}/events"), None).await;
        loop {
            let campaign = self.get(id, "").await;
            if is_there(&campaign) {
                return campaign;
            }
            while within(events.next()).await.unwrap().json()["seq"].as_u64()
                <= campaign["last_event"].as_u64()
            {}
        }
    }

    /// Returns the status and the category of a refusal.
    pub(crate) async fn refusal(&self, path: &str, body: Value) -> (u16, String) {
        let answer = self.api.post(path, body).await;
        (answer.status, answer.json()["error"]["category"].as_str().unwrap_or_default().to_owned())
    }
}
