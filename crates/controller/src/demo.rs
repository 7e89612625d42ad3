//! The demo of campaigns: a model that needs no key and no network, and derives each proposal from the state that it is
//! shown.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use singletree_campaign::PROPOSE;
use singletree_llm::{
    BoxFuture, BoxStream, ChatMessage, Error, ModelFinishReason, Provider, ProviderErrorDetail, Request,
    Response, ResponseDelta, Result, TokenUsage, ToolCall,
};

/// The goal of the demo campaign.
pub const GOAL: &str =
    "Write a short report about the spring campaign, have it approved, and send it to Ann.";
/// The name of the demo campaign.
pub const NAME: &str = "Demo";

/// The line before the state in the prompt of a command.
const STATE_HEADING: &str = "# State\n";

/// A model that works on campaigns by their state: it proposes a plan, takes up the tasks in order, proposes whatever a
/// missing proof asks for, and completes each task. It knows no more than the prompt has, so that it goes on after a
/// restart like any other model. Requests that are no cycle of a campaign go to another model.
#[derive(Debug, Clone)]
pub struct DemoCampaignModel {
    others: Arc<dyn Provider>,
    plan: Value,
}

impl DemoCampaignModel {
    /// Makes a model whose other requests are answered by `others`. Its plan is a report that a person approves and a
    /// message that a person approves.
    #[must_use]
    pub fn new(others: Arc<dyn Provider>) -> Self {
        let body = "The report about the spring campaign is ready.";
        let plan = json!([
            { "id": "report", "description": "Write the report.", "proof": [
                { "type": "artifact_approved", "kind": "report", "key": "spring" },
            ] },
            { "id": "send", "description": "Send word to Ann.", "needs": ["report"], "proof": [
                { "type": "tool_succeeded", "tool": "send_message", "args": { "to": "Ann", "body": body } },
            ] },
        ]);
        Self::with_plan(others, plan)
    }

    /// Makes a model that proposes this plan: an array of tasks, each with its proofs.
    #[must_use]
    pub fn with_plan(others: Arc<dyn Provider>, plan: Value) -> Self {
        Self { others, plan }
    }

    /// Returns the answer to the request of a cycle; none where it is another request.
    fn answer_cycle(&self, request: &Request) -> Result<Option<Response>> {
        if request.tools.len() != 1 || request.tools[0].name() != PROPOSE {
            return Ok(None);
        }
        request.check()?;
        let shown = request.messages.last().map(|message| message.text().into_owned()).unwrap_or_default();
        let state = shown.strip_prefix(STATE_HEADING).and_then(|rest| rest.lines().next());
        let state: Option<Value> = state.and_then(|state| serde_json::from_str(state).ok());
        let Some(state) = state else {
            let why = "the demo of campaigns needs the state of a campaign";
            return Err(Error::InvalidRequest(ProviderErrorDetail::new(why)));
        };
        let arguments = self.choose_proposal(&state).as_object().cloned().unwrap_or_default();
        let call = ToolCall::new("call_0", PROPOSE, arguments);
        let message = ChatMessage::assistant("").with_tool_calls([call]);
        let usage = TokenUsage {
            prompt_tokens: Some(shown.split_whitespace().count() as u64),
            completion_tokens: Some(1),
            ..TokenUsage::default()
        };
        Ok(Some(Response::new(message, ModelFinishReason::ToolCalls, usage, json!({}))))
    }

    fn choose_proposal(&self, state: &Value) -> Value {
        if state["campaign"]["plan_version"].is_null() {
            return json!({ "action": "replace_plan", "tasks": self.plan, "why": "The goal needs these steps." });
        }
        if state["campaign"]["plan_approved"] != true {
            return json!({ "action": "no_op" });
        }
        let task = &state["task"];
        let Some(id) = task["id"].as_str() else {
            return match state["next"][0]["id"].as_str() {
                Some(next) => json!({ "action": "select_task", "task": next }),
                None => json!({ "action": "no_op" }),
            };
        };
        let last = state["log"].as_array().and_then(|log| log.last()).map(|entry| &entry["what"]);
        let was_refused = last.is_some_and(|last| {
            (last["type"] == "action_done" && last["success"] == false)
                || (last["type"] == "action_decided" && last["approved"] == false)
        });
        if was_refused {
            return json!({ "action": "block_task", "task": id, "why": "The call was rejected, or it failed." });
        }
        let missing = task["proof"].as_array().into_iter().flatten().find(|proof| proof["found"] == false);
        match missing.map(|missing| &missing["proof"]) {
            None => json!({ "action": "complete_task", "task": id }),
            Some(proof) => propose_for_proof(state, id, proof),
        }
    }
}

/// Proposes what a missing proof asks for.
fn propose_for_proof(state: &Value, task: &str, proof: &Value) -> Value {
    match proof["type"].as_str() {
        Some("tool_succeeded") => {
            let args = proof.get("args").cloned().unwrap_or_else(|| Map::new().into());
            json!({ "action": "execute_tool", "task": task, "tool": proof["tool"], "args": args,
                "why": "The plan asks for this call." })
        }
        Some("artifact_approved") => {
            let is_proposed = state["log"].as_array().into_iter().flatten().any(|entry| {
                entry["what"]["type"] == "artifact_proposed"
                    && entry["what"]["kind"] == proof["kind"]
                    && entry["what"]["key"] == proof["key"]
            });
            if is_proposed {
                // A person decides about it.
                return json!({ "action": "no_op" });
            }
            let content = format!("{}: {}", task, state["task"]["description"].as_str().unwrap_or_default());
            json!({ "action": "propose_artifact", "task": task, "kind": proof["kind"], "key": proof["key"],
                "content": content, "why": "It is written and can be read." })
        }
        Some("mcp_read") => json!({ "action": "complete_task", "task": task }),
        _ => json!({ "action": "no_op" }),
    }
}

impl Provider for DemoCampaignModel {
    fn model_name(&self) -> &str {
        self.others.model_name()
    }

    fn system_name(&self) -> &str {
        self.others.system_name()
    }

    fn ready(&self) -> BoxFuture<'_, Result<()>> {
        self.others.ready()
    }

    fn complete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Response>> {
        Box::pin(async move {
            match self.answer_cycle(request)? {
                Some(response) => response.validate_against(request),
                None => self.others.complete(request).await,
            }
        })
    }

    fn can_stream(&self) -> bool {
        self.others.can_stream()
    }

    fn stream_deltas<'a>(
        &'a self,
        request: &'a Request,
    ) -> BoxFuture<'a, Result<BoxStream<'a, Result<ResponseDelta>>>> {
        // Cycles are asked for whole.
        self.others.stream_deltas(request)
    }

    fn redact_secrets(&self, error: Error) -> Error {
        self.others.redact_secrets(error)
    }
}
