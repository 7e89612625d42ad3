//! Running a node's directives that do something besides its end.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use singletree::engine::{Snapshot, ToolRun, add_invocation_metadata, current_metadata};
use singletree::{Ctx, NodeError};

use super::runtime::{CapturedRead, LogLine, TelemetryRuntime};
use super::steps::{NodeStepSpec, StateOperation, ToolCallSpec};
use crate::llm::{ModelCallSpec, RenderedPrompt};

/// Runs directives in order, and returns the fields that they write.
///
/// # Errors
/// That of a call, as the node passes it on; or why a directive cannot be run.
pub(crate) async fn run_node_steps(
    steps: &[NodeStepSpec],
    runtime: &TelemetryRuntime,
    cx: &Ctx<Snapshot>,
) -> Result<Map<String, Value>, NodeError> {
    let mut run = NodeStepRun { runtime, cx, prompt: None, written: Map::new() };
    for step in steps {
        run.run_step(step).await?;
    }
    Ok(run.written)
}

struct NodeStepRun<'a> {
    runtime: &'a TelemetryRuntime,
    cx: &'a Ctx<Snapshot>,
    /// The prompt that calls are made with.
    prompt: Option<RenderedPrompt>,
    written: Map<String, Value>,
}

impl NodeStepRun<'_> {
    async fn run_step(&mut self, step: &NodeStepSpec) -> Result<(), NodeError> {
        match step {
            NodeStepSpec::CallModel(call) => self.call_model(call).await?,
            NodeStepSpec::CallTool(call) => self.call_tool(call)?,
            NodeStepSpec::RenderPrompt(name) => {
                let result = self.runtime.prompts().render_prompt(name).await.map_err(NodeError::new)?;
                let identity = result.active_prompt();
                self.prompt = Some(RenderedPrompt { messages: result.into_messages(), identity });
            }
            NodeStepSpec::RenderGroup { group, members, active } => {
                self.render_group(group, members, active).await?;
            }
            NodeStepSpec::AugmentMetadata(entries) => self.augment_metadata(entries.clone())?,
            NodeStepSpec::AugmentFromFields(fields) => {
                let read = |(key, field): &(String, String)| Ok((key.clone(), self.read_field(field)?));
                let entries = fields.iter().map(read).collect::<Result<_, NodeError>>()?;
                self.augment_metadata(entries)?;
            }
            NodeStepSpec::CaptureMetadata(field) => {
                let entries = current_metadata();
                self.written.insert(field.clone(), Value::Object((*entries).clone()));
                let read = CapturedRead::new(self.cx.event_source(), entries);
                self.runtime.lock_captures().reads.push(read);
            }
            NodeStepSpec::EmitLog(line) => {
                let line = LogLine::new(line, self.cx.event_source(), current_metadata());
                self.runtime.lock_captures().logs.push(line);
            }
            NodeStepSpec::EmitGlobalSpan(name) => super::global_tracer::emit_span(name),
            NodeStepSpec::ReadObserver(read) => {
                let value = self.runtime.read_observer(read).map_err(NodeError::new)?;
                self.written.insert(read.field.clone(), value);
            }
            NodeStepSpec::ComputeFields(fields) => {
                for (field, StateOperation::InputTimesTwo) in fields {
                    let input = self.read_field("input")?;
                    let doubled = input.as_i64().map(|input| input * 2);
                    let doubled = doubled.ok_or_else(|| NodeError::new("'input' is no whole number"))?;
                    self.written.insert(field.clone(), doubled.into());
                }
            }
            NodeStepSpec::DoNothing => {}
        }
        Ok(())
    }

    async fn call_model(&mut self, call: &ModelCallSpec) -> Result<(), NodeError> {
        let calls = self.cx.calls();
        let answered = self.runtime.model().complete_call(call, &calls, self.prompt.as_ref()).await;
        let response = answered.map_err(|error| model_call_error(&error))?;
        if let Some(field) = &call.stores {
            self.written.insert(field.clone(), response.message.text().into());
        }
        Ok(())
    }

    fn call_tool(&mut self, call: &ToolCallSpec) -> Result<(), NodeError> {
        let scope = self.cx.calls().begin_tool_call(ToolRun {
            tool_name: &call.tool_name,
            arguments: call.arguments.as_ref(),
            tool_call_id: call.tool_call_id.as_deref(),
        });
        match &call.returns {
            Ok(result) => {
                scope.complete(|| result.clone());
                self.written.extend(call.stores.clone().map(|field| (field, result.clone())));
                Ok(())
            }
            Err((error_type, message)) => {
                scope.fail(Some(error_type), || message.clone());
                Err(NodeError::new(message.clone()))
            }
        }
    }

    async fn render_group(&mut self, group: &str, members: &[String], active: &str) -> Result<(), NodeError> {
        let rendered = self.runtime.prompts().render_group(group, members).await.map_err(NodeError::new)?;
        let member = rendered.members().iter().find(|member| member.prompt().name() == active);
        let member = member.ok_or_else(|| NodeError::new(format!("'{active}' is not in the group")))?;
        let identity = member.active_prompt().in_group(rendered.name());
        self.prompt = Some(RenderedPrompt { messages: member.messages().to_vec(), identity });
        Ok(())
    }

    fn augment_metadata(&self, entries: Map<String, Value>) -> Result<(), NodeError> {
        add_invocation_metadata(entries).map_err(|error| {
            let refusal = json!({"category": error.category(), "message": error.to_string()});
            self.runtime.lock_captures().refused_additions.push(refusal);
            NodeError::new(error.to_string())
        })
    }

    fn read_field(&self, field: &str) -> Result<Value, NodeError> {
        let slot = self.cx.snapshot().get(field);
        let slot = slot.ok_or_else(|| NodeError::new(format!("field '{field}' is not declared")))?;
        Ok(slot.to_json()?)
    }
}

/// Makes the error of a node whose model call failed: its category is the call's.
#[must_use]
pub(crate) fn model_call_error(error: &singletree::llm::Error) -> NodeError {
    NodeError::new(error.to_string()).with_category(error.category())
}

/// Makes a call of a model in a middleware, beside the node (`calls_llm_from_wrapper`).
///
/// # Errors
/// That of the call.
pub(crate) async fn call_model_beside_node(
    runtime: &Arc<TelemetryRuntime>,
    call: &ModelCallSpec,
    calls: &singletree::engine::ObservedCalls,
) -> Result<(), NodeError> {
    let answered = runtime.model().complete_call(call, calls, None).await;
    answered.map(drop).map_err(|error| model_call_error(&error))
}
