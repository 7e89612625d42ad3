//! The node that runs the calls of a message.

use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::{Value, json};
use singletree_engine::{Ctx, NodeError, NodeResult};
use singletree_harness::{CallLog, TurnBudget, TurnStream};
use singletree_llm::{ChatMessage, ToolCall};
use singletree_tools::{Output, Recovery};

use crate::asking::Asking;
use crate::parts::Parts;
use crate::state::AgentState;

/// Runs the calls of the last message and answers each, in call order.
///
/// What only reads runs at once with its neighbours. What changes something runs alone, after everything before it: that
/// it begins is recorded before it does, and its result before anything else starts, so that after a crash or a cancel at
/// most one call is in doubt, and only one that had begun (D7).
pub(crate) async fn tools(parts: Arc<Parts>, cx: Ctx<AgentState>) -> NodeResult<AgentState> {
    let Some(asking) = Asking::of(&cx.state().messages) else { return Ok(AgentState::update()) };
    // All or none: a message whose calls are more than may be made gets no answer.
    if let Some(budget) = cx.extension::<TurnBudget>() {
        budget.tool_calls(asking.message.tool_calls.len() as u64)?;
    }
    let running = Running {
        stream: cx.extension::<TurnStream>(),
        log: CallLog::read(&cx.records(), asking.position)?,
        parts: &parts,
        asking: &asking,
        cx: &cx,
    };
    let mut begun = None;
    let mut texts: Vec<String> = Vec::new();
    while let Some((index, _)) = asking.calls().nth(texts.len()) {
        let reads =
            asking.calls().skip(texts.len()).take_while(|(at, it)| running.changes(*at, it).is_none());
        let reads: Vec<_> = reads.map(|(at, it)| running.read(at, it)).collect();
        if reads.is_empty() {
            texts.push(running.change(index, &mut begun).await?);
        } else {
            texts.extend(join_all(reads).await);
        }
    }
    let results =
        asking.calls().zip(texts).map(|((_, call), text)| ChatMessage::tool(call.id.as_str(), text));
    Ok(AgentState::update().messages(results))
}

/// The calls of one message while they run.
struct Running<'a> {
    parts: &'a Parts,
    asking: &'a Asking,
    cx: &'a Ctx<AgentState>,
    stream: Option<Arc<TurnStream>>,
    /// What was recorded before this process, or this run of the node, began.
    log: CallLog,
}

impl Running<'_> {
    /// Says what to do with a call in doubt, if it is one that changes something and may run.
    fn changes(&self, index: u64, call: &ToolCall) -> Option<Recovery> {
        self.parts.changes(call).filter(|_| self.denial(index).is_none())
    }

    /// Returns what a denied call is answered.
    fn denial(&self, index: u64) -> Option<String> {
        let decision = self.cx.state().decisions.0.about(self.asking.position, index)?;
        let reason = decision.reason.as_deref().unwrap_or("a person said no; nothing was done");
        (!decision.approved).then(|| json!({ "status": "denied", "reason": reason }).to_string())
    }

    async fn read(&self, index: u64, call: &ToolCall) -> String {
        match self.denial(index) {
            Some(denial) => denial,
            None => self.call(index, call).await,
        }
    }

    /// Runs a call that changes something, unless it was run already, or may have been and cannot be run again. `begun` is
    /// the call that the record of the last one's result says to begin.
    async fn change(&self, index: u64, begun: &mut Option<u64>) -> Result<String, NodeError> {
        let message = self.asking.position;
        let call = self.at(index).ok_or_else(|| NodeError::new(format!("there is no call {index}")))?;
        if let Some(text) = self.log.result(index) {
            return Ok(text.to_owned());
        }
        let text = match (self.log.is_in_doubt(index), self.changes(index, call)) {
            (true, Some(Recovery::Report) | None) => unknown(),
            (true, Some(Recovery::Rerun)) => self.call(index, call).await,
            (false, _) => {
                if begun.take() != Some(index) {
                    let (name, fact) = CallLog::begun(message, index);
                    self.cx.record(&name, fact).await?;
                }
                self.call(index, call).await
            }
        };
        // What comes last is recorded by the commit of this node.
        if let Some(next) = self.at(index + 1) {
            let is_new = self.log.result(index + 1).is_none() && !self.log.is_in_doubt(index + 1);
            *begun = self.changes(index + 1, next).filter(|_| is_new).map(|_| index + 1);
            let (name, fact) = CallLog::gave(message, index, &text, *begun);
            self.cx.record(&name, fact).await?;
        }
        Ok(text)
    }

    fn at(&self, index: u64) -> Option<&ToolCall> {
        usize::try_from(index).ok().and_then(|it| self.asking.message.tool_calls.get(it))
    }

    async fn call(&self, index: u64, call: &ToolCall) -> String {
        if let Some(stream) = &self.stream {
            let arguments = call.arguments.clone().map_or(Value::Null, Value::Object);
            stream.tool_started(&call.id, &call.name, arguments);
        }
        let Output { text, success, .. } = match &self.parts.toolbox {
            Some(toolbox) => toolbox.call(call, &self.asking.key(self.cx.identity(), index)).await,
            None => Output::failed(&singletree_tools::Error::failed("there are no tools")),
        };
        if let Some(stream) = &self.stream {
            stream.tool_finished(&call.id, &call.name, success, &text);
        }
        text
    }
}

/// What a call is answered that may have had its effect already.
fn unknown() -> String {
    let reason =
        "the process ended while this ran; whether it took effect is not known, and it was not run again";
    json!({ "status": "unknown", "reason": reason }).to_string()
}
