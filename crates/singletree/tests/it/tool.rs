//! `#[tool]`: an async function with a doc comment is a tool.

use std::sync::Arc;

use serde_json::{Value, json};
use singletree::llm::ToolCall;
use singletree::tool;
use singletree::tools::{
    Effect, IdempotencyKey, IntoTool, Output, Recovery, Result, Tool, ToolContext, ToolLimits, Toolbox,
};

/// Adds numbers.
///
/// As many as there are.
#[tool(read)]
async fn add(
    /// The summands.
    numbers: Vec<i64>,
) -> Result<String> {
    Ok(numbers.iter().sum::<i64>().to_string())
}

/// Books a table.
#[tool(name = "book-table", idempotent)]
async fn book(guests: u32, cx: ToolContext, #[serde(default = "evening")] at: String) -> Result<Output> {
    Ok(Output::text(format!("{guests} at {at} under {}", cx.call_id)))
}

fn evening() -> String {
    "19:00".to_owned()
}

/// Tells that somebody is there.
#[tool(local)]
async fn ping() -> Result<String> {
    Ok("here".to_owned())
}

fn shared<Kind>(tool: impl IntoTool<Kind>) -> Arc<dyn Tool> {
    tool.into_tool().expect("a tool")
}

#[tokio::test]
async fn a_function_with_a_doc_comment_is_a_tool() {
    let tools: [Arc<dyn Tool>; 3] = [shared(add), shared(book().unwrap()), shared(shared(ping))];
    let said = tools.each_ref().map(|tool| {
        let definition = tool.definition();
        (definition.name(), definition.description(), tool.effect(), tool.on_unknown_outcome())
    });
    let expected = [
        ("add", "Adds numbers.\n\nAs many as there are.", Effect::Read, Recovery::Rerun),
        // A tool without a declared effect counts as dangerous.
        ("book-table", "Books a table.", Effect::Destructive, Recovery::Rerun),
        ("ping", "Tells that somebody is there.", Effect::Local, Recovery::Report),
    ];
    assert_eq!(said, expected);

    let toolbox = Toolbox::new(tools, ToolLimits::standard()).unwrap();
    let table = [
        ("add", json!({"numbers": [1, 2, 3]}), "6"),
        ("book-table", json!({"guests": 2}), "2 at 19:00 under call"),
        ("book-table", json!({"guests": 2, "at": "20:00"}), "2 at 20:00 under call"),
        ("ping", json!({}), "here"),
    ];
    for (name, arguments, text) in table {
        assert_eq!(call(&toolbox, name, &arguments).await, Output::text(text), "{name} {arguments}");
    }
    // It is still a function.
    assert_eq!(add::run(vec![1, 2]).await.unwrap(), "3");
    // A name of the program's own may be that of a tool.
    let add = 2;
    assert_eq!(add, 2);
}

#[tokio::test]
async fn the_parameters_are_the_schema_and_no_other_argument_is_taken() {
    let definition = book().unwrap().definition().clone();
    let parameters = definition.parameters();
    assert_eq!(parameters["required"], json!(["guests"]));
    assert_eq!(parameters["additionalProperties"], json!(false));
    assert_eq!(parameters["properties"]["at"]["default"], json!("19:00"));
    assert!(parameters["properties"].get("cx").is_none(), "the context is no argument: {parameters}");
    let numbers = shared(add).definition().parameters()["properties"]["numbers"].clone();
    assert_eq!(numbers["description"], "The summands.");

    let toolbox = Toolbox::new([shared(book)], ToolLimits::standard()).unwrap();
    for arguments in [json!({"guests": "two"}), json!({}), json!({"guests": 2, "cx": {}})] {
        let output = call(&toolbox, "book-table", &arguments).await;
        assert_eq!(output.category, Some("tool_arguments_invalid"), "{arguments}: {output:?}");
    }
}

async fn call(toolbox: &Toolbox, name: &str, arguments: &Value) -> Output {
    let call = ToolCall::new("call", name, arguments.as_object().unwrap().clone());
    toolbox.call(&call, &IdempotencyKey::new("s", "c", 0, 0)).await
}
