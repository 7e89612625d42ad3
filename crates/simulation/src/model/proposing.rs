//! The simulated model of campaigns: it mostly proposes the next step of the state, and sometimes an unfit one.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use singletree_campaign::PROPOSE;
use singletree_controller::demo::DemoCampaignModel;
use singletree_llm::{
    BoxFuture, BoxStream, ChatMessage, Error, ModelFinishReason, Provider, ProviderErrorDetail, Request,
    Response, ResponseDelta, Result, TokenUsage, ToolCall,
};

use super::SimulatedModel;
use crate::fault::FaultKind;
use crate::tool::SimulatedToolKind;

/// A model that proposes, behind the same line as [`SimulatedModel`].
#[derive(Debug)]
pub(crate) struct ProposingModel {
    line: Arc<SimulatedModel>,
    demo: DemoCampaignModel,
}

impl ProposingModel {
    /// Makes a model that proposes this plan.
    pub(crate) fn new(line: SimulatedModel, plan: Value) -> Self {
        let line = Arc::new(line);
        Self { demo: DemoCampaignModel::with_plan(line.clone(), plan), line }
    }

    async fn propose(&self, request: &Request) -> Result<Response> {
        let (line, swarm) = (&self.line, &self.line.swarm);
        line.executor.sleep_for(line.draw_micros(100, 20_000)).await;
        if let Some(refusal) = line.draw_refusal() {
            return Err(refusal);
        }
        if swarm.is_due(FaultKind::ModelStalls) {
            line.executor.sleep_for(line.draw_micros(1_000_000, 90_000_000)).await;
        }
        if swarm.is_due(FaultKind::ModelBreaksOff) {
            return Err(Error::Unavailable(ProviderErrorDetail::new("the answer broke off")));
        }
        if swarm.is_due(FaultKind::ModelMalformed) {
            return self.draw_unfit_answer().validate_against(request);
        }
        line.executor.sleep_for(Duration::from_micros(1)).await;
        self.demo.complete(request).await
    }

    /// Draws an answer that the controller must refuse, or ask a person about: the agent's word is no proof.
    fn draw_unfit_answer(&self) -> Response {
        let task = format!("t{}", self.line.random.draw_below(4));
        let risky = SimulatedToolKind::Risky.tool_name();
        let text = format!("campaign {task}");
        let proposals = [
            json!({ "action": "complete_task", "task": task }),
            json!({ "action": "select_task", "task": task }),
            json!({ "action": "execute_tool", "task": task, "tool": risky, "args": { "text": text } }),
            json!({ "action": "execute_tool", "task": task, "tool": "no_such_tool", "args": {} }),
            json!({ "action": "block_task", "task": task, "why": "It looks hard." }),
            json!({ "action": "ask_user", "task": task, "question": "Shall I go on?" }),
            json!({ "action": "approve_plan" }),
        ];
        let proposal = self.line.random.draw_from(&proposals).unwrap_or_default();
        let arguments = proposal.as_object().cloned().unwrap_or_default();
        let call = ToolCall::new("call_0", PROPOSE, arguments);
        let message = match self.line.random.draw_percent(15) {
            true => ChatMessage::assistant("I have done everything."),
            false => ChatMessage::assistant("").with_tool_calls([call]),
        };
        let reason = match message.tool_calls.is_empty() {
            true => ModelFinishReason::Stop,
            false => ModelFinishReason::ToolCalls,
        };
        Response::new(message, reason, TokenUsage::default(), json!({}))
    }
}

impl Provider for ProposingModel {
    fn model_name(&self) -> &str {
        "proposing"
    }

    fn ready(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }

    fn complete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Response>> {
        Box::pin(self.propose(request))
    }

    fn can_stream(&self) -> bool {
        true
    }

    fn stream_deltas<'a>(
        &'a self,
        request: &'a Request,
    ) -> BoxFuture<'a, Result<BoxStream<'a, Result<ResponseDelta>>>> {
        self.line.stream_deltas(request)
    }
}
