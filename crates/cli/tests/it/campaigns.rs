//! Campaigns at the command line: the demo plays one to its end, and every command of a person works between processes.

use serde_json::Value;

use crate::home::{BINARY, Home};
use crate::serving::Serving;

fn run(home: &Home, words: &[&str]) -> (i32, String) {
    let ran = home.command(BINARY).arg("campaign").args(words).output().unwrap();
    let text = String::from_utf8(ran.stdout).unwrap() + &String::from_utf8(ran.stderr).unwrap();
    (ran.status.code().unwrap(), text)
}

fn run_json(home: &Home, words: &[&str]) -> Value {
    let (_, text) = run(home, &[words, &["--json"]].concat());
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{words:?}: {error}: {text}"))
}

// Controller, acceptance 6: a plan, an approval, an artifact and a proof, without a key.
#[test]
fn the_demo_plays_a_campaign_to_its_end() {
    let home = Home::new();
    let (code, told) = run(&home, &["new", "--demo"]);
    assert_eq!(code, 0, "{told}");
    for line in [
        "the demo approves version 1 of the plan",
        "the demo approves the artifact report/spring/1",
        "the demo approves send_message",
        "The task send is done: all of its proofs were found.",
        "Demo: completed",
    ] {
        assert!(told.contains(line), "{line}: {told}");
    }
    let listed = run_json(&home, &["list"]);
    assert_eq!(listed["items"][0]["status"], "completed");
    let (_, log) = run(&home, &["log", listed["items"][0]["campaign"]["id"].as_str().unwrap()]);
    assert!(log.contains("plan_approved") && log.contains("artifact_approved"), "{log}");
}

#[test]
fn a_person_decides_from_one_process_to_the_next() {
    let home = Home::new();
    let created = run_json(&home, &["new", "Tell Ann", "--cycles", "40"]);
    let id = created["campaign"]["id"].as_str().unwrap();
    assert_eq!(run(&home, &["run", id]).0, 3, "the plan waits");
    let (code, refused) = run(&home, &["approve", id, "0000000000000000"]);
    assert_eq!(code, 2, "{refused}");
    let plan = run_json(&home, &["plan", id]);
    let digest = plan["digest"].as_str().unwrap();
    let (code, rejected) = run(&home, &["approve", id, &digest[..8], "--reject", "--reason", "too long"]);
    assert_eq!(code, 0, "{rejected}");
    let board = run_json(&home, &["show", id]);
    assert_eq!(board["command"], "The plan was rejected: too long. Propose another one.");
    assert_eq!(run(&home, &["pause", id]).0, 0);
    assert_eq!(run(&home, &["run", id]).0, 3, "it is paused");
    let (code, twice) = run(&home, &["pause", id]);
    assert!(code == 1 && twice.contains("campaign_status_unfit"), "{twice}");
    assert_eq!(run(&home, &["resume", id]).0, 0);
    assert_eq!(run(&home, &["cancel", id]).0, 0);
    assert_eq!(run(&home, &["run", id]).0, 1, "it was cancelled");
    let (code, unknown) = run(&home, &["show", "cmp_none"]);
    assert!(code == 1 && unknown.contains("campaign_unknown"), "{unknown}");
}

#[test]
fn a_template_of_the_file_begins_a_campaign_with_its_plan() {
    let home = Home::new();
    let file = home.path().join("singletree.toml");
    let text = r#"
        [models.main]
        wire = "script"
        file = "script.json"
        [agents.writer]
        instructions = "Write."
        tools = ["outbox"]
        [campaigns]
        verify_tools = []
        [campaigns.weekly]
        goal = "Write the letter."
        cycles = 9
        plan = [{ id = "letter", description = "Write it.", proof = [{ type = "user_confirmed", question = "Good?" }] }]
        schedules = [{ cron = "0 9 * * 1", command = "Begin." }]
    "#;
    std::fs::write(&file, text).unwrap();
    std::fs::write(
        home.path().join("script.json"),
        r#"{ "model": "m", "rules": [{ "when": { "user": ["*"] }, "then": { "reply": "Hi." } }] }"#,
    )
    .unwrap();
    let config = file.to_str().unwrap();
    let created = run_json(&home, &["new", "--template", "weekly", "--config", config]);
    let id = created["campaign"]["id"].as_str().unwrap();
    let named = (&created["campaign"]["name"], &created["campaign"]["budget"]["cycles"]);
    assert_eq!((named.0.as_str(), named.1.as_u64()), (Some("weekly"), Some(9)));
    assert_eq!(created["wait"]["type"], "plan");
    let (_, schedules) = run(&home, &["schedules", id, "--config", config]);
    assert!(schedules.contains("0 9 * * 1 UTC"), "{schedules}");
    let wrong = text.replace("[campaigns.weekly]", "[campaigns.writer]").replace("\"Good?\"", "\"\"");
    std::fs::write(&file, wrong).unwrap();
    let (code, told) = run(&home, &["list", "--config", config]);
    assert_eq!(code, 0, "who only reads needs no agents: {told}");
    let checked = home.command(BINARY).args(["check", config]).output().unwrap();
    let told = String::from_utf8(checked.stdout).unwrap() + &String::from_utf8(checked.stderr).unwrap();
    assert!(told.contains("is both an agent and a template of campaigns"), "{told}");
    assert!(told.contains("campaigns.writer.plan"), "{told}");
}

