//! The node that runs the calls of a message.

use std::sync::Arc;

use serde_json::{Value, json};
use singletree_engine::{Ctx, JsonField, NodeError, NodeResult, ToolCallScope, ToolRun};
use singletree_harness::{SideRecords, ToolCallLog, TurnContext};
use singletree_llm::{ChatMessage, ToolCall, tool_picture_line};
use singletree_tools::{Output, Recovery};

use crate::asking::ToolCallMessage;
use crate::command::{CommandAction, ProposalVerdict, is_command_session};
use crate::hand_off;
use crate::kit::AgentToolbox;
use crate::parts::AgentLoopParts;
use crate::place::{is_outermost_loop, loop_timer};
use crate::resources::find_call_origin;
use crate::state::AgentState;

/// Runs the calls of the last message and answers each, in call order.
///
/// Calls that only read run at once with their neighbours, a bounded number at a time. A call that changes something
/// runs alone, after everything before it: its beginning is recorded before it runs, and its result before anything
/// else starts, so that after a crash or a cancel at most one call is in doubt, and only one that had begun (D7). The
/// first hand-off counts.
pub(crate) async fn run_tools_node(
    parts: Arc<AgentLoopParts>,
    cx: Ctx<AgentState>,
) -> NodeResult<AgentState> {
    let Some(asking) = ToolCallMessage::from_agent_state(cx.state()) else { return Ok(AgentState::update()) };
    // All or none: a message whose calls are more than may be made gets no answer.
    let turn = TurnContext::of(&cx);
    if let Some(turn) = &turn {
        turn.budget().count_tool_calls(asking.message.tool_calls.len() as u64)?;
    }
    let member = parts.find_owner(&cx)?;
    let kit = parts.current_toolbox_of(member).await;
    let verdict = is_command_session(&cx).then(|| ProposalVerdict::judge_message(&asking.message, &kit));
    let running = RunningCalls {
        rejection: verdict.and_then(ProposalVerdict::rejection_reason),
        sides: turn.as_deref().filter(|_| is_outermost_loop(&cx)).map(TurnContext::side_records),
        log: ToolCallLog::from_records(&cx.records(), asking.record_position())?,
        turn: turn.as_deref(),
        kit: &kit,
        asking: &asking,
        cx: &cx,
    };
    let texts = running.run_all_calls().await?;
    if let (Some(sides), Some(id)) = (running.sides, &member.id) {
        for at in 1..=texts.len() as u64 {
            sides.set_side_value(asking.position + at, "agent", id.as_str());
        }
    }
    let done =
        asking.indexed_calls().zip(&texts).map(|((_, call), text)| CommandAction::from_call(call, text));
    let done = verdict.map(|_| cx.state().actions.0.with_actions(done));
    let results =
        asking.indexed_calls().zip(texts).map(|((_, call), text)| ChatMessage::tool(call.id.as_str(), text));
    let update = AgentState::update().messages(results);
    let update = match done {
        Some(done) => update.actions(JsonField(done)),
        None => update,
    };
    Ok(match running.first_hand_off() {
        Some((_, to)) => update.agent(Some(to.to_owned())),
        None => update,
    })
}

/// The calls of one message while they run.
struct RunningCalls<'a> {
    /// Why none of them is made, where none is.
    rejection: Option<&'static str>,
    kit: &'a AgentToolbox<'a>,
    asking: &'a ToolCallMessage,
    cx: &'a Ctx<AgentState>,
    turn: Option<&'a TurnContext>,
    sides: Option<&'a SideRecords>,
    /// The records from before this process, or this run of the node, began.
    log: ToolCallLog,
}

