//! What a case says of its telemetry: the server of its model, its prompts, its recorders and their settings
//! (conformance-adapter §5.5).

use serde_json::{Value, json};
use singletree::engine::Snapshot;
use singletree_telemetry::{LangfuseSettings, PayloadCap, SpanSettings, StateView};

use super::collectors::{CounterKind, EventCounterSpec, TypedCollectorSpec};
use super::langfuse_client::{KEY, LangfuseClientSpec};
use crate::failure::{CaseFailure, Outcome};
use crate::fields::{LocatedNode, YamlMapReader};
use crate::llm::GraphModelSpec;
use crate::prompts::GraphPromptsSpec;

/// The telemetry of a case.
#[derive(Debug, Clone, Default)]
pub(crate) struct TelemetryCaseSpec {
    pub(super) model: GraphModelSpec,
    pub(super) prompts: GraphPromptsSpec,
    pub(super) collectors: Vec<TypedCollectorSpec>,
    pub(super) counters: Vec<EventCounterSpec>,
    pub(super) enable_metrics: bool,
    /// The settings of spans.
    pub(super) spans: SpanSettings,
    detached_subgraphs: Vec<String>,
    detached_fan_outs: Vec<String>,
    langfuse: LangfuseObserverSpec,
    /// The client that traces are handed to, if there is one.
    pub(super) client: Option<LangfuseClientSpec>,
    /// Whether anything in the case is about telemetry: only then are recorders attached.
    is_needed: bool,
}

/// The settings of the Langfuse recorder.
#[derive(Debug, Clone, Default)]
struct LangfuseObserverSpec {
    disable_provider_payload: Option<bool>,
    disable_state_payload: Option<bool>,
    payload_byte_cap: Option<usize>,
    input_view: Option<String>,
    output_view: Option<String>,
}

impl TelemetryCaseSpec {
    /// Takes the telemetry out of a case.
    ///
    /// # Errors
    /// When the fixture block has an unknown key or value.
    pub(crate) fn take_from_block(block: &mut YamlMapReader) -> Outcome<Self> {
        let before = block.remaining_keys().count();
        let mut flag = |key: &str| -> Outcome<Option<bool>> {
            block.take_value(key).map(|value| value.as_bool()).transpose()
        };
        let mut spec = Self { enable_metrics: flag("enable_metrics")?.unwrap_or(false), ..Self::default() };
        let mut spans = SpanSettings::new()
            .disable_llm_spans(flag("disable_llm_spans")?.unwrap_or(false))
            .disable_genai_semconv(flag("disable_genai_semconv")?.unwrap_or(false));
        if let Some(disable) = flag("disable_provider_payload")? {
            spans = spans.disable_provider_payload(disable);
        }
        // The provider itself is reserved before the case is read.
        flag("caller_global_otel_active")?;
        spec.detached_subgraphs = take_names(block, "detached_subgraphs")?;
        spec.detached_fan_outs = take_names(block, "detached_fan_outs")?;
        spec.spans = spans
            .detach_subgraphs(spec.detached_subgraphs.clone())
            .detach_fan_outs(spec.detached_fan_outs.clone());
        for key in ["langfuse_observer", "langfuse_observer_config"] {
            if let Some(settings) = block.take_value(key) {
                spec.langfuse = parse_langfuse_observer(settings)?;
            }
        }
        spec.client = block.take_value(KEY).map(LangfuseClientSpec::from_yaml_node).transpose()?;
        if let Some(list) = block.take_value("typed_observers") {
            let each = list.into_items()?.into_iter().map(TypedCollectorSpec::from_yaml_node);
            spec.collectors = each.collect::<Outcome<_>>()?;
        }
        if let Some(list) = block.take_value("queryable_observers") {
            let each = list.into_items()?.into_iter().map(parse_event_counter);
            spec.counters = each.collect::<Outcome<_>>()?;
        }
        spec.model = GraphModelSpec::take_from_block(block)?;
        spec.prompts = GraphPromptsSpec::take_from_block(block)?;
        spec.is_needed = block.remaining_keys().count() < before;
        Ok(spec)
    }

