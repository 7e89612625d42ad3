//! Events about the calls that nodes make: of models and of tools (graph-engine §6).

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Map, Value};
use singletree_durable::Timestamp;
use singletree_graph::{Identity, NodeLineage};
use singletree_llm::{
    ActivePrompt, ChatMessage, ConversationRange, EvaluatedBound, ModelFinishReason, RetryReason,
    RuntimeConfig, TokenBudget, TokenUsage, ToolCall,
};

use super::redact::redact_message;

/// Which execution of which node an event comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct EventSource {
    /// Who the invocation is.
    pub identity: Arc<Identity>,
    /// The node that made the call; for a call of a middleware, the node that the middleware surrounds, and for the
    /// middleware of an instance or a branch, its container.
    pub node_name: Arc<str>,
    /// The path to that node, outermost first, its own name last.
    pub namespace: Arc<[Arc<str>]>,
    /// The number of the node execution; nothing for a call of a middleware.
    pub step: Option<u64>,
    /// The node's attempt, from 0. Attempts within one model call do not count here.
    pub attempt_index: u32,
    /// The boundaries to the node: one less than the namespace; as many for the middleware of an instance or a branch,
    /// whose own boundary comes last.
    pub lineage: NodeLineage,
}

/// The caller's metadata in scope when an event happened; only for observers that ask for it
/// ([`Subscription::with_caller_metadata`](crate::Subscription::with_caller_metadata)).
pub type CallerMetadata = Option<Arc<Map<String, Value>>>;

/// One call of a model: what all its events share.
#[derive(Debug, Clone, PartialEq)]
pub struct LlmCall {
    /// Where it was made.
    pub source: EventSource,
    /// The identifier of the provider's system, as `gen_ai.system` has it.
    pub provider: Arc<str>,
    /// The model that was asked.
    pub model: Arc<str>,
    /// Names the call among those of the run; the same when a run that died makes it again.
    pub call_id: Arc<str>,
    pub(crate) request: LlmRequestRecord,
}

/// The request of a call or of one of its attempts, as events carry it.
#[derive(Debug, Clone, PartialEq)]
pub struct LlmRequestRecord {
    messages: Vec<Arc<ChatMessage>>,
    config: RuntimeConfig,
    prompt: Option<Arc<ActivePrompt>>,
    conversation: Option<ConversationRange>,
}

impl LlmRequestRecord {
    /// Makes the record of a request from its sampling parameters and the identity of its prompt alone: without messages
    /// and extra fields.
    #[must_use]
    pub fn without_messages(config: RuntimeConfig, prompt: Option<ActivePrompt>) -> Self {
        Self { messages: Vec::new(), config, prompt: prompt.map(Arc::new), conversation: None }
    }

    /// Sets the messages, as they were read from the conversation that keeps them.
    #[must_use]
    pub fn with_messages(self, messages: Vec<Arc<ChatMessage>>) -> Self {
        Self { messages, ..self }
    }

    /// Returns which of the messages are those of a stored conversation.
    #[must_use]
    pub fn conversation(&self) -> Option<ConversationRange> {
        self.conversation
    }

    pub(crate) fn from_request(request: &singletree_llm::Request) -> Self {
        Self {
            messages: request.messages.clone(),
            config: request.config.clone(),
            prompt: request.prompt.clone(),
            conversation: request.conversation,
        }
    }

    /// Returns the messages in the shape of llm-provider §3, with a placeholder in place of each inline picture
    /// (observability §5.5.5): nobody who observes sees the bytes of one.
    #[must_use]
    pub fn input_messages(&self) -> Vec<Value> {
        self.messages.iter().map(|message| redact_message(message)).collect()
    }

