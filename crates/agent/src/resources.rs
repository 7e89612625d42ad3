//! The model, the tools and the permissions of an agent, for graphs other than the loop.

use singletree_engine::{Ctx, NodeError, State, ToolRun};
use singletree_harness::TurnContext;
use singletree_llm::{
    ChatMessage, Error as ModelError, Provider, ProviderCall, ProviderErrorDetail, Request, Response,
    ToolCall, ToolDefinition,
};
use singletree_tools::{CallOrigin, Effect, IdempotencyKey, Output, Recovery, Tool};

use crate::agent::Agent;
use crate::error::Result;
use crate::kit::AgentToolbox;
use crate::member::AgentMember;
use crate::repair::accept_response;

/// The model, the tools and the permissions of an agent, for graphs of other crates: they ask the model with the agent's
/// settings, and treat calls of its tools as the agent's loop does. Clones share them.
///
/// Of a team it has those of its first member, without hand-offs.
#[derive(Debug, Clone)]
pub struct AgentResources {
    name: String,
    member: AgentMember,
}

/// The tools of an agent at one moment, and how its calls are treated.
#[derive(Debug)]
pub struct AgentTools<'a> {
    toolbox: AgentToolbox<'a>,
}

/// How a call of a tool is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolCallTerms {
    /// How much the call may change.
    pub effect: Effect,
    /// How a call is recovered that was begun, and whose result was never recorded.
    pub recovery: Recovery,
    /// Whether a person has to approve it first.
    pub needs_approval: bool,
}

/// What a model answered to one request.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelAnswer {
    /// The message; none where the answer was not usable as one.
    pub message: Option<ChatMessage>,
    /// Why the answer is not usable as it is: it has no message, or its calls do not fit their tools.
    pub problem: Option<String>,
    /// How many tokens it took, as the provider reports them.
    pub tokens: u64,
}

impl AgentResources {
    pub(crate) fn new(name: impl Into<String>, member: AgentMember) -> Self {
        let member = AgentMember { hand_offs: Vec::new(), ..member };
        Self { name: name.into(), member }
    }

    /// Returns the name of the agent.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the instructions for its model.
    #[must_use]
    pub fn instructions(&self) -> Option<String> {
        self.member.system.as_ref().map(|system| system.text().into_owned())
    }

    /// Replaces the model.
    #[must_use]
    pub fn with_model(mut self, model: impl Provider + 'static) -> Self {
        self.member.provider = std::sync::Arc::new(model);
        self
    }

    /// Returns the model.
    #[must_use]
    pub fn model(&self) -> std::sync::Arc<dyn Provider> {
        self.member.provider.clone()
    }

