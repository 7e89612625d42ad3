//! Names that expectations of absence may use: an expectation that something is not there is only worth something where
//! the name exists.

/// The marker of a payload that was cut, as the fixtures write it.
pub(super) const TRUNCATION_MARKER: &str = "…\\[truncated, [0-9]+ bytes total\\]$";

/// The sampling parameters of requests (observability §5.5.2).
pub(super) const REQUEST_PARAMS: &[&str] = &[
    "temperature",
    "max_tokens",
    "top_p",
    "seed",
    "frequency_penalty",
    "presence_penalty",
    "stop_sequences",
];

/// The attributes that spans and log records have here, and those of the GenAI conventions and of earlier drafts that the
/// specification says they do not have.
pub(super) const SPAN_ATTRIBUTES: &[&str] = &[
    "openarmature.invocation_id",
    "openarmature.correlation_id",
    "openarmature.session_id",
    "openarmature.implementation.name",
    "openarmature.implementation.version",
    "openarmature.llm.input.messages",
    "openarmature.llm.output.content",
    "openarmature.llm.output.tool_calls",
    "openarmature.llm.output.tool_calls.count",
    "openarmature.llm.output.tool_calls.names",
    "openarmature.llm.output.tool_calls.ids",
    "openarmature.llm.request.extras",
    "openarmature.llm.request.temperature",
    "openarmature.llm.request.max_tokens",
    "openarmature.llm.request.top_p",
    "openarmature.llm.request.seed",
    "openarmature.llm.retry_reason",
    "openarmature.llm.usage.prompt_tokens",
    "openarmature.llm.usage.completion_tokens",
    "openarmature.llm.usage.total_tokens",
    "openarmature.llm.cache_read.input_tokens",
    "openarmature.llm.cache_creation.input_tokens",
    "openarmature.llm.token_budget.exceeded",
    "openarmature.prompt.token_budget.input_max_tokens",
    "openarmature.prompt.token_budget.total_max_tokens",
    "openarmature.tool.call.arguments",
    "openarmature.tool.call.result",
    "gen_ai.system",
    "gen_ai.operation.name",
    "gen_ai.request.model",
    "gen_ai.request.temperature",
    "gen_ai.request.max_tokens",
    "gen_ai.request.top_p",
    "gen_ai.request.seed",
    "gen_ai.response.model",
    "gen_ai.response.id",
    "gen_ai.response.finish_reasons",
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.output_tokens",
    "gen_ai.tool.name",
    "gen_ai.tool.call.id",
    "gen_ai.tool.call.arguments",
    "gen_ai.tool.call.result",
];