    /// Returns the sampling parameters that the caller set, by the names of the GenAI conventions without their prefix.
    #[must_use]
    pub fn request_params(&self) -> Map<String, Value> {
        let config = &self.config;
        let mut params = Map::new();
        let mut set = |name: &str, value: Option<Value>| {
            params.extend(value.map(|value| (name.to_owned(), value)));
        };
        set("temperature", config.temperature.map(Value::from));
        set("max_tokens", config.max_tokens.map(Value::from));
        set("top_p", config.top_p.map(Value::from));
        set("seed", config.seed.map(Value::from));
        set("frequency_penalty", config.frequency_penalty.map(Value::from));
        set("presence_penalty", config.presence_penalty.map(Value::from));
        set("stop_sequences", config.stop_sequences.clone().map(Value::from));
        params
    }

    /// Returns the fields that are passed on to the provider untouched.
    #[must_use]
    pub fn request_extras(&self) -> &Map<String, Value> {
        &self.config.extras
    }

    /// Returns the identity of the prompt that the messages were rendered from.
    #[must_use]
    pub fn active_prompt(&self) -> Option<&ActivePrompt> {
        self.prompt.as_deref()
    }

    /// Returns the name of the prompt group that the call belongs to.
    #[must_use]
    pub fn active_prompt_group(&self) -> Option<&str> {
        self.active_prompt()?.group_name.as_deref()
    }

    /// Returns the bounds of the prompt's token budget that an answer exceeded.
    #[must_use]
    pub fn exceeded_bounds(&self, usage: &TokenUsage) -> Vec<EvaluatedBound> {
        let mut bounds = self.token_budget().map(|budget| budget.evaluate(usage)).unwrap_or_default();
        bounds.retain(|bound| bound.is_exceeded());
        bounds
    }

    /// Returns the token budget of the prompt.
    #[must_use]
    pub fn token_budget(&self) -> Option<TokenBudget> {
        self.active_prompt()?.token_budget
    }
}

impl LlmCall {
    /// Makes the description of a call from its stored parts.
    #[must_use]
    pub fn from_record(
        source: EventSource,
        (provider, model): (Arc<str>, Arc<str>),
        call_id: Arc<str>,
        request: LlmRequestRecord,
    ) -> Self {
        Self { source, provider, model, call_id, request }
    }

    /// Returns the request, as the caller made it.
    #[must_use]
    pub fn request(&self) -> &LlmRequestRecord {
        &self.request
    }
}

/// The answer of a model, as events carry it.
#[derive(Debug, Clone, PartialEq)]
pub struct LlmOutput {
    /// The text of the answer; nothing when it has none.
    pub output_content: Option<String>,
    /// The tool calls of the answer; nothing when it has none.
    pub output_tool_calls: Option<Vec<ToolCall>>,
    /// Why the model stopped.
    pub finish_reason: ModelFinishReason,
    /// The tokens that the provider reported.
    pub usage: TokenUsage,
    /// The provider's identifier of the response.
    pub response_id: Option<String>,
    /// The model that the provider says it answered with.
    pub response_model: Option<String>,
}

/// A failure of a call, as events carry it.
#[derive(Debug, Clone, PartialEq)]
pub struct LlmFailure {
    /// The category of llm-provider §7.
    pub error_category: Cow<'static, str>,
    /// The HTTP status, where the error was read from one.
    pub error_type: Option<String>,
    /// The error message, without secrets.
    pub error_message: String,
    /// The answer that failed its validation: of `structured_output_invalid` alone.
    pub output: Option<LlmOutput>,
}

/// A model call that ended with an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct LlmCompletionEvent {
    /// The call.
    pub call: Arc<LlmCall>,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub at: Timestamp,
    /// How long it took by the monotonic clock, with its retries, in milliseconds.
    pub latency_ms: Option<f64>,
    /// The caller's metadata.
    pub caller_invocation_metadata: CallerMetadata,
    /// The answer.
    pub output: Arc<LlmOutput>,
}