impl RunningCalls<'_> {
    async fn run_all_calls(&self) -> Result<Vec<String>, NodeError> {
        let mut begun = None;
        let mut texts: Vec<String> = Vec::new();
        while let Some((index, _)) = self.asking.indexed_calls().nth(texts.len()) {
            let reads =
                self.asking.indexed_calls().skip(texts.len()).take_while(|(at, it)| {
                    !self.has_begun(*at) && self.recovery_if_changing(*at, it).is_none()
                });
            let reads: Vec<_> = reads.map(|(at, it)| self.run_reading_call(at, it)).collect();
            if reads.is_empty() {
                texts.push(self.run_changing_call(index, &mut begun).await?);
            } else {
                texts.extend(self.kit.run_in_order(reads).await);
            }
        }
        Ok(texts)
    }

    /// Returns the call that hands the conversation over, and to whom.
    fn first_hand_off(&self) -> Option<(u64, &str)> {
        let mut calls = self.asking.indexed_calls().filter(|_| self.rejection.is_none());
        calls.find_map(|(at, call)| Some((at, self.kit.find_hand_off(call)?.to.as_str())))
    }

    /// Tells whether an interrupted run of this node has begun the call: whatever its tool is by now, it may have had its
    /// effect.
    fn has_begun(&self, index: u64) -> bool {
        self.log.is_in_doubt(index) || self.log.find_result(index).is_some()
    }

    /// Returns how to recover a call in doubt, if it changes something and may run.
    fn recovery_if_changing(&self, index: u64, call: &ToolCall) -> Option<Recovery> {
        self.kit.recovery_if_changing(call).filter(|_| self.denial_reason(index, call).is_none())
    }

    /// Returns why a call is not made: a person said no, or was never asked because its tool was
    /// harmless when the model called it.
    fn denial_reason(&self, index: u64, call: &ToolCall) -> Option<String> {
        if let Some(reason) = self.rejection {
            return Some(reason.to_owned());
        }
        let reason = match self.cx.state().decisions.0.find_decision(self.asking.position, index) {
            Some(decision) if decision.approved => return None,
            Some(decision) => decision.reason.as_deref().unwrap_or("a person said no; nothing was done"),
            None if self.kit.needs_approval(call) => {
                "this tool has changed and needs an approval that nobody was asked for; nothing was done"
            }
            None => return None,
        };
        Some(reason.to_owned())
    }

    async fn run_reading_call(&self, index: u64, call: &ToolCall) -> String {
        match (self.denial_reason(index, call), self.kit.find_hand_off(call)) {
            (Some(reason), _) => {
                if let Some(sides) = self.sides {
                    sides.set_side_value(self.asking.position + 1 + index, "denied", reason.as_str());
                }
                json!({ "status": "denied", "reason": reason }).to_string()
            }
            (None, Some(to)) if self.first_hand_off().is_some_and(|(at, _)| at == index) => {
                to.answer_call(call)
            }
            (None, Some(_)) => hand_off::refuse_second_hand_off(),
            (None, None) => self.run_call(index, call).await,
        }
    }

    /// Runs a call that changes something, unless it was run already, or may have been and cannot be run again. `begun`
    /// is the call that the record of the last one's result says to begin.
    async fn run_changing_call(&self, index: u64, begun: &mut Option<u64>) -> Result<String, NodeError> {
        let message = self.asking.record_position();
        let call = self
            .asking
            .call_at_index(index)
            .ok_or_else(|| NodeError::new(format!("there is no call {index}")))?;
        if let Some(text) = self.log.find_result(index) {
            // It ran in a run of this node that was interrupted: its side record is noted again.
            if let Some(sides) = self.sides.filter(|_| looks_like_closing(text)) {
                sides.set_side_value(self.asking.position + 1 + index, "success", true);
            }
            return Ok(text.to_owned());
        }
        let text = match (self.log.is_in_doubt(index), self.recovery_if_changing(index, call)) {
            (true, Some(Recovery::Report) | None) => {
                // The process that ran it told nobody how it ended.
                self.begin_report(call).fail(Some("process_lost"), String::new);
                unknown_outcome_answer()
            }
            (true, Some(Recovery::Rerun)) => self.run_call(index, call).await,
            (false, _) => {
                if begun.take() != Some(index) {
                    let (name, fact) = ToolCallLog::intent_record(message, index);
                    self.cx.record(&name, fact).await?;
                }
                self.run_call(index, call).await
            }
        };
        // The result of the last call is recorded by the commit of this node.
        if let Some(next) = self.asking.call_at_index(index + 1) {
            let recovery = self.recovery_if_changing(index + 1, next);
            *begun = recovery.filter(|_| !self.has_begun(index + 1)).map(|_| index + 1);
            let (name, fact) = ToolCallLog::result_record(message, index, &text, *begun);
            self.cx.record(&name, fact).await?;
        }
        Ok(text)
    }

    /// Begins to report the execution of a call to those who observe the run.
    fn begin_report(&self, call: &ToolCall) -> ToolCallScope {
        self.cx.calls().begin_tool_call(ToolRun {
            tool_name: &call.name,
            arguments: call.arguments.as_ref(),
            tool_call_id: Some(&call.id),
        })
    }

    async fn run_call(&self, index: u64, call: &ToolCall) -> String {
        if let Some(stream) = self.turn.map(TurnContext::stream) {
            let arguments = call.arguments.clone().map_or(Value::Null, Value::Object);
            stream.show_tool_start(&call.id, &call.name, arguments);
        }
        let key = self.asking.idempotency_key(self.cx.identity(), index);
        let origin = self.turn.and_then(find_call_origin);
        let timer = loop_timer(self.cx, self.turn);
        let report = self.begin_report(call);
        let output = report.run_in_trace(self.kit.run_call(call, &key, origin.as_ref(), timer)).await;
        if output.success {
            report.complete(|| Value::String(output.text.clone()));
        } else {
            report.fail(output.category, || output.text.clone());
        }
        let mut output = self.store_pictures(output).await;
        if let Some(written) = self.cx.state().decisions.0.find_unread_text(self.asking.position, index) {
            output.text.push_str(&format!("; what was written: {written}"));
        }
        if let Some(stream) = self.turn.map(TurnContext::stream) {
            stream.show_tool_end(&call.id, &call.name, output.success, &output.text);
        }
        // Who shows the result must not take it for a call that was closed without running (D8), whatever its text is.
        if let Some(sides) = self.sides.filter(|_| !output.success || looks_like_closing(&output.text)) {
            sides.set_side_value(self.asking.position + 1 + index, "success", output.success);
        }
        output.text
    }

    /// Keeps the pictures of an output with the session, and names them in its text, which alone becomes the tool
    /// message. The record of the result holds the names, so that a result which is read back is not stored again.
    async fn store_pictures(&self, mut output: Output) -> Output {
        if output.pictures.is_empty() {
            return output;
        }
        let pictures = self.turn.and_then(TurnContext::pictures);
        let mut lines = Vec::new();
        for picture in &output.pictures {
            let Some(pictures) = pictures else {
                lines.push(picture.placeholder_line(None));
                continue;
            };
            lines.push(match pictures.keep_picture(picture.bytes.clone(), Some(&picture.media_type)).await {
                Ok(blob) => tool_picture_line(&blob.media_type, blob.bytes, &blob.digest),
                // The tool has run, and its text is worth having without the picture.
                Err(error) => picture.placeholder_line(Some(error.category())),
            });
        }
        output.text = output.text_with_lines(&lines);
        output.pictures.clear();
        output
    }
}

/// Tells whether the result of a tool may be mistaken for the closing of a call (D8).
fn looks_like_closing(text: &str) -> bool {
    text.trim_start().starts_with('{') && text.contains("\"status\"")
}

/// Returns the answer to a call that may have had its effect already.
fn unknown_outcome_answer() -> String {
    let reason =
        "the process ended while this ran; whether it took effect is not known, and it was not run again";
    json!({ "status": "unknown", "reason": reason }).to_string()
}
