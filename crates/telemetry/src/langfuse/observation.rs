//! Langfuse observations (spec: observability §8.3, §8.4.2–§8.4.8).

use serde_json::{Map, Value, json};
use singletree_env::Timestamp;

use crate::attribute::{AttributeValue, Attributes};
use crate::ids::SpanId;
use crate::payload::is_truncated;
use crate::span::{SpanStatus, SpanSubject, TraceSpan};

/// How much an observation deserves attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObservationLevel {
    /// No more than others.
    Default,
    /// Something is unusual.
    Warning,
    /// It failed.
    Error,
}

impl ObservationLevel {
    /// Returns Langfuse's word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Default => "DEFAULT",
            Self::Warning => "WARNING",
            Self::Error => "ERROR",
        }
    }
}

/// An observation, as Langfuse has it.
#[derive(Debug, Clone, PartialEq)]
pub struct LangfuseObservation {
    /// Its id: that of the span that it is made of.
    pub id: SpanId,
    /// Its type: `span`, `generation` or `tool`.
    pub observation_type: &'static str,
    /// Its name.
    pub name: String,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
    /// How much it deserves attention.
    pub level: ObservationLevel,
    /// Why.
    pub status_message: Option<String>,
    /// What it can be found by.
    pub metadata: Map<String, Value>,
    /// Of a generation: the model that was asked.
    pub model: Option<String>,
    /// Of a generation: the parameters that the caller set.
    pub model_parameters: Map<String, Value>,
    /// Of a generation: the tokens that the provider reported, by `input`, `output` and `total`.
    pub usage: Map<String, Value>,
    /// The messages or the arguments.
    pub input: Option<Value>,
    /// The answer or the result.
    pub output: Option<Value>,
    /// Of a generation: Langfuse's own reference of the prompt, where the prompt's source has one.
    pub prompt_entity: Option<Value>,
    /// The observations inside of it, in the order in which they began.
    pub children: Vec<Self>,
}

/// The attributes of spans that are metadata of observations, and their keys there.
const METADATA: [(&str, &str); 14] = [
    ("openarmature.correlation_id", "correlation_id"),
    ("openarmature.fan_out.concurrency", "fan_out_concurrency"),
    ("openarmature.fan_out.error_policy", "fan_out_error_policy"),
    ("openarmature.fan_out.item_count", "fan_out_item_count"),
    ("openarmature.fan_out.parent_node_name", "fan_out_parent_node_name"),
    ("openarmature.node.attempt_index", "attempt_index"),
    ("openarmature.node.branch_name", "branch_name"),
    ("openarmature.node.fan_out_index", "fan_out_index"),
    ("openarmature.node.namespace", "namespace"),
    ("openarmature.node.step", "step"),
    ("openarmature.parallel_branches.branch_count", "parallel_branches_branch_count"),
    ("openarmature.parallel_branches.error_policy", "parallel_branches_error_policy"),
    ("openarmature.parallel_branches.parent_node_name", "parallel_branches_parent_node_name"),
    ("openarmature.prompt.group_name", "prompt_group_name"),
];

/// Returns the key of the caller's metadata that an attribute is of.
pub(super) fn is_user_attribute(name: &str) -> Option<&str> {
    name.strip_prefix("openarmature.user.")
}

impl LangfuseObservation {
    pub(super) fn from_span(span: &TraceSpan, children: Vec<Self>) -> Self {
        let mut observation = Self {
            id: span.span_id,
            observation_type: "span",
            name: span.name.to_string(),
            started_at: span.started_at,
            ended_at: span.ended_at,
            level: ObservationLevel::Default,
            status_message: None,
            metadata: base_metadata(span),
            model: None,
            model_parameters: Map::new(),
            usage: Map::new(),
            input: None,
            output: None,
            prompt_entity: None,
            children,
        };
        let attributes = SpanAttributes(&span.attributes);
        match &span.subject {
            SpanSubject::Llm(call) => {
                observation.add_generation(&attributes);
                let entities =
                    call.request().active_prompt().and_then(|it| it.observability_entities.as_ref());
                observation.prompt_entity = entities.and_then(|it| it.get("langfuse_prompt")).cloned();
                observation.add_budget(&attributes);
            }
            SpanSubject::Tool(execution) => {
                observation.observation_type = "tool";
                observation.set("openarmature_tool_name", Some(execution.tool_name.as_str().into()));
                let call_id = execution.tool_call_id.as_deref().map(Value::from);
                observation.set("openarmature_tool_call_id", call_id);
                observation.input = attributes.parsed("openarmature.tool.call.arguments");
                observation.output = attributes.parsed("openarmature.tool.call.result");
            }
            _ => {}
        }
        observation.add_failure(span);
        observation
    }

    fn set(&mut self, key: &str, value: Option<Value>) {
        self.metadata.extend(value.map(|value| (key.to_owned(), value)));
    }

