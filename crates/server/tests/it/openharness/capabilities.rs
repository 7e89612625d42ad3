//! The table that the engine publishes, compared with its behaviour.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use singletree_protocol::openharness::{ActionType, DenialCode, ErrorCode, NAMESPACE};

use super::asking::{Shell, checked, directives, saying};
use crate::support::Rig;

async fn table(rig: &Rig) -> Value {
    let answer = checked(rig.client().get("/v1/openharness/capabilities").await);
    answer.json()["extensions"][NAMESPACE].clone()
}

fn names<'a>(list: &'a Value, name: &str) -> BTreeSet<&'a str> {
    list.as_array().unwrap().iter().map(|it| it[name].as_str().unwrap()).collect()
}

// `asking::checked` checks each answer of each test against the same registry.
#[tokio::test]
async fn the_table_holds_every_name_that_the_engine_can_say() {
    let rig = Rig::start().await;
    let table = table(&rig).await;
    let emitted = ActionType::EMITTED.iter().map(|it| it.as_str()).collect();
    assert_eq!(names(&table["action_types"], "action_type"), emitted);
    let errors = ErrorCode::ALL.iter().map(|it| it.as_str()).collect();
    assert_eq!(names(&table["error_codes"], "code"), errors);
    let denials = DenialCode::ALL.iter().map(|it| it.as_str()).collect();
    assert_eq!(names(&table["denial_codes"], "code"), denials);
    assert_eq!(table["sop_ids"], json!(["brief", "scripted"]));
    rig.stop().await;
}

#[tokio::test]
async fn what_a_shell_is_told_of_its_capabilities_is_what_the_table_says() {
    let rig = Rig::start().await;
    let table = table(&rig).await;
    let known = names(&table["capabilities"], "capability");
    let mut asked = saying("s", "say a");
    asked["capabilities"] = known.iter().map(|it| ((*it).to_owned(), json!(true))).collect();
    asked["capabilities"]["com.example.teleport"] = json!(true);
    let answer = Shell::of(&rig).ask(&asked).await;
    for entry in table["capabilities"].as_array().unwrap() {
        let name = entry["capability"].as_str().unwrap();
        let denied = answer["capability_denials"].as_array().unwrap();
        let denied = denied.iter().find(|it| it["capability"] == name).map(|it| it["code"].clone());
        assert_eq!(answer["supported_capabilities"].get(name).is_some(), entry["offered"] == true, "{name}");
        assert_eq!(denied, entry.get("code").cloned(), "{name}");
    }
    assert!(!answer.to_string().contains("teleport"));
    rig.stop().await;
}

#[tokio::test]
async fn payloads_have_the_fields_that_the_table_says_they_have() {
    let rig = Rig::start().await;
    let table = table(&rig).await;
    let shell = Shell::of(&rig);
    let mut seen = BTreeSet::new();
    for answer in [shell.say("s", "say a").await, shell.say("t", "send").await] {
        for directive in directives(&answer) {
            let name = directive["action_type"].as_str().unwrap().to_owned();
            let entry = table["action_types"].as_array().unwrap().iter().find(|it| it["action_type"] == name);
            let entry = entry.unwrap();
            for field in entry["payload_required"].as_array().unwrap() {
                let field = field.as_str().unwrap();
                assert!(directive["payload"].get(field).is_some(), "{name} {field}");
                assert!(entry["payload_example"].get(field).is_some(), "{name} {field}");
            }
            seen.insert(name);
        }
    }
    assert_eq!(seen, BTreeSet::from(["render_message".to_owned(), "request_approval".to_owned()]));
    rig.stop().await;
}
