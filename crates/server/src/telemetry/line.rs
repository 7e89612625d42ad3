//! The lines of the log: one JSON object each.

use serde::Serialize;
use singletree_durable::{SessionId, StoredTurnKind};
use singletree_engine::GraphEvent;
use singletree_harness::{ModelTokenUsage, TurnEndReport};
use singletree_telemetry::TraceContext;

use super::error_category;
use crate::native::convert_time;

/// A request that was answered; of one that is answered by a stream, that the stream has begun.
#[derive(Debug, Serialize)]
pub(crate) struct RequestLine<'a> {
    pub(crate) at: String,
    /// Always `request`.
    pub(crate) kind: &'static str,
    /// Its id, as its answer has it.
    pub(crate) request: &'a str,
    /// The trace that it is part of, as its `traceparent` says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) trace: Option<&'a str>,
    /// The correlation id of the client: `correlation_id` of an OpenHarness message, else `X-Correlation-ID`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) correlation: Option<&'a str>,
    /// The remote address of the connection: a client, or a proxy in front of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) peer: Option<&'a str>,
    pub(crate) section: &'static str,
    pub(crate) method: &'a str,
    /// Without the query.
    pub(crate) path: &'a str,
    pub(crate) status: u16,
    /// How long it took to answer, or until the stream began.
    pub(crate) ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tenant: Option<&'a str>,
    /// Who asked: the id of a key, the subject of a token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) who: Option<&'a str>,
    /// The category of the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) category: Option<&'a str>,
    /// Why, where nobody else is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) panic: Option<&'a str>,
}

/// How a try to deliver a notice ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DeliveryEnd {
    /// The endpoint has taken it.
    Delivered,
    /// It is tried again.
    Failed,
    /// It is not tried any more: it is too old, or the endpoint wants none of it.
    GivenUp,
}

impl DeliveryEnd {
    pub(super) const ALL: [Self; 3] = [Self::Delivered, Self::Failed, Self::GivenUp];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Failed => "failed",
            Self::GivenUp => "given_up",
        }
    }
}

/// An attempt to deliver a notice. Neither address nor content: an address may hold a secret.
#[derive(Debug, Serialize)]
pub(crate) struct DeliveryAttempt<'a> {
    pub(crate) tenant: &'a str,
    /// Its id, as the endpoint was told it.
    pub(crate) notice: &'a str,
    /// The how-manieth try of this process, from 1.
    pub(crate) attempt: u32,
    #[serde(rename = "outcome")]
    pub(crate) end: DeliveryEnd,
    /// The status of the endpoint's response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<u16>,
    /// Why it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) category: Option<&'static str>,
}

/// A try that failed, or was the last one.
#[derive(Debug, Serialize)]
pub(super) struct DeliveryLine<'a> {
    pub(super) at: String,
    /// Always `delivery`.
    pub(super) kind: &'static str,
    #[serde(flatten)]
    pub(super) of: &'a DeliveryAttempt<'a>,
}

/// Tools of an MCP server that its agents should have and do not have.
#[derive(Debug, Serialize)]
pub(super) struct ToolsLine<'a> {
    pub(super) at: String,
    /// Always `tools_not_offered`.
    pub(super) kind: &'static str,
    pub(super) server: &'a str,
    /// The tool that the server does not have; absent when nothing of it can be had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool: Option<&'a str>,
    pub(super) why: &'a str,
    /// Advice for the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hint: Option<&'a str>,
}

/// The number of open descriptors, at the start and when it comes near its limit or is normal again.
#[derive(Debug, Serialize)]
pub(super) struct DescriptorLine {
    pub(super) at: String,
    /// Always `descriptors`.
    pub(super) kind: &'static str,
    /// `start`, `near_limit` or `normal`.
    pub(super) state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) open: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) limit: Option<u64>,
}

/// The result of reading the configuration again.
#[derive(Debug, Serialize)]
pub(super) struct ReloadLine<'a> {
    pub(super) at: String,
    /// Always `reload`.
    pub(super) kind: &'static str,
    /// `refused`, `accepted` or `applied`.
    pub(super) state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) why: Option<&'a str>,
}