/// Reads the board beside a server until it is as it should be.
fn wait_for(home: &Home, id: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let mut board = Value::Null;
    // Each look is a process of its own: no pause is needed between them.
    for _ in 0..400 {
        board = run_json(home, &["show", id]);
        if is_so(&board) {
            return board;
        }
    }
    panic!("{board}")
}

// The server runs the cycles; decisions beside it are made at it.
#[test]
fn a_server_runs_the_campaign_and_a_person_decides_beside_it() {
    let home = Home::new();
    let server = Serving::start(&home, &[]);
    let created = run_json(&home, &["new", "Tell Ann"]);
    let id = created["id"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned();
    let board = wait_for(&home, &id, |board| board["wait"]["type"] == "plan");
    let (code, approved) = run(&home, &["approve", &id, board["plan"]["digest"].as_str().unwrap()]);
    assert_eq!(code, 0, "{approved}");
    wait_for(&home, &id, |board| board["pause"]["type"] == "nothing_to_propose");
    let (_, artifacts) = run(&home, &["artifacts", &id]);
    let digest = artifacts.lines().next().unwrap().rsplit(' ').next().unwrap().to_owned();
    let (code, approved) = run(&home, &["approve", &id, &digest]);
    assert_eq!(code, 0, "{approved}");
    let board = wait_for(&home, &id, |board| board["wait"]["type"] == "action");
    assert_eq!(run(&home, &["pause", &id]).0, 0);
    assert_eq!(run(&home, &["resume", &id]).0, 0);
    let digest = board["action"]["action"]["digest"].as_str().unwrap();
    let (code, approved) = run(&home, &["approve", &id, &digest[..12]]);
    assert_eq!(code, 0, "{approved}");
    let board = wait_for(&home, &id, |board| board["status"] == "completed");
    assert_eq!(board["progress"].as_array().map(Vec::len), Some(2));
    assert_eq!(run(&home, &["run", &id]).0, 0);
    let (code, told) = run(&home, &["narrate", &id]);
    assert!(code == 0 && told.contains("version 1 of the plan") && told.contains("send_message"), "{told}");
    let narrated = run_json(&home, &["narrate", &id]);
    assert!(narrated["items"].as_array().is_some_and(|items| items.len() > 5), "{narrated}");
    server.stop();
    // It was held by the server, and the campaign is as it was.
    assert!(run(&home, &["narrate", &id]).1.contains("nothing is narrated"));
    assert_eq!(run_json(&home, &["show", &id])["status"], "completed");
}

// Beside a server every command works as it does over the file, also with the beginning of an id.
#[test]
fn plans_schedules_and_confirmations_go_to_the_server_that_has_the_database() {
    let home = Home::new();
    let server = Serving::start(&home, &[]);
    let plan = home.path().join("plan.json");
    let write = |description: &str| {
        let task = serde_json::json!([{ "id": "letter", "description": description,
            "proof": [{ "type": "user_confirmed", "question": "Is it good?" }] }]);
        std::fs::write(&plan, task.to_string()).unwrap();
    };
    write("Write it.");
    let plan = plan.to_str().unwrap();
    let created = run_json(&home, &["new", "Write a letter", "--plan", plan]);
    assert_eq!(created["plan"]["version"], 1, "{created}");
    let whole = created["id"].as_str().unwrap().to_owned();
    let id = &whole[..whole.len() - 2];
    assert_eq!(run(&home, &["pause", id]).0, 0);
    write("Write a longer one.");
    let (code, told) = run(&home, &["plan", id, "--edit", plan]);
    assert_eq!(code, 0, "{told}");
    let edited = run_json(&home, &["plan", id]);
    assert_eq!(
        (&edited["version"], &edited["tasks"][0]["description"]),
        (&2.into(), &"Write a longer one.".into())
    );
    assert_eq!(run(&home, &["approve", id, edited["digest"].as_str().unwrap()]).0, 0);
    let (code, told) = run(&home, &["confirm", id, "letter"]);
    assert_eq!(code, 0, "{told}");
    let (_, log) = run(&home, &["log", id]);
    assert!(log.contains("\"confirmed\"") && log.contains("Is it good?"), "{log}");
    let (code, told) = run(&home, &["confirm", id, "none"]);
    assert!(code == 2 && told.contains("has not exactly one"), "{told}");
    let added = run_json(&home, &["schedule", id, "0 9 * * 1", "Go on.", "--zone", "Europe/Berlin"]);
    let (_, listed) = run(&home, &["schedules", id]);
    let schedule = added["id"].as_str().unwrap_or_else(|| panic!("{added}"));
    assert!(listed.contains(schedule) && listed.contains("0 9 * * 1 Europe/Berlin"), "{listed}");
    assert_eq!(run(&home, &["unschedule", id, schedule]).0, 0);
    assert!(run(&home, &["schedules", id]).1.contains("has no schedules"));
    let (code, told) = run(&home, &["new", "--demo"]);
    assert!(code == 2 && told.contains("--db"), "{told}");
    assert_eq!(run(&home, &["cancel", id]).0, 0);
    server.stop();
}
