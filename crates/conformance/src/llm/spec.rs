//! A case of llm-provider, read strictly.

use std::sync::Arc;

use serde_json::Value;
use singletree_http::{Secret, Transport};
use singletree_providers::{Capabilities, HttpProvider, Wire};

use super::call::ProviderCallSpec;
use super::peer::{BASE_URL, HealthProbeAnswer, KEY, MockHttpAnswer};
use crate::case::{UnparsedCase, check_version};
use crate::failure::{CaseFailure, Outcome};
use crate::fields::{LocatedNode, YamlMapReader};
use crate::yaml::{YamlNode, YamlValue};

/// The model that a provider is bound to when the case does not tell.
const MODEL: &str = "test-model";

/// The mapping under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ProviderMapping {
    /// The wire.
    pub(super) wire: Wire,
    /// Whether it streams at all: `streaming_unsupported_stub` is the OpenAI mapping without (llm-provider §5).
    pub(super) streams: bool,
}

/// A case that was read.
#[derive(Debug)]
pub(super) struct LlmCaseSpec {
    /// The mapping.
    pub(super) mapping: ProviderMapping,
    capabilities: DeclaredCapabilities,
    model: String,
    /// The server's answers, one for each request.
    pub(super) answers: Vec<MockHttpAnswer>,
    /// The server's answer to a probe.
    pub(super) health: Option<HealthProbeAnswer>,
    /// The calls, in order.
    pub(super) calls: Vec<ProviderCallSpec>,
    /// The calls whose bytes must be the same.
    pub(super) identical: Option<LocatedNode>,
    /// The invariants of the case and of its file.
    pub(super) invariants: Vec<LocatedNode>,
}

/// The server's capabilities as the case declares them.
#[derive(Debug, Clone, Copy, Default)]
struct DeclaredCapabilities {
    images: Option<bool>,
    structured_output: Option<bool>,
}

impl LlmCaseSpec {
    /// Reads a case.
    ///
    /// # Errors
    /// For the first thing that is unknown in it.
    pub(super) fn from_case(case: UnparsedCase) -> Outcome<Self> {
        let mut shared = match case.shared {
            Some(shared) => LocatedNode::new(shared, "").into_map_reader()?,
            None => LocatedNode::new(YamlNode { line: 0, value: YamlValue::Map(Vec::new()) }, "")
                .into_map_reader()?,
        };
        let mut block = LocatedNode::new(case.own, "").into_map_reader()?;
        check_version(&mut shared)?;
        check_version(&mut block)?;
        let invariants: Vec<LocatedNode> =
            [shared.take_value("invariants"), block.take_value("invariants")].into_iter().flatten().collect();
        block.take_text("name")?;
        block.take_text("description")?;
        let mapping = match block.take_value("mapping").or_else(|| shared.take_value("mapping")) {
            Some(spot) => parse_mapping(&spot)?,
            None => ProviderMapping { wire: Wire::OpenAi, streams: true },
        };
        let mock = take_mock_server(&mut shared, &mut block)?;
        let calls = match (block.take_value("calls"), block.take_value("call")) {
            (Some(list), None) => list
                .into_items()?
                .into_iter()
                .map(ProviderCallSpec::from_list_item)
                .collect::<Outcome<Vec<_>>>()?,
            (None, Some(call)) => vec![ProviderCallSpec::from_case_block(call, &mut block)?],
            _ => return Err(CaseFailure::reader_error("the case", "has either 'call' or 'calls'")),
        };
        let identical = block.take_value("expected_wire_bytes_identical");
        block.reject_remaining_keys()?;
        let model = infer_bound_model(&mock.answers, &calls);
        Ok(Self {
            mapping,
            capabilities: mock.capabilities,
            model,
            answers: mock.answers,
            health: mock.health,
            calls,
            identical,
            invariants,
        })
    }

    /// Makes the provider that the case is about.
    ///
    /// # Errors
    /// When there is none.
    pub(super) fn build_provider(&self, transport: Arc<dyn Transport>) -> Outcome<HttpProvider> {
        let mut capabilities = Capabilities::of(self.mapping.wire);
        // The specification's mappings of Anthropic and Gemini do not stream; ours do, as a documented extension. A
        // fixture that calls one with `stream` is about the rule, not about the extension.
        capabilities.streaming = self.mapping.streams;
        if let Some(images) = self.capabilities.images {
            capabilities.images = images;
        }
        if let Some(native) = self.capabilities.structured_output {
            capabilities.structured_output = native;
        }
        HttpProvider::builder(self.mapping.wire, &self.model, transport)
            .base_url(BASE_URL)
            .key(Secret::new(KEY))
            .capabilities(capabilities)
            .build()
            .map_err(|error| CaseFailure::build_error("mock_provider", error.to_string()))
    }
}

fn parse_mapping(spot: &LocatedNode) -> Outcome<ProviderMapping> {
    let (wire, streams) = match spot.as_text()? {
        "openai" => (Wire::OpenAi, true),
        "anthropic" => (Wire::Anthropic, false),
        "gemini" => (Wire::Gemini, false),
        "streaming_unsupported_stub" => (Wire::OpenAi, false),
        other => return Err(CaseFailure::reader_error(&spot.path, format!("unknown mapping '{other}'"))),
    };
    Ok(ProviderMapping { wire, streams })
}

/// The server of a case.
#[derive(Debug, Default)]
struct MockServerSpec {
    capabilities: DeclaredCapabilities,
    answers: Vec<MockHttpAnswer>,
    health: Option<HealthProbeAnswer>,
}

/// Takes the server; the case's own declarations override those of its file.
fn take_mock_server(shared: &mut YamlMapReader, block: &mut YamlMapReader) -> Outcome<MockServerSpec> {
    let mut mock = MockServerSpec::default();
    for spot in [shared.take_value("mock_provider"), block.take_value("mock_provider")].into_iter().flatten()
    {
        let mut one = spot.into_map_reader()?;
        if let Some(spot) = one.take_value("capabilities") {
            let mut stated = spot.into_map_reader()?;
            let mut truth = |key: &str| stated.take_value(key).map(|it| it.as_bool()).transpose();
            let c = &mut mock.capabilities;
            c.images = truth("supports_image_input")?.or(c.images);
            for key in ["supports_native_response_format", "supports_native_structured_output"] {
                c.structured_output = truth(key)?.or(c.structured_output);
            }
            stated.reject_remaining_keys()?;
        }
        if let Some(list) = one.take_value("responses").filter(|it| !it.is_null()) {
            mock.answers =
                list.into_items()?.into_iter().map(MockHttpAnswer::from_yaml_node).collect::<Outcome<_>>()?;
        }
        if let Some(spot) = one.take_value("health_endpoint") {
            mock.health = Some(HealthProbeAnswer::from_yaml_node(spot)?);
        }
        one.reject_remaining_keys()?;
    }
    Ok(mock)
}

/// The model that a case does not say its provider is bound to: the one that its answers name, or its expected
/// requests, or the suite's usual one. No fixture contradicts itself there.
fn infer_bound_model(answers: &[MockHttpAnswer], calls: &[ProviderCallSpec]) -> String {
    let answered = answers.iter().find_map(MockHttpAnswer::model_name);
    let sent = || {
        let wanted = |it: &ProviderCallSpec| {
            it.wire_request.as_ref().and_then(|wire_request| wire_request.node.get_entry("model").cloned())
        };
        calls.iter().find_map(wanted).and_then(|call| match call.to_json() {
            Value::String(model) => Some(model),
            _ => None,
        })
    };
    answered.or_else(sent).unwrap_or_else(|| MODEL.to_owned())
}