/// The store can be written no more, or again.
#[derive(Debug, Serialize)]
pub(super) struct StoreStateLine {
    pub(super) at: String,
    /// Always `store`.
    pub(super) kind: &'static str,
    /// `failed` or `writable`.
    pub(super) state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) category: Option<&'static str>,
    /// The store's own words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) why: Option<String>,
}

/// A turn that has ended.
#[derive(Debug, Serialize)]
pub(super) struct EndedTurnLine<'a> {
    at: String,
    kind: &'static str,
    tenant: &'a str,
    session: &'a str,
    turn: String,
    /// Its invocation. This is `openarmature.correlation_id` of its spans, too.
    invocation: &'a str,
    /// The trace of its invocation, and its span there: where the caller keeps traces, or this server exports them.
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    span: Option<String>,
    agent: &'a str,
    answers: &'static str,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    category: Option<&'a str>,
    /// How long it waited its place; absent where this process did not run it.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_ms: Option<u64>,
    #[serde(skip_serializing_if = "<[ModelTokenUsage]>::is_empty")]
    models: &'a [ModelTokenUsage],
}

impl<'a> EndedTurnLine<'a> {
    pub(super) fn from_report(end: &'a TurnEndReport) -> Self {
        let millis = |it: std::time::Duration| u64::try_from(it.as_millis()).unwrap_or(u64::MAX);
        let context = end.trace.as_ref().and_then(|trace| TraceContext::from_header(trace.traceparent()));
        Self {
            at: convert_time(end.ended_at).0,
            kind: "turn",
            tenant: end.session.tenant.as_str(),
            session: end.session.session.as_str(),
            turn: end.turn.to_string(),
            invocation: end.turn.invocation.as_str(),
            trace: context.map(|context| context.trace_id.to_string()),
            span: context.map(|context| context.parent_id.to_string()),
            agent: &end.agent,
            answers: match end.kind {
                StoredTurnKind::Message => "message",
                StoredTurnKind::Resume => "signal",
                StoredTurnKind::Close => "end of a wait",
            },
            outcome: end.outcome.as_str(),
            category: error_category(&end.outcome),
            queue_ms: end.started_at.map(|started_at| millis(started_at.duration_since(end.accepted_at))),
            run_ms: end.started_at.map(|started_at| millis(end.ended_at.duration_since(started_at))),
            models: &end.usage,
        }
    }
}

/// A model call that exceeded a bound of its prompt's token budget.
#[derive(Debug, Serialize)]
pub(super) struct TokenBudgetLine<'a> {
    at: String,
    /// Always `token_budget`.
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<&'a str>,
    invocation: &'a str,
    model: &'a str,
    prompt: &'a str,
    version: &'a str,
    label: &'a str,
    /// `input` or `total`.
    bound: &'static str,
    budget: u64,
    used: u64,
}

impl<'a> TokenBudgetLine<'a> {
    /// Makes the lines of a call that has ended; none where it kept within its budget.
    pub(super) fn of_event(event: &'a GraphEvent) -> Vec<Self> {
        let (call, at, output) = match event {
            GraphEvent::LlmCompletion(event) => (&event.call, event.at, Some(event.output.as_ref())),
            GraphEvent::LlmFailed(event) => (&event.call, event.at, event.failure.output.as_ref()),
            _ => return Vec::new(),
        };
        let Some((prompt, output)) = call.request().active_prompt().zip(output) else { return Vec::new() };
        let identity = &call.source.identity;
        let exceeded = call.request().exceeded_bounds(&output.usage).into_iter().map(|exceeded| Self {
            at: convert_time(at).0,
            kind: "token_budget",
            session: identity.session_id.as_ref().map(SessionId::as_str),
            invocation: identity.invocation_id.as_str(),
            model: &call.model,
            prompt: &prompt.name,
            version: &prompt.version,
            label: &prompt.label,
            bound: exceeded.kind,
            budget: exceeded.bound,
            used: exceeded.used,
        });
        exceeded.collect()
    }
}