    /// Returns its tools as they are now.
    pub async fn current_tools(&self) -> AgentTools<'_> {
        AgentTools { toolbox: self.member.current_toolbox().await }
    }

    /// Asks the model once, with the agent's sampling, retries and time limit. The answer counts for the budget of the
    /// turn, if there is one. An answer that cannot be used is none of the errors: [`ModelAnswer::problem`] says why.
    ///
    /// # Errors
    /// The provider's categories, `provider_unavailable` also when the model takes too long; `chat_budget_exhausted`.
    ///
    /// # Cancellation
    /// Dropping the future ends the call.
    pub async fn ask_model<S: State>(
        &self,
        cx: &Ctx<S>,
        request: Request,
    ) -> std::result::Result<ModelAnswer, NodeError> {
        let request = request.with_config(self.member.sampling.clone());
        let turn = TurnContext::of(cx);
        let timer = turn.as_deref().map_or_else(|| cx.timer(), TurnContext::timer);
        let rng = turn.as_deref().map_or_else(|| cx.random_source(), TurnContext::random_source);
        let provider = self.member.provider.as_ref();
        let calls = cx.calls();
        let report = calls.begin_model_call(provider, &request);
        let call = ProviderCall::of(provider).reporting_to(&report);
        let call = match &self.member.retry {
            Some(retry) => call.retrying(retry, timer, rng),
            None => call,
        };
        let limit = self.member.model_time_max;
        let answered = timer.run_with_timeout(limit, call.complete(&request)).await;
        let answered = answered.unwrap_or_else(|_| {
            let why = format!("the model did not answer within {} s", limit.as_secs());
            Err(ModelError::Unavailable(ProviderErrorDetail::new(why)))
        });
        report.end(answered.as_ref());
        let response = match &answered {
            Ok(response) => Some(response),
            Err(error) => error.refused_response(),
        };
        let tokens = response.map_or(0, count_tokens);
        if let (Some(turn), Some(response)) = (turn.as_deref(), response) {
            turn.budget().count_model_call(provider.model_name(), &response.usage)?;
        }
        let has_response = response.is_some();
        match accept_response(answered, &request) {
            Ok(usable) => {
                let problem = usable.problem.map(|problem| provider.redact_secrets(problem).to_string());
                Ok(ModelAnswer { message: Some(usable.response.message), problem, tokens })
            }
            Err(error) if has_response => {
                let problem = Some(provider.redact_secrets(error).to_string());
                Ok(ModelAnswer { message: None, problem, tokens })
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl AgentTools<'_> {
    /// Returns the definitions of the tools that the agent may use, in their order.
    #[must_use]
    pub fn definitions(&self) -> std::sync::Arc<[ToolDefinition]> {
        self.toolbox.definitions()
    }

    /// Returns the name and the effect of each of these tools.
    pub fn list_effects(&self) -> impl Iterator<Item = (String, Effect)> {
        let definitions = self.toolbox.definitions();
        let effects: Vec<(String, Effect)> = definitions
            .iter()
            .filter_map(|definition| {
                let tool = self.toolbox.find_usable_tool(definition.name())?;
                Some((definition.name().to_owned(), tool.effect()))
            })
            .collect();
        effects.into_iter()
    }

    /// Finds the tool of an MCP server by its name there. The names that a model is told begin with the server's.
    #[must_use]
    pub fn find_server_tool(&self, server: &str, tool: &str) -> Option<String> {
        let definitions = self.toolbox.definitions();
        let is_named = |definition: &&ToolDefinition| {
            let name = definition.name();
            let is_tool = name == tool || name.strip_suffix(tool).is_some_and(|rest| rest.ends_with("__"));
            is_tool
                && self.toolbox.find_usable_tool(name).and_then(Tool::server).is_some_and(|it| it == server)
        };
        definitions.iter().find(is_named).map(|definition| definition.name().to_owned())
    }

    /// Says how a call is treated; none where the agent has no such tool, or the arguments do not fit it.
    #[must_use]
    pub fn find_terms(&self, call: &ToolCall) -> Option<ToolCallTerms> {
        let tool = self.toolbox.find_runnable_tool(call)?;
        Some(ToolCallTerms {
            effect: tool.effect(),
            recovery: tool.on_unknown_outcome(),
            needs_approval: self.toolbox.needs_approval(call),
        })
    }

    /// Runs a call within the limits of its tool, reported to the observers of the run. Whatever goes wrong is an output.
    /// Nothing is asked and nothing recorded here.
    ///
    /// # Cancellation
    /// Dropping the future gives the call up; it may have had its effect.
    pub async fn run_call<S: State>(&self, cx: &Ctx<S>, call: &ToolCall, key: &IdempotencyKey) -> Output {
        let turn = TurnContext::of(cx);
        let timer = turn.as_deref().map_or_else(|| cx.timer(), TurnContext::timer);
        let origin = turn.as_deref().and_then(find_call_origin);
        let report = cx.calls().begin_tool_call(ToolRun {
            tool_name: &call.name,
            arguments: call.arguments.as_ref(),
            tool_call_id: Some(&call.id),
        });
        let output = report.run_in_trace(self.toolbox.run_call(call, key, origin.as_ref(), timer)).await;
        if output.success {
            report.complete(|| output.text.clone().into());
        } else {
            report.fail(output.category, || output.text.clone());
        }
        output
    }
}

/// Returns the conversation in which a turn calls tools; none outside of a session.
pub(crate) fn find_call_origin(turn: &TurnContext) -> Option<CallOrigin> {
    let key = turn.session()?;
    let fence = turn.fence().map_or(0, |fence| fence.0);
    Some(CallOrigin::new(key.tenant.as_str(), key.session.as_str()).with_fence(fence))
}

impl Agent {
    /// Builds the agent as [`Agent::build`] does, and returns its resources beside it.
    ///
    /// # Errors
    /// As [`Agent::build`].
    pub fn build_with_resources(self) -> Result<(singletree_harness::GraphAgent, AgentResources)> {
        let (name, settings) = (self.profile().id.clone(), self.settings.clone());
        let parts = self.into_loop_parts()?;
        let resources = AgentResources::new(name.clone(), parts.first.clone());
        Ok((settings.apply_to(crate::agent::build_graph_agent(name, parts)?), resources))
    }
}

fn count_tokens(response: &Response) -> u64 {
    let usage = &response.usage;
    let parts = usage.prompt_tokens.unwrap_or(0).saturating_add(usage.completion_tokens.unwrap_or(0));
    usage.total_tokens.unwrap_or(parts)
}
