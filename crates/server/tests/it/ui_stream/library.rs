//! The library itself: its chat, its transport, its reader.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use singletree_server::ServerLimits;

use crate::clients::{drive, installed, run};
use crate::support::Rig;

fn texts(view: &Value) -> Vec<&str> {
    let parts = view.as_array().unwrap().iter().flat_map(|it| it["parts"].as_array().unwrap());
    parts.filter_map(|it| it["text"].as_str()).collect()
}

#[tokio::test]
async fn the_librarys_own_chat_holds_what_is_kept() {
    holds_what_is_kept("ai").await;
}

#[tokio::test]
async fn the_librarys_chat_of_version_6_holds_what_is_kept() {
    holds_what_is_kept("ai-6").await;
}

#[tokio::test]
async fn the_librarys_chat_of_version_7_holds_what_is_kept() {
    holds_what_is_kept("ai-7").await;
}

async fn holds_what_is_kept(package: &str) {
    let file = format!("node_modules/{package}/package.json");
    let Some((tools, _)) = installed("the library's chat holds what is kept", &file) else { return };
    let rig = Rig::start().await;
    let arguments = [tools.as_os_str(), package.as_ref()];
    let told = run(&rig, Path::new("node"), &arguments, "ui_stream.mjs").await;
    for name in ["whole", "short", "approval", "elsewhere", "errors", "branch", "edited", "reconnect"] {
        let page = &told[name];
        assert_eq!(page["view"], page["kept"], "{name}");
        assert_eq!((&page["status"], &page["calls"]), (&json!("ready"), &json!(0)), "{name}");
    }
    assert_eq!(told["raw"]["view"], told["raw"]["kept"]);
    assert_eq!(told["raw"]["valid"], true, "{}", told["raw"]["types"]);
    let said = ["say hello", "You said: hello", "both", "All done.", "think", "I have thought."];
    assert_eq!(texts(&told["short"]["view"]), said);
    assert_eq!(texts(&told["whole"]["view"])[6..], ["say more", "You said: more"]);
    let tools: Vec<&Value> = told["short"]["view"][3]["parts"].as_array().unwrap().iter().collect();
    let gave: Vec<_> =
        tools.iter().filter(|it| it["type"] == "dynamic-tool").map(|it| &it["output"]).collect();
    assert_eq!(gave, ["did a", "did b"]);
    let good = json!({ "isError": false, "isAbort": false, "isDisconnect": false, "finishReason": "stop" });
    assert!(told["short"]["finished"].as_array().unwrap().iter().all(|it| *it == good));

    // An approval is one message from the question to the outcome of the answers.
    let approval = told["approval"]["view"].as_array().unwrap();
    assert_eq!((approval.len(), &approval[1]["id"]), (2, &told["asked"][1]["id"]));
    let of = |kind: &str| {
        approval[1]["parts"].as_array().unwrap().iter().filter(|it| it["type"] == kind).collect::<Vec<_>>()
    };
    let states: Vec<_> = of("dynamic-tool").iter().map(|it| it["state"].clone()).collect();
    assert_eq!(states, ["output-available", "output-error"]);
    assert!(of("data-suspended").iter().all(|it| it["data"]["status"] == "answered"));
    assert_eq!(texts(&told["elsewhere"]["view"]), ["send", "All done."]);
    assert_eq!(rig.world.done().iter().filter(|it| it.starts_with("send")).count(), 2);

    // Errors: the page is told, and a failed message is sent again with another text.
    let failed = &told["failed"];
    assert_eq!((&failed["status"], failed["view"].as_array().unwrap().len()), (&json!("error"), 1));
    assert_eq!(failed["finished"][0]["isError"], true);
    let halfway = &told["halfway"][3]["parts"][1];
    assert_eq!(halfway["providerMetadata"], json!({ "singletree": { "retracted": true } }));
    assert_eq!(texts(&told["errors"]["view"]), ["fail retryable", "say it", "You said: it"]);
    let refused = told["refused"]["errors"].as_array().unwrap().last().unwrap().as_str().unwrap();
    assert!(refused.contains("server_request_invalid"), "{refused}");

    assert_eq!(told["regenerated"], true);
    let said = ["say one", "You said: one", "say two", "You said: two", "say three", "You said: three"];
    assert_eq!(texts(&told["branch"]["view"]), said);
    assert_eq!(texts(&told["edited"]["view"]), ["say else", "You said: else", "look", "All done."]);

    // A connection that breaks off cancels nothing, and the page has all of it in the end.
    assert_eq!(
        (&told["cut"]["cut"], &told["cut"]["finished"][0]["isDisconnect"]),
        (&json!(true), &json!(true))
    );
    let whole = ["slow one two three four", "You said: one two three four"];
    assert_eq!(texts(&told["reconnect"]["view"]), whole);
    assert_ne!(texts(&told["cut"]["view"]), whole);
    assert_eq!(rig.chat.session("reconnect").turns(0, 9).await.unwrap().items.len(), 1);
    assert_eq!(told["nothing"], 204);
    rig.stop().await;
}

