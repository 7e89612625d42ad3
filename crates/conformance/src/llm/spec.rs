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
    pub(super) fn read(case: UnparsedCase) -> Outcome<Self> {
        let mut shared = match case.shared {
            Some(shared) => LocatedNode::new(shared, "").fields()?,
            None => LocatedNode::new(YamlNode { line: 0, value: YamlValue::Map(Vec::new()) }, "").fields()?,
        };
        let mut block = LocatedNode::new(case.own, "").fields()?;
        check_version(&mut shared)?;
        check_version(&mut block)?;
        let invariants: Vec<LocatedNode> =
            [shared.take("invariants"), block.take("invariants")].into_iter().flatten().collect();
        block.text("name")?;
        block.text("description")?;
        let mapping = match block.take("mapping").or_else(|| shared.take("mapping")) {
            Some(spot) => mapping(&spot)?,
            None => ProviderMapping { wire: Wire::OpenAi, streams: true },
        };
        let mock = mock(&mut shared, &mut block)?;
        let calls = match (block.take("calls"), block.take("call")) {
            (Some(list), None) => {
                list.items()?.into_iter().map(ProviderCallSpec::of_list).collect::<Outcome<Vec<_>>>()?
            }
            (None, Some(call)) => vec![ProviderCallSpec::of_case(call, &mut block)?],
            _ => return Err(CaseFailure::reader("the case", "has either 'call' or 'calls'")),
        };
        let identical = block.take("expected_wire_bytes_identical");
        block.finish()?;
        let model = bound_model(&mock.answers, &calls);
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
    pub(super) fn provider(&self, transport: Arc<dyn Transport>) -> Outcome<HttpProvider> {
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
            .map_err(|error| CaseFailure::build("mock_provider", error.to_string()))
    }
}

fn mapping(spot: &LocatedNode) -> Outcome<ProviderMapping> {
    let (wire, streams) = match spot.text()? {
        "openai" => (Wire::OpenAi, true),
        "anthropic" => (Wire::Anthropic, false),
        "gemini" => (Wire::Gemini, false),
        "streaming_unsupported_stub" => (Wire::OpenAi, false),
        other => return Err(CaseFailure::reader(&spot.path, format!("unknown mapping '{other}'"))),
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
fn mock(shared: &mut YamlMapReader, block: &mut YamlMapReader) -> Outcome<MockServerSpec> {
    let mut mock = MockServerSpec::default();
    for spot in [shared.take("mock_provider"), block.take("mock_provider")].into_iter().flatten() {
        let mut one = spot.fields()?;
        if let Some(spot) = one.take("capabilities") {
            let mut stated = spot.fields()?;
            let mut truth = |key: &str| stated.take(key).map(|it| it.truth()).transpose();
            let c = &mut mock.capabilities;
            c.images = truth("supports_image_input")?.or(c.images);
            for key in ["supports_native_response_format", "supports_native_structured_output"] {
                c.structured_output = truth(key)?.or(c.structured_output);
            }
            stated.finish()?;
        }
        if let Some(list) = one.take("responses").filter(|it| !it.is_null()) {
            mock.answers = list.items()?.into_iter().map(MockHttpAnswer::read).collect::<Outcome<_>>()?;
        }
        if let Some(spot) = one.take("health_endpoint") {
            mock.health = Some(HealthProbeAnswer::read(spot)?);
        }
        one.finish()?;
    }
    Ok(mock)
}

/// The model that a case does not say its provider is bound to: the one that its answers name, or its expected
/// requests, or the suite's usual one. No fixture contradicts itself there.
fn bound_model(answers: &[MockHttpAnswer], calls: &[ProviderCallSpec]) -> String {
    let answered = answers.iter().find_map(MockHttpAnswer::model);
    let sent = || {
        let wanted = |it: &ProviderCallSpec| {
            it.wire_request.as_ref().and_then(|wire_request| wire_request.node.get("model").cloned())
        };
        calls.iter().find_map(wanted).and_then(|call| match call.to_json() {
            Value::String(model) => Some(model),
            _ => None,
        })
    };
    answered.or_else(sent).unwrap_or_else(|| MODEL.to_owned())
}
