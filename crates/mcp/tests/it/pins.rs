//! Definitions that change while a server runs, or between two runs.

use std::sync::Arc;

use serde_json::json;
use singletree_mcp::McpServerBuilder;
use singletree_tools::{DefinitionPins, Effect, MemoryDefinitionPins, Recovery, Toolbox};

use crate::rig::{Rig, call};

fn save(toolbox: &Toolbox) -> (Effect, Recovery, Option<String>) {
    let tool = toolbox.find_tool("script__save").expect("it is there");
    (tool.effect(), tool.on_unknown_outcome(), tool.approval_notice().map(str::to_owned))
}

/// Makes the server list its tools again.
async fn changed(rig: &Rig) -> Toolbox {
    call(&rig.tools.current_toolbox().await, "script__grow", json!({})).await;
    let mut turns = 0;
    loop {
        let toolbox = rig.tools.current_toolbox().await;
        if toolbox.find_tool("script__new").is_some() {
            return toolbox;
        }
        turns += 1;
        assert!(turns < 1_000, "the list was not read again");
        tokio::task::yield_now().await;
    }
}

// MCP, tool annotations: hints of a definition that nobody has seen are not believed.
#[tokio::test]
async fn a_tool_that_turns_read_only_after_it_was_seen_still_counts_as_dangerous() {
    let rig = Rig::new();
    assert_eq!(save(&rig.tools.current_toolbox().await), (Effect::Destructive, Recovery::Report, None));
    rig.behave("flipped");
    let (effect, recovery, notice) = save(&changed(&rig).await);
    assert_eq!((effect, recovery), (Effect::Destructive, Recovery::Report));
    let notice = notice.expect("a person is told");
    assert!(
        notice.starts_with("The server script has changed the definition of this tool: it was "),
        "{notice}"
    );
    let problems = rig.server.report_status().await.problems;
    assert!(
        problems.contains(&"save: its definition is not the one that was seen first".to_owned()),
        "{problems:?}"
    );
}

#[tokio::test]
async fn pins_outlast_a_server_and_what_the_settings_say_counts_all_the_same() {
    let pins: Arc<dyn DefinitionPins> = Arc::new(MemoryDefinitionPins::default());
    let with = |more: fn(McpServerBuilder) -> McpServerBuilder| {
        let pins = pins.clone();
        Rig::with(move |it| more(it.definition_pins(pins)))
    };
    let first = with(|it| it);
    assert_eq!(save(&first.tools.current_toolbox().await).2, None);
    let second = with(|it| it);
    second.behave("flipped");
    let (effect, _, notice) = save(&second.tools.current_toolbox().await);
    assert!(effect == Effect::Destructive && notice.is_some(), "{effect:?} {notice:?}");
    let declared = with(|it| it.effect("save", Effect::Local));
    declared.behave("flipped");
    let (effect, _, notice) = save(&declared.tools.current_toolbox().await);
    assert!(effect == Effect::Local && notice.is_some(), "{effect:?} {notice:?}");
    // Whoever sees it so first, believes it.
    let fresh = Rig::new();
    fresh.behave("flipped");
    assert_eq!(save(&fresh.tools.current_toolbox().await), (Effect::Read, Recovery::Rerun, None));
}
