//! `#[tool]`: an async function with a doc comment is a tool.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use singletree::llm::ToolCall;
use singletree::tool;
use singletree::tools::{
    CallContext, Effect, IdempotencyKey, Output, Recovery, Result, Tool, ToolLimits, Toolbox,
};

#[derive(Deserialize, JsonSchema)]
struct Sum {
    /// What to add.
    numbers: Vec<i64>,
}

/// Adds numbers.
///
/// As many as there are.
#[tool(effect = "read")]
async fn add(sum: Sum) -> Result<String> {
    Ok(sum.numbers.iter().sum::<i64>().to_string())
}

/// Books a table.
#[tool(name = "book-table", idempotent)]
async fn book(sum: Sum, context: CallContext) -> Result<Output> {
    Ok(Output::text(format!("{} under {}", sum.numbers.len(), context.call_id)))
}

#[tokio::test]
async fn a_function_with_a_doc_comment_is_a_tool() {
    let tools: [Arc<dyn Tool>; 2] = [Arc::new(add_tool().unwrap()), Arc::new(book_tool().unwrap())];
    let said = tools.each_ref().map(|it| {
        (it.definition().name(), it.definition().description(), it.effect(), it.on_unknown_outcome())
    });
    let expected = [
        ("add", "Adds numbers.\n\nAs many as there are.", Effect::Read, Recovery::Rerun),
        // A tool without a declared effect counts as dangerous.
        ("book-table", "Books a table.", Effect::Destructive, Recovery::Rerun),
    ];
    assert_eq!(said, expected);
    assert_eq!(tools[0].definition().parameters()["properties"]["numbers"]["description"], "What to add.");

    let toolbox = Toolbox::new(tools, ToolLimits::standard()).unwrap();
    for (name, text) in [("add", "6"), ("book-table", "3 under call")] {
        let arguments = json!({"numbers": [1, 2, 3]}).as_object().unwrap().clone();
        let call = ToolCall::new("call", name, arguments);
        let output = toolbox.call(&call, &IdempotencyKey::new("s", "c", 0, 0)).await;
        assert_eq!(output, Output::text(text));
    }
    // It is still a function.
    assert_eq!(add(Sum { numbers: vec![1, 2] }).await.unwrap(), "3");
}
