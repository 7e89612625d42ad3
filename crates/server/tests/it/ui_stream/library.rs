//! The library itself: its chat, its transport, its reader.

use std::path::Path;

use serde_json::{Value, json};

use crate::clients::{installed, run};
use crate::support::Rig;

fn texts(view: &Value) -> Vec<&str> {
    let parts = view.as_array().unwrap().iter().flat_map(|it| it["parts"].as_array().unwrap());
    parts.filter_map(|it| it["text"].as_str()).collect()
}

#[tokio::test]
async fn the_librarys_own_chat_holds_what_is_kept() {
    let test = "the_librarys_own_chat_holds_what_is_kept";
    let Some((tools, _)) = installed(test, "node_modules/ai/package.json") else { return };
    let rig = Rig::start().await;
    let told = run(&rig, Path::new("node"), &[tools.as_os_str()], "ui_stream.mjs").await;
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

    // An approval is one message from the question to what came of the answers.
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

    // Errors: the page is told, and what failed is said again otherwise.
    let failed = &told["failed"];
    assert_eq!((&failed["status"], failed["view"].as_array().unwrap().len()), (&json!("error"), 1));
    assert_eq!(failed["finished"][0]["isError"], true);
    let halfway = &told["halfway"][1]["parts"][1];
    assert_eq!(halfway["providerMetadata"], json!({ "singletree": { "retracted": true } }));
    assert_eq!(texts(&told["errors"]["view"]), ["say it", "You said: it"]);
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
    assert_eq!(rig.chat.turns("reconnect", 0, 9).await.unwrap().items.len(), 1);
    assert_eq!(told["nothing"], 204);
    rig.stop().await;
}