    /// Notes that an expectation of the case is about telemetry.
    pub(crate) fn require_recorders(&mut self) {
        self.is_needed = true;
    }

    /// Tells whether recorders are attached.
    #[must_use]
    pub(crate) fn needs_recorders(&self) -> bool {
        self.is_needed
    }

    /// Makes the settings of Langfuse traces.
    ///
    /// # Errors
    /// When the cap of payloads is too low.
    pub(super) fn langfuse_settings(&self) -> Outcome<LangfuseSettings> {
        let mut settings = LangfuseSettings::new()
            .detach_subgraphs(self.detached_subgraphs.clone())
            .detach_fan_outs(self.detached_fan_outs.clone());
        if let Some(disable) = self.langfuse.disable_provider_payload {
            settings = settings.disable_provider_payload(disable);
        }
        if let Some(disable) = self.langfuse.disable_state_payload {
            settings = settings.disable_state_payload(disable);
        }
        if let Some(bytes) = self.langfuse.payload_byte_cap {
            let cap = PayloadCap::new(bytes).map_err(|least| {
                CaseFailure::build_error("langfuse_observer", format!("a cap has {least} bytes at least"))
            })?;
            settings = settings.payload_cap(cap);
        }
        if let Some(view) = &self.langfuse.input_view {
            settings = settings.trace_input_from_state(build_state_view(view)?);
        }
        if let Some(view) = &self.langfuse.output_view {
            settings = settings.trace_output_from_state(build_state_view(view)?);
        }
        Ok(settings)
    }
}

fn take_names(block: &mut YamlMapReader, key: &str) -> Outcome<Vec<String>> {
    block.take_value(key).map(LocatedNode::into_texts).transpose().map(Option::unwrap_or_default)
}

fn parse_langfuse_observer(spot: LocatedNode) -> Outcome<LangfuseObserverSpec> {
    let mut block = spot.into_map_reader()?;
    let mut flag = |key: &str| block.take_value(key).map(|value| value.as_bool()).transpose();
    let mut spec = LangfuseObserverSpec {
        disable_provider_payload: flag("disable_provider_payload")?,
        disable_state_payload: flag("disable_state_payload")?,
        ..LangfuseObserverSpec::default()
    };
    if let Some(cap) = block.take_value("payload_byte_cap") {
        spec.payload_byte_cap =
            Some(usize::try_from(cap.as_integer()?).map_err(|_| cap.unexpected_kind("a number of bytes"))?);
    }
    spec.input_view = block.take_text("trace_input_from_state")?;
    spec.output_view = block.take_text("trace_output_from_state")?;
    block.reject_remaining_keys()?;
    Ok(spec)
}

/// Makes the view of a state that a fixture names (observability 037).
fn build_state_view(name: &str) -> Outcome<StateView> {
    let show: fn(&Snapshot) -> Option<Value> = match name {
        "returns_job_input_summary" => |_| Some(json!({"summary": "job-input"})),
        "returns_job_output_summary" => |_| Some(json!({"summary": "job-output"})),
        "returns_null" => |_| None,
        "returns_state_snapshot" => |state| state.to_json().ok().map(Value::Object),
        other => {
            return Err(CaseFailure::reader_error("langfuse_observer", format!("unknown view '{other}'")));
        }
    };
    Ok(StateView::new(show))
}

fn parse_event_counter(spot: LocatedNode) -> Outcome<EventCounterSpec> {
    let mut block = spot.into_map_reader()?;
    let kind = block.take_required("kind")?;
    let spec = EventCounterSpec {
        name: block.take_required("name")?.as_text()?.to_owned(),
        kind: match kind.as_text()? {
            "event_counter" => CounterKind::NodeEvents,
            "typed_event_counter" => CounterKind::AllEvents,
            other => return Err(CaseFailure::reader_error(&kind.path, format!("unknown kind '{other}'"))),
        },
    };
    block.reject_remaining_keys()?;
    Ok(spec)
}
