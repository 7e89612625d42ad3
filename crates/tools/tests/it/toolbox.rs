//! Calls that go wrong.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use singletree_llm::ToolCall;
use singletree_tools::{Effect, Error, Output, Tool, ToolContext, ToolLimits, Toolbox, TypedTool};

use crate::{call, key};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Job {
    /// What to do.
    what: What,
    /// How often.
    #[serde(default)]
    times: u8,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum What {
    Say,
    Fail,
    Panic,
    Hang,
}

async fn work(job: Job, context: ToolContext) -> Result<Output, Error> {
    match job.what {
        What::Say => Ok(Output::text("é".repeat(job.times.into()))),
        What::Fail => Err(Error::failed(format!("no luck with {}", context.call_id))),
        What::Panic => panic!("as asked"),
        What::Hang => std::future::pending().await,
    }
}

fn worker(effect: Effect) -> Arc<dyn Tool> {
    Arc::new(TypedTool::new("work", "Works.", effect, work).expect("valid"))
}

fn toolbox(effect: Effect) -> Toolbox {
    let limits = ToolLimits { time: Duration::from_secs(5), output_bytes: 60 };
    Toolbox::new([worker(effect)], limits).expect("no duplicate")
}

#[test]
fn the_schema_comes_from_the_argument_type() {
    let parameters = worker(Effect::Read).definition().parameters().clone();
    let expected = json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["what"],
        "properties": {
            "what": {"type": "string", "enum": ["say", "fail", "panic", "hang"], "description": "What to do."},
            "times": {"type": "integer", "format": "uint8", "minimum": 0, "maximum": 255,
                "default": 0, "description": "How often."},
        },
    });
    assert_eq!(parameters, expected);
}

#[test]
fn two_tools_of_one_name_are_refused() {
    let twice = [worker(Effect::Read), worker(Effect::Read)];
    let error = Toolbox::new(twice, ToolLimits::standard()).expect_err("refused");
    assert_eq!(error.category(), "tool_duplicate");
    assert_eq!(error.to_string(), "there are two tools named \"work\"");
}

#[test]
fn an_unknown_effect_counts_as_dangerous() {
    for (word, dangerous) in [("read", false), ("local", false), ("safe_write", false)] {
        assert_eq!(Effect::from_declared_word(word).is_dangerous(), dangerous, "{word}");
        assert_eq!(Effect::from_declared_word(word).as_str(), word);
    }
    assert_eq!(Effect::from_declared_word("other"), Effect::from_declared_word("destructive"));
    assert!(Effect::from_declared_word("").is_dangerous());
}

// D20: the clock of the test is paused, so that the limit passes at once.
#[tokio::test(start_paused = true)]
async fn whatever_goes_wrong_is_something_that_the_model_can_read() {
    let unreadable = ToolCall { arguments: None, ..call("work", json!({})) };
    for (effect, call, category, text) in [
        (
            Effect::Read,
            call("wrok", json!({})),
            "tool_unknown",
            "error: there is no tool \"wrok\"; the tools are: work",
        ),
        (Effect::Read, unreadable, "tool_arguments_invalid", "error: the arguments are not a JSON object"),
        (
            Effect::Read,
            call("work", json!({"what": "say", "times": "3"})),
            "tool_arguments_invalid",
            "error: the arguments do\n[cut: the whole output has 85 bytes]",
        ),
        (Effect::Read, call("work", json!({"what": "fail"})), "tool_failed", "error: no luck with call"),
        (Effect::Read, call("work", json!({"what": "panic"})), "tool_panicked", "error: the tool crashed"),
        (
            Effect::Read,
            call("work", json!({"what": "hang"})),
            "tool_timeout",
            "error: the tool did not finish within 5000 ms",
        ),
        (
            Effect::SafeWrite,
            call("work", json!({"what": "panic"})),
            "tool_panicked",
            "error: the tool crashed; whether it took effect is unknown",
        ),
    ] {
        let output = toolbox(effect).call(&call, &key(0)).await;
        let expected = Output { success: false, category: Some(category), ..Output::text(text) };
        assert_eq!(output, expected);
    }
}

#[tokio::test]
async fn a_long_output_is_cut_between_characters_and_says_so() {
    let say = |times| call("work", json!({"what": "say", "times": times}));
    let toolbox = toolbox(Effect::Read);
    assert_eq!(toolbox.call(&say(30), &key(0)).await, Output::text("é".repeat(30)));
    let cut = format!("{}\n[cut: the whole output has 62 bytes]", "é".repeat(11));
    assert_eq!(toolbox.call(&say(31), &key(0)).await, Output::text(cut));
}

#[test]
fn a_call_can_be_checked_without_running_it() {
    let toolbox = toolbox(Effect::Destructive);
    assert!(toolbox.check_call(&call("work", json!({"what": "panic"}))).is_ok());
    let error = toolbox.check_call(&call("work", json!({"what": "sing"}))).expect_err("refused");
    assert_eq!(
        error.to_string(),
        "the arguments do not fit the schema: \
         at /what: value is not one of \"say\", \"fail\" or 2 other candidates"
    );
}
