//! Campaigns of shells: begun by a template, shown by their id, decided by tokens.

use serde_json::{Value, json};
use singletree_durable::{
    Batch, InvocationId, Journal, RowMutation, SessionId, SessionKey, TenantId, TurnRow, TurnRowQuery,
};
use singletree_test_store::TestStore;

use super::asking::{Shell, error, message, option, question, texts, with_id};
use crate::campaigns::{World, story_plan};
use crate::support::Rig;

fn begin(intent: Option<&str>) -> Value {
    let mut context = json!({ "task_hint": { "sop_id": "letters" } });
    if let Some(intent) = intent {
        context["user_intent"] = intent.into();
    }
    message(context)
}

fn show(run_id: &str) -> Value {
    message(json!({ "continuation": { "run_id": run_id } }))
}

/// Returns the names that the engine gave.
fn run_id(answer: &Value) -> String {
    let extensions = answer["response"]["extensions"].as_object().unwrap();
    extensions.values().next().unwrap()["run_id"].as_str().unwrap().to_owned()
}

// spec: OpenHarness §9; design controller.md: `sop_id` may name a template, `run_id` a campaign
#[tokio::test]
async fn a_shell_begins_a_campaign_of_a_template_and_approves_its_plan_and_its_action() {
    let world = World::start().await;
    let shell = Shell::of(&world.rig);
    let begun = shell.ask(&with_id(begin(None), "r1")).await;
    let id = run_id(&begun);
    assert!(id.starts_with("cmp_"), "{begun}");
    assert!(texts(&begun)[0].contains("letters"), "{begun}");
    assert_eq!(question(&begun)["payload"]["signal_id"], "campaign_plan");
    assert!(
        question(&begun)["payload"]["prompt"].as_str().unwrap().contains("Did it arrive?"),
        "proofs are shown"
    );
    // The same request is the same campaign.
    assert_eq!(shell.ask(&with_id(begin(None), "r1")).await, begun);
    assert_eq!(world.api.get("/v1/campaigns").await.json()["items"].as_array().unwrap().len(), 1);

    let approved = shell.decide(&option(&begun, "approve")).await;
    assert_eq!(approved["response"]["status"], "success", "{approved}");
    assert_eq!(world.get(&id, "").await["plan"]["approved_by"], "local");
    // The other token of the question is dead, and the used one tells its result again.
    assert_eq!(error(&shell.decide(&option(&begun, "reject")).await).0, "continuation_invalid");
    world.until(&id, |it| it["pause"]["type"] == "nothing_to_propose").await;
    world.approve_report(&id).await;
    let shown = shell.ask(&show(&id)).await;
    assert_eq!(question(&shown)["payload"]["action"]["name"], "send");
    assert_eq!(world.rig.world.done(), [""; 0]);
    shell.decide(&option(&shown, "approve")).await;
    world.until(&id, |it| it["pause"]["type"] == "nothing_to_propose").await;
    assert_eq!(world.rig.world.done(), ["send report"]);
}

#[tokio::test]
async fn a_token_of_a_plan_that_was_edited_approves_nothing() {
    let world = World::start().await;
    let shell = Shell::of(&world.rig);
    let begun = shell.ask(&begin(Some("Be polite."))).await;
    let id = run_id(&begun);
    let edit = json!({ "version": 1, "tasks": story_plan() });
    assert_eq!(world.api.put(&format!("/v1/campaigns/{id}/plan"), edit).await.status, 200);
    assert_eq!(error(&shell.decide(&option(&begun, "approve")).await).0, "continuation_invalid");
    assert_eq!(world.get(&id, "").await["plan"].get("approved_by"), None);
    let log = world.get(&id, "/log?limit=500").await;
    assert!(log.to_string().contains("Be polite."), "the intent is the first command: {log}");
}

#[tokio::test]
async fn a_run_that_is_no_campaign_stays_an_invocation_and_an_unknown_one_is_unknown() {
    let world = World::start().await;
    let shell = Shell::of(&world.rig);
    assert_eq!(error(&shell.ask(&show("cmp_none")).await).0, "continuation_invalid");
    let said = shell.say("s", "say hello").await;
    assert_eq!(texts(&shell.ask(&show(&run_id(&said))).await), ["You said: hello"]);
    let unknown = message(json!({ "task_hint": { "sop_id": "nobody" } }));
    assert_eq!(
        error(&shell.ask(&unknown).await),
        ("invalid_request".into(), Some("context.task_hint.sop_id".into()))
    );
    // A server without campaigns has no templates.
    let rig = Rig::start().await;
    assert_eq!(error(&Shell::of(&rig).ask(&begin(None)).await).0, "invalid_request");
}

// Invocations have ids of their own; one that another program has stored may be that of a campaign.
#[tokio::test]
async fn a_run_id_of_a_campaign_and_an_invocation_is_refused() {
    let store = TestStore::new();
    let rig = Rig::builder().campaigns(story_plan()).start_on(store.clone()).await;
    let shell = Shell::of(&rig);
    let id = run_id(&shell.ask(&begin(None)).await);
    shell.say("s", "say hello").await;
    let key = |session: &str| SessionKey::new(TenantId::single(), SessionId::parse(session).unwrap());
    let said = store.read_session(&key("s")).await.unwrap().unwrap();
    let turns = store.read_turns(&key("s"), &TurnRowQuery::From { no: 0, limit: 1 }).await.unwrap();
    let other = key("other");
    let fence = store.acquire(&other).await.unwrap().fence;
    let turn = TurnRow { invocation: InvocationId::parse(&id).unwrap(), fence, ..turns[0].clone() };
    let mut batch = Batch::new(other, fence);
    batch.puts = vec![RowMutation::Head(said.head), RowMutation::Turn(turn)];
    store.apply(batch).await.unwrap();
    let refused = error(&shell.ask(&show(&id)).await);
    assert_eq!(refused, ("invalid_request".into(), Some("context.continuation.run_id".into())));
}
