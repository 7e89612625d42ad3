//! A whole campaign, from a goal to its end; its prompts to the byte; the board and its log.

use singletree_campaign::{CampaignBoard, CampaignStatus, CampaignWait, PauseReason, PersonCommand};
use singletree_controller::NewCampaign;

use crate::rig::{Rig, ann, approve_plan, play, story_model, tenant};
use crate::world::RecordingModel;

/// The first request, to the byte, behind the rules: the state and the command, and nothing else.
const FIRST: &str = "# State\n{\"campaign\":{\"cycle\":1,\"cycles_left\":null,\"goal\":\"Tell Ann.\",\"name\":\"Tell Ann.\",\
    \"plan_approved\":false,\"plan_version\":null,\"status\":\"initializing\"},\"counts\":{\"blocked\":0,\"done\":0,\
    \"in_progress\":0,\"pending\":0},\"log\":[],\"next\":[],\"task\":null}\n\n# Command\nPropose the next action.";

// Acceptance 6; issue 20: a plan, an approval, an artifact, a proof.
#[tokio::test(start_paused = true)]
async fn a_campaign_goes_from_a_goal_to_its_end() {
    let rig = Rig::with_model(story_model());
    let id = rig.create().await;
    let board = rig.settle(&id).await;
    assert_eq!((board.status, &board.wait), (CampaignStatus::Initializing, &Some(CampaignWait::Plan)));
    rig.command(&id, approve_plan(&board)).await;
    let board = rig.settle(&id).await;
    assert_eq!(board.pause, Some(PauseReason::NothingToPropose), "the report waits for approval");
    assert!(rig.world.effects().is_empty());
    play(&rig.controller, &id, || true).await;
    let board = rig.board(&id).await;
    assert_eq!(board.status, CampaignStatus::Completed);
    assert_eq!(board.count_tasks().done, 3);
    assert_eq!(rig.world.effects(), ["note {\"to\":\"file\"}", "send {\"to\":\"Ann\"}"]);
    // Acceptance 5: the log alone rebuilds the board.
    assert_eq!(CampaignBoard::from_log(&rig.log(&id).await).unwrap(), board);
}

// spec: agent-chat-output §8.2: rules, snapshot, artifacts and command, and nothing else, to the byte.
#[tokio::test(start_paused = true)]
async fn a_request_is_made_of_rules_state_artifacts_and_command() {
    let model = RecordingModel::over(story_model());
    let rig = Rig::with_model(model.clone());
    let id = rig.create().await;
    play(&rig.controller, &id, || true).await;
    let requests = model.requests();
    let texts = |at: usize| requests[at].messages.iter().map(|it| it.text().into_owned()).collect::<Vec<_>>();
    let [rules, first] = texts(0).try_into().unwrap();
    assert_eq!(first, FIRST);
    assert!(rules.starts_with("Be brief.\n\nYou work on a campaign"), "{rules}");
    for tool in ["- note: Changes the world.\n  arguments: {", "- send: ", "- look: "] {
        assert!(rules.contains(tool), "{rules}");
    }
    for (at, request) in requests.iter().enumerate() {
        assert_eq!((texts(at).len(), &texts(at)[0]), (2, &rules), "the rules stay the same");
        let names: Vec<&str> = request.tools.iter().map(|tool| tool.name()).collect();
        assert_eq!(names, ["propose"]);
    }
    // The artifact of a task is shown while the task is in hand, and not after.
    let shown = |at: &usize| texts(*at)[1].contains("# Approved artifacts");
    let showing: Vec<usize> = (0..requests.len()).filter(shown).collect();
    assert!(!showing.is_empty() && showing.iter().all(|at| texts(*at)[1].contains("\"id\":\"report\"")));
}

#[tokio::test(start_paused = true)]
async fn the_answer_to_a_question_becomes_an_artifact_and_the_command_of_a_person_is_shown_once() {
    let model = RecordingModel::proposing(&[
        serde_json::json!({ "action": "ask_user", "question": "To whom?", "schema": {
            "type": "object", "properties": { "to": { "type": "string" } }, "required": ["to"],
        } }),
        serde_json::json!({ "action": "no_op" }),
    ]);
    let rig = Rig::with_model(model.clone());
    let id = rig.create().await;
    let board = rig.settle(&id).await;
    assert!(matches!(board.wait, Some(CampaignWait::Question { .. })), "{:?}", board.wait);
    let answer = |answer| PersonCommand::Answer { question: "To whom?".to_owned(), answer };
    let unfit = rig
        .controller
        .command(&tenant(), &id, answer(serde_json::json!({ "to": 7 })), &ann())
        .await
        .unwrap_err();
    assert_eq!(unfit.category(), "campaign_record_invalid");
    rig.command(&id, answer(serde_json::json!({ "to": "Ann" }))).await;
    rig.command(&id, PersonCommand::Free { text: "Be quick.".to_owned() }).await;
    rig.settle(&id).await;
    let requests = model.request_bytes();
    assert!(requests[1].contains("# Approved artifacts") && requests[1].contains("To whom?"));
    assert!(requests[1].contains("# Command\\nBe quick."), "{}", requests[1]);
    assert!(requests[2].contains("# Command\\nPropose the next action."), "{}", requests[2]);
    let artifacts = rig.controller.artifacts(&tenant(), &id).await.unwrap();
    assert_eq!((artifacts.len(), artifacts[0].approved_by.as_deref()), (1, Some("Ann")));
}

#[tokio::test(start_paused = true)]
async fn a_campaign_from_a_template_has_its_plan_and_is_deleted_with_everything() {
    let rig = Rig::with_model(story_model());
    let id = rig.begin_with_plan(crate::rig::story_plan()).await;
    rig.settle(&id).await;
    assert_eq!(rig.board(&id).await.status, CampaignStatus::Paused);
    let listed = rig.controller.list(&tenant(), None, 10).await.unwrap();
    assert_eq!(listed.iter().map(|board| board.campaign.id.as_str()).collect::<Vec<_>>(), [id.as_str()]);
    rig.controller.delete(&tenant(), &id, &ann()).await.unwrap();
    for gone in [
        rig.controller.get(&tenant(), &id).await.map(drop),
        rig.controller.log(&tenant(), &id, (0, 10)).await.map(drop),
        rig.controller.artifacts(&tenant(), &id).await.map(drop),
        rig.controller.delete(&tenant(), &id, &ann()).await,
    ] {
        assert_eq!(gone.unwrap_err().category(), "campaign_unknown");
    }
    let unknown = NewCampaign::from_template("weekly");
    let unknown = rig.controller.create(&tenant(), unknown, &ann()).await.unwrap_err();
    assert_eq!(unknown.category(), "campaign_template_unknown");
}
