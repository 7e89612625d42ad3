//! The protocol's own examples, read where they are and never copied.

use serde_json::{Value, json};
use singletree_protocol::openharness::{RequestMessage, ResponseMessage};

use super::asking::{Shell, error, option, saying, with_id};
use super::schema::{example, takes_request};
use crate::support::Rig;

const RESPONSES: [&str; 5] = [
    "minimal/response",
    "minimal/response-error",
    "minimal/response-protocol-unsupported",
    "im-cli/response-success",
    "im-cli/response-capability-denials",
];

#[test]
fn both_sides_read_the_examples_and_write_them_again_as_they_were() {
    for name in ["minimal/request", "im-cli/request"] {
        let Some(golden) = example(name) else { return };
        let read = RequestMessage::from_json_bytes(golden.to_string().as_bytes()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), golden, "{name}");
        assert_eq!(takes_request(&golden), Some(true));
    }
    for name in RESPONSES {
        let Some(golden) = example(name) else { return };
        let read = ResponseMessage::from_json_bytes(golden.to_string().as_bytes()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), golden, "{name}");
    }
}

/// Removes the parts that an answer may have beyond an example: our extensions, the latency, the text itself.
fn bare(mut answer: Value) -> Value {
    let response = answer["response"].as_object_mut().unwrap();
    response.remove("extensions");
    response.remove("engine_latency_ms");
    if let Some(directives) = response.get_mut("action_directives").and_then(Value::as_array_mut) {
        for directive in directives {
            let directive = directive.as_object_mut().unwrap();
            assert!(directive["payload"]["text"].is_string());
            directive.insert("payload".into(), json!({ "text": "" }));
            directive.remove("priority");
            directive.remove("risk_tier");
        }
    }
    if let Some(error) = response.get_mut("error").and_then(Value::as_object_mut) {
        assert!(error["message"].is_string());
        error.insert("message".into(), "".into());
        let details = error.get_mut("details").and_then(Value::as_object_mut);
        if let Some(details) = details {
            details.retain(|name, _| name == "field");
        }
        error.retain(|_, it| *it != json!({}));
    }
    answer
}

/// Sends the request of an example, with a text that the test's agents understand.
async fn ask(shell: &Shell, mut request: Value) -> Value {
    request["request"]["context"]["user_intent"] = "say hello".into();
    shell.ask(&request).await
}

#[tokio::test]
async fn the_smallest_request_gets_the_smallest_response() {
    let (Some(request), Some(response)) = (example("minimal/request"), example("minimal/response")) else {
        return;
    };
    let rig = Rig::start().await;
    let answer = ask(&Shell::of(&rig), request).await;
    assert_eq!(bare(answer), bare(response));
    rig.stop().await;
}

#[tokio::test]
async fn what_goes_wrong_is_worded_as_in_the_examples() {
    let Some(request) = example("minimal/request") else { return };
    let rig = Rig::start().await;
    let shell = Shell::of(&rig);

    let golden = example("minimal/response-protocol-unsupported").unwrap();
    let mut old = request.clone();
    old["protocol_version"] = "9.0.0".into();
    old["request_id"] = golden["request_id"].clone();
    assert_eq!(bare(shell.ask(&old).await), bare(golden));

    let golden = example("minimal/response-error").unwrap();
    let mut bad = request.clone();
    bad["request_id"] = golden["request_id"].clone();
    bad["correlation_id"] = golden["correlation_id"].clone();
    bad["request"]["context"].as_object_mut().unwrap().remove("user_intent");
    let mut answer = bare(shell.ask(&bad).await);
    // The example leaves out a field that each of our answers has.
    assert_eq!(answer.as_object_mut().unwrap().remove("supported_protocol_versions"), Some(json!(["1.0.0"])));
    assert_eq!(answer, bare(golden));
    rig.stop().await;
}

#[tokio::test]
async fn a_build_without_cards_denies_them_as_in_the_example() {
    let (Some(mut request), Some(golden)) =
        (example("im-cli/request"), example("im-cli/response-capability-denials"))
    else {
        return;
    };
    let rig = Rig::start().await;
    let shell = Shell::of(&rig);
    request["request_id"] = golden["request_id"].clone();
    request["correlation_id"] = golden["correlation_id"].clone();
    // Nothing that this engine would have had to issue before.
    let context = request["request"]["context"].as_object_mut().unwrap();
    context.retain(|name, _| !matches!(name.as_str(), "continuation" | "task_hint" | "attachments"));
    assert_eq!(bare(ask(&shell, request).await), bare(golden));
    rig.stop().await;
}

/// The larger example goes on with a run that its engine has issued. Here this engine has issued it, and only the
/// opaque names are put in; the unchanged example is understood, but there is no such run.
#[tokio::test]
async fn the_larger_request_goes_on_with_the_run_that_it_names() {
    let Some(mut request) = example("im-cli/request") else { return };
    let rig = Rig::start().await;
    let shell = Shell::of(&rig);
    let unknown = shell.ask(&request).await;
    assert_eq!(error(&unknown), ("continuation_invalid".into(), None));
    assert_eq!(unknown["request_id"], request["request_id"]);
    assert_eq!(unknown["correlation_id"], request["correlation_id"]);

    let context = request["request"]["context"].as_object_mut().unwrap();
    let mut begun = saying(context["session_id"].as_str().unwrap(), "send");
    begun["request"]["context"]["conversation_id"] = context["conversation_id"].clone();
    let begun = shell.ask(&with_id(begun, "first")).await;
    context.insert("continuation".into(), option(&begun, "approve"));
    let answer = shell.ask(&request).await;
    assert_eq!(answer["response"]["action_directives"][0]["payload"]["text"], "All done.");
    assert_eq!(answer["supported_capabilities"], json!({"openharness.attachments.upload": true}));
    assert_eq!(rig.world.done(), ["send a"]);
    rig.stop().await;
}