/// A model call that ended with an error of llm-provider §7. The caller gets the error, too.
#[derive(Debug, Clone, PartialEq)]
pub struct LlmFailedEvent {
    /// The call.
    pub call: Arc<LlmCall>,
    /// When it began.
    pub started_at: Timestamp,
    /// When it failed.
    pub at: Timestamp,
    /// How long its last attempt took by the monotonic clock, in milliseconds.
    pub latency_ms: Option<f64>,
    /// The caller's metadata.
    pub caller_invocation_metadata: CallerMetadata,
    /// The failure.
    pub failure: Arc<LlmFailure>,
}

/// One attempt of a model call; a call has one for each time that the provider was asked. Only for observers of
/// lifecycles ([`Subscription::with_lifecycle`](crate::Subscription::with_lifecycle)), before the event of the call.
#[derive(Debug, Clone, PartialEq)]
pub struct LlmAttemptEvent {
    /// The call.
    pub call: Arc<LlmCall>,
    /// The request of this attempt, with its overrides and corrections.
    pub request: Arc<LlmRequestRecord>,
    /// The number of the attempt within the call, from 0.
    pub llm_attempt_index: u32,
    /// Why it was made; nothing for the first.
    pub retry_reason: Option<RetryReason>,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub at: Timestamp,
    /// How long it took by the monotonic clock, in milliseconds.
    pub latency_ms: Option<f64>,
    /// The caller's metadata.
    pub caller_invocation_metadata: CallerMetadata,
    /// The answer or the failure.
    pub outcome: Result<Arc<LlmOutput>, Arc<LlmFailure>>,
}

/// The kind of a streamed piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LlmDeltaKind {
    /// Text of the answer.
    Content,
    /// Reasoning of the model.
    Reasoning,
}

impl LlmDeltaKind {
    /// Returns the specification's word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Content => "content",
            Self::Reasoning => "reasoning",
        }
    }
}

/// One piece of a streamed answer, as it arrived. The pieces of an attempt that failed are void.
#[derive(Debug, Clone, PartialEq)]
pub struct LlmTokenEvent {
    /// The call.
    pub call: Arc<LlmCall>,
    /// When it arrived.
    pub at: Timestamp,
    /// The caller's metadata.
    pub caller_invocation_metadata: CallerMetadata,
    /// The number of the piece within the call, from 0.
    pub chunk_index: u64,
    /// Its kind.
    pub delta_kind: LlmDeltaKind,
    /// The text.
    pub delta: String,
}

/// One execution of a tool: what its events share.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolExecution {
    /// Where it was begun.
    pub source: EventSource,
    /// Names the execution among those of the run; the same when a run that died makes it again.
    pub call_id: Arc<str>,
    /// The tool.
    pub tool_name: String,
    /// The id of the model's call that it answers, if it answers one.
    pub tool_call_id: Option<String>,
    /// The arguments, if there are any.
    pub arguments: Option<Map<String, Value>>,
}

/// A tool execution that returned.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCallEvent {
    /// The execution.
    pub execution: Arc<ToolExecution>,
    /// When it began.
    pub started_at: Timestamp,
    /// When it returned.
    pub at: Timestamp,
    /// How long it took by the monotonic clock, in milliseconds.
    pub latency_ms: Option<f64>,
    /// The caller's metadata.
    pub caller_invocation_metadata: CallerMetadata,
    /// The result, as the tool made it.
    pub result: Value,
}

/// A tool execution that failed.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCallFailedEvent {
    /// The execution.
    pub execution: Arc<ToolExecution>,
    /// When it began.
    pub started_at: Timestamp,
    /// When it failed.
    pub at: Timestamp,
    /// How long it took by the monotonic clock, in milliseconds.
    pub latency_ms: Option<f64>,
    /// The caller's metadata.
    pub caller_invocation_metadata: CallerMetadata,
    /// The type or code of the error, where it has one.
    pub error_type: Option<String>,
    /// The error message.
    pub error_message: String,
}