    /// Sets the fields of a generation (§8.4.3, §8.4.4).
    fn add_generation(&mut self, attributes: &SpanAttributes<'_>) {
        self.observation_type = "generation";
        self.model = attributes.text("openarmature.llm.model").map(str::to_owned);
        for (name, value) in attributes.0 {
            if let Some(parameter) = name.strip_prefix("gen_ai.request.").filter(|name| *name != "model") {
                self.model_parameters.insert(parameter.to_owned(), value.to_json());
            }
        }
        let counters = [
            ("input", "openarmature.llm.usage.prompt_tokens"),
            ("output", "openarmature.llm.usage.completion_tokens"),
            ("total", "openarmature.llm.usage.total_tokens"),
        ];
        let reported =
            counters.into_iter().filter_map(|(key, name)| Some((key.to_owned(), attributes.json(name)?)));
        self.usage = reported.collect();
        self.input = attributes.parsed("openarmature.llm.input.messages");
        self.output = attributes.json("openarmature.llm.output.content");
        self.set("request_extras", attributes.parsed("openarmature.llm.request.extras"));
        self.set("finish_reason", attributes.json("openarmature.llm.finish_reason"));
        self.set("system", attributes.json("gen_ai.system"));
        self.set("response_model", attributes.json("gen_ai.response.model"));
        self.set("response_id", attributes.json("gen_ai.response.id"));
        let prompt: Map<_, _> = ["name", "version", "label", "template_hash", "rendered_hash"]
            .into_iter()
            .filter_map(|key| Some((key.to_owned(), attributes.json(&format!("openarmature.prompt.{key}"))?)))
            .collect();
        self.set("prompt", (!prompt.is_empty()).then_some(Value::Object(prompt)));
    }

    /// Says whether the prompt's budget was exceeded, also where the call failed.
    fn add_budget(&mut self, attributes: &SpanAttributes<'_>) {
        let bound = |key: &str| attributes.json(&format!("openarmature.prompt.token_budget.{key}"));
        let bounds = ["input_max_tokens", "total_max_tokens"];
        let declared: Map<_, _> =
            bounds.into_iter().filter_map(|key| Some((key.to_owned(), bound(key)?))).collect();
        if declared.is_empty() {
            return;
        }
        let exceeded = attributes.json("openarmature.llm.token_budget.exceeded");
        if exceeded == Some(Value::Bool(true)) {
            let counter = |key: &str| self.usage.get(key).and_then(Value::as_u64);
            let total = counter("total").or_else(|| Some(counter("input")? + counter("output")?));
            let used =
                [("input", "input_max_tokens", counter("input")), ("total", "total_max_tokens", total)];
            let over = used.into_iter().filter_map(|(kind, key, used)| {
                let (used, bound) = (used?, declared.get(key)?.as_u64()?);
                (used > bound).then(|| format!("{kind} {used} > {bound}"))
            });
            let over = over.collect::<Vec<_>>().join(", ");
            self.level = ObservationLevel::Warning;
            self.status_message = Some(format!("token budget exceeded: {over}"));
        }
        self.set("token_budget", Some(declared.into()));
        self.set("token_budget_exceeded", exceeded);
    }

    /// Says that it failed: that comes before any warning.
    fn add_failure(&mut self, span: &TraceSpan) {
        let SpanStatus::Error { description } = &span.status else { return };
        self.level = ObservationLevel::Error;
        let category = span.attributes.get("openarmature.error.category").and_then(AttributeValue::as_text);
        self.status_message = category.map(str::to_owned).or_else(|| description.clone());
        if let (SpanSubject::Tool(_), Some(exception)) = (&span.subject, &span.exception) {
            let error_type = (!exception.exception_type.is_empty()).then(|| json!(exception.exception_type));
            self.set("error_type", error_type);
            self.set("error_message", Some(exception.message.as_str().into()));
            self.status_message = Some(exception.message.clone());
        }
    }
}

/// Returns the metadata that every observation has: what it is of, and what its caller says.
fn base_metadata(span: &TraceSpan) -> Map<String, Value> {
    let mut metadata = Map::new();
    for (name, value) in &span.attributes {
        let known = METADATA.iter().find(|(attribute, _)| attribute == name).map(|(_, key)| *key);
        if let Some(key) = known.or_else(|| is_user_attribute(name)) {
            metadata.insert(key.to_owned(), value.to_json());
        }
    }
    let subgraph = span.attributes.get("openarmature.subgraph.name").and_then(AttributeValue::as_text);
    if let Some(name) = subgraph.filter(|name| !name.is_empty()) {
        metadata.insert("subgraph_name".into(), name.into());
    }
    if !span.links.is_empty() {
        let traces: Value = span.links.iter().map(|link| link.trace_id.to_string()).collect();
        metadata.insert("detached".into(), true.into());
        metadata.insert("detached_child_trace_ids".into(), traces);
    }
    metadata
}

/// The attributes of a span, to be read as JSON.
struct SpanAttributes<'a>(&'a Attributes);

impl SpanAttributes<'_> {
    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_text()
    }

    fn json(&self, name: &str) -> Option<Value> {
        self.0.get(name).map(AttributeValue::to_json)
    }

    /// Reads an attribute that is JSON in a text. One that was cut stays the text that it is (§8.7).
    fn parsed(&self, name: &str) -> Option<Value> {
        let text = self.text(name)?;
        let parsed = (!is_truncated(text)).then(|| serde_json::from_str(text).ok()).flatten();
        Some(parsed.unwrap_or_else(|| text.into()))
    }
}