#[tokio::test]
async fn a_page_of_version_5_that_is_reloaded_stopped_and_cut_off_knows_it() {
    is_told_all("ai").await;
}

#[tokio::test]
async fn a_page_of_version_6_that_is_reloaded_stopped_and_cut_off_knows_it() {
    is_told_all("ai-6").await;
}

#[tokio::test]
async fn a_page_of_version_7_that_is_reloaded_stopped_and_cut_off_knows_it() {
    is_told_all("ai-7").await;
}

/// Asserts that each request for another answer has retried the newest turn, and that the message is listed once.
fn is_retried(retried: &Value, message: &Value) {
    let turns = retried["turns"].as_array().unwrap();
    assert_eq!((turns.len(), &retried["status"]), (3, &json!("error")));
    assert_eq!((&turns[1]["retries"], &turns[2]["retries"]), (&turns[0]["id"], &turns[1]["id"]));
    assert_eq!(
        (retried["kept"].as_array().unwrap().len(), &retried["kept"][0]["parts"]),
        (2, &message["parts"])
    );
}

// W1, W3, W4, W5, D29, D33
async fn is_told_all(package: &str) {
    let file = format!("node_modules/{package}/package.json");
    let Some((tools, _)) = installed("a page that is reloaded, stopped and cut off", &file) else { return };
    let limits = ServerLimits { grace: Duration::from_millis(50), ..ServerLimits::default() };
    let mut rig = Rig::builder().limits(limits).start().await;
    let (at, pace) = (rig.at, rig.pace.clone());
    let obey = |line: &str| {
        match line.strip_prefix("pace ") {
            Some(pauses) => pace.pass(pauses.parse().unwrap()),
            None if line == "stop" => rig.begin_stop(),
            None => return false,
        }
        true
    };
    let arguments = [tools.as_os_str(), package.as_ref()];
    let told = drive(at, Path::new("node"), &arguments, "ui_page.mjs", obey).await;

    let question = json!([{ "type": "text", "text": "slow one two three" }]);
    assert_eq!((&told["reloaded"][0]["parts"], told["reloaded"].as_array().unwrap().len()), (&question, 1));
    assert_eq!(told["reloaded"][0]["metadata"]["status"], "open");
    assert_eq!(told["reload"]["texts"], json!(["slow one two three", "You said: one two three"]));
    assert_eq!(
        (&told["reload"]["roles"], &told["reload"]["status"]),
        (&json!(["user", "assistant"]), &json!("ready"))
    );

    assert_eq!(
        (&told["stopped"]["status"], &told["stopped"]["outcome"]["status"]),
        (&json!("ready"), &json!("errored"))
    );

    assert_eq!(told["failed"]["status"], "error");
    let kept = told["failed"]["kept"].as_array().unwrap();
    assert_eq!(texts(&told["failed"]["kept"])[0], "fail halfway");
    assert_eq!(
        (kept.len(), &kept[1]["parts"].as_array().unwrap().last().unwrap()["type"]),
        (2, &json!("data-error"))
    );

    is_retried(&told["retried"], &kept[0]);

    if package != "ai" {
        assert!(told["asked"]["approval"]["id"].as_str().unwrap().starts_with("apr_"), "{}", told["asked"]);
        let states = |of: &str| {
            let parts = told["approval"][of][1]["parts"].as_array().unwrap();
            let calls = parts.iter().filter(|part| part["type"] == "dynamic-tool");
            calls
                .map(|part| (part["state"].clone(), part["approval"]["approved"].clone()))
                .collect::<Vec<_>>()
        };
        let expected = [(json!("output-available"), json!(true)), (json!("output-denied"), json!(false))];
        assert_eq!(
            (states("view"), states("kept")),
            (expected.to_vec(), expected.to_vec()),
            "{}",
            told["approval"]
        );
        assert_eq!(rig.world.done().iter().filter(|done| done.starts_with("send")).count(), 1);
    }

    assert_eq!(told["cut"]["status"], "error");
    assert!(told["cut"]["error"].as_str().unwrap().contains("stopped"), "{}", told["cut"]);
    rig.stop().await;
}
