//! Where a loop runs: as the graph of a conversation, or inside of another graph.

use singletree_engine::Ctx;
use singletree_harness::TurnContext;
use singletree_llm::{RandomSource, Timer};

use crate::state::AgentState;

/// Tells whether the loop's history is the session's. Inside of another graph it is not: then nothing of it is shown as
/// the session's next message, nothing is said beside it, and messages that steer are not its to take.
pub(crate) fn is_outermost_loop(cx: &Ctx<AgentState>) -> bool {
    cx.namespace().len() == 1
}

/// Names this run of the loop among all of the invocation, where it is inside of another graph: the way to it, and when
/// it began. Kept in its state from its first answer on, so that it is the same after a crash.
pub(crate) fn nested_run_scope(cx: &Ctx<AgentState>) -> Option<String> {
    let path = cx.namespace().split_last().map(|(_, path)| path).filter(|it| !it.is_empty())?;
    let instances: Vec<_> = cx
        .lineage()
        .fan_out_index_chain()
        .map(|fan_out_index_chain| fan_out_index_chain.map_or(-1, u64::cast_signed))
        .collect();
    Some(format!("{}{instances:?}@{}", path.join("/"), cx.step()))
}

/// Returns the timer for the time limits of the loop: that of the chat, or that of the graph where no chat runs it.
pub(crate) fn loop_timer<'a>(cx: &'a Ctx<AgentState>, turn: Option<&'a TurnContext>) -> &'a dyn Timer {
    turn.map_or_else(|| cx.timer(), TurnContext::timer)
}

/// Returns the random numbers for the jitter of the loop's waits: those of the chat, or those of the graph where no chat
/// runs it.
pub(crate) fn loop_random_source<'a>(
    cx: &'a Ctx<AgentState>,
    turn: Option<&'a TurnContext>,
) -> &'a dyn RandomSource {
    turn.map_or_else(|| cx.random_source(), TurnContext::random_source)
}
