//! The agents that answer: constant, in-process, without any model.

use singletree::{ChatMessage, Ctx, END, Graph, Messages, NodeResult, Signal, State};

use crate::Failure;

/// How long messages and replies are, in bytes.
const MESSAGE_BYTES: usize = 200;

/// The signal that suspended sessions wait for.
pub(crate) const APPROVAL: &str = "approval";

/// Returns the text of the user's n-th message.
pub(crate) fn user_message_text(n: usize) -> String {
    pad_to_length(format!("user message {n:08} "), 'u')
}

/// Returns the constant reply.
pub(crate) fn constant_reply_text() -> String {
    pad_to_length("constant reply ".to_owned(), 'r')
}

fn pad_to_length(mut text: String, with: char) -> String {
    text.extend(std::iter::repeat_n(with, MESSAGE_BYTES.saturating_sub(text.len())));
    text
}

#[derive(Debug, State)]
pub(crate) struct BenchConversation {
    #[state(append)]
    messages: Messages,
}

async fn reply_node(_: Ctx<BenchConversation>) -> NodeResult<BenchConversation> {
    Ok(BenchConversation::update().messages([ChatMessage::assistant(constant_reply_text())]))
}

/// Makes the graph of w1, w2 and w5: one node that replies.
pub(crate) fn build_reply_graph() -> Result<Graph<BenchConversation>, Failure> {
    Ok(Graph::<BenchConversation>::builder()
        .node("model", reply_node)
        .edge("model", END)
        .entry("model")
        .compile()?)
}

#[derive(Debug, State)]
pub(crate) struct CounterState {
    pub(crate) x: i64,
}

pub(crate) async fn increment_counter(cx: Ctx<CounterState>) -> NodeResult<CounterState> {
    Ok(CounterState::update().x(cx.state().x + 1))
}

/// Makes the graph of w3: a line of nodes that count.
pub(crate) fn build_counter_line(nodes: usize) -> Result<Graph<CounterState>, Failure> {
    let name = |at: usize| format!("n{at}");
    let mut builder = Graph::<CounterState>::builder().entry(name(0));
    for at in 0..nodes {
        builder = builder.node(name(at), increment_counter);
        builder =
            if at + 1 < nodes { builder.edge(name(at), name(at + 1)) } else { builder.edge(name(at), END) };
    }
    Ok(builder.compile()?)
}

#[derive(Debug, State)]
pub(crate) struct ApprovalState {
    #[state(append)]
    messages: Messages,
    decision: String,
}

async fn draft_node(_: Ctx<ApprovalState>) -> NodeResult<ApprovalState> {
    Ok(ApprovalState::update().messages([ChatMessage::assistant(constant_reply_text())]))
}

async fn approval_node(cx: Ctx<ApprovalState>) -> NodeResult<ApprovalState> {
    cx.suspend(Signal::new(APPROVAL)).await
}

async fn finish_node(cx: Ctx<ApprovalState>) -> NodeResult<ApprovalState> {
    let text = format!("done: {}", cx.state().decision);
    Ok(ApprovalState::update().messages([ChatMessage::assistant(text)]))
}

/// Makes the graph of w4: a draft, a gate that suspends, and a final message after it.
pub(crate) fn build_approval_graph() -> Result<Graph<ApprovalState>, Failure> {
    let builder = Graph::<ApprovalState>::builder().node("draft", draft_node).node("gate", approval_node);
    let builder = builder.node("finish", finish_node).edge("draft", "gate").edge("gate", "finish");
    Ok(builder.edge("finish", END).entry("draft").compile()?)
}
