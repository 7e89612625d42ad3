//! A campaign on two servers over one PostgreSQL database.

use serde_json::{Value, json};
use singletree_test_store::PostgresServer;

use crate::home::Home;
use crate::serving::Serving;

/// How often a campaign is read until the lease of a killed server has ended and another one has looked for what it left.
const READS_MAX: u32 = 100_000;

/// A campaign, at one of the servers.
struct Campaign<'a>(&'a Serving, String);

impl Campaign<'_> {
    fn get(&self, part: &str) -> Value {
        self.0.ask("GET", &format!("/v1/campaigns/{}{part}", self.1), &Value::Null)
    }

    fn post(&self, part: &str, body: &Value) -> Value {
        self.0.ask("POST", &format!("/v1/campaigns/{}{part}", self.1), body)
    }

    fn wait_until(&self, is_so: impl Fn(&Value) -> bool) -> Value {
        let mut campaign = Value::Null;
        for _ in 0..READS_MAX {
            campaign = self.get("");
            if is_so(&campaign) {
                return campaign;
            }
        }
        panic!("{campaign}")
    }
}

#[test]
fn a_campaign_goes_on_at_another_server_when_its_own_is_killed() {
    let test = "a_campaign_goes_on_at_another_server_when_its_own_is_killed";
    let Some(postgres) = PostgresServer::start(test) else { return };
    let (home, other, url) = (Home::new(), Home::new(), postgres.create_database("campaign"));
    let (one, two) = (Serving::start(&home, &["--store", &url]), Serving::start(&other, &["--store", &url]));
    let created = one.ask("POST", "/v1/campaigns", &json!({ "goal": "Tell Ann" }));
    let id = created["id"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned();
    let begun = Campaign(&one, id.clone());
    begun.wait_until(|campaign| campaign["waits_for"]["type"] == "plan");
    // A decision may be made at any server.
    let campaign = Campaign(&two, id);
    let plan = campaign.get("/plan");
    let approval = json!({ "version": plan["version"], "digest": plan["digest"] });
    let approved = campaign.post("/plan/approve", &approval);
    assert_eq!(approved["status"], "active");
    begun.wait_until(|campaign| campaign["last_event"].as_u64() > approved["last_event"].as_u64());
    one.stop();

    campaign.wait_until(|campaign| campaign["pause"]["type"] == "nothing_to_propose");
    let artifacts = campaign.get("/artifacts");
    let report = &artifacts["items"][0];
    let approval = json!({
        "kind": report["kind"],
        "key": report["key"],
        "version": report["version"],
        "digest": report["digest"],
    });
    campaign.post("/artifacts/approve", &approval);
    let waits = campaign.wait_until(|campaign| campaign["waits_for"]["type"] == "action");
    let decision = json!({ "type": "decide", "digest": waits["call"]["digest"], "approved": true });
    campaign.post("/commands", &decision);
    campaign.wait_until(|campaign| campaign["status"] == "completed");
    let log = campaign.get("/log?limit=500");
    let count =
        |kind: &str| log["items"].as_array().unwrap().iter().filter(|entry| entry["type"] == kind).count();
    let counts = ["plan_approved", "action_began", "action_done", "completed"].map(count);
    assert_eq!(counts, [1; 4], "{log}");
    assert_eq!(count("cycle_began"), count("cycle_measured"), "{log}");
    two.stop();
}
