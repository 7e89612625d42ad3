//! The prompts of a graph's case: a backend in memory, and the variables that its nodes render with.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use singletree::prompts::{MemoryBackend, Prompt, PromptGroup, PromptInputs, PromptManager, PromptResult};

use super::source::parse_prompt;
use crate::failure::{CaseFailure, Outcome};
use crate::fields::{LocatedNode, YamlMapReader};
use crate::schema::parse_literals;

/// The prompts and variables of a case.
#[derive(Debug, Clone, Default)]
pub(crate) struct GraphPromptsSpec {
    prompts: BTreeMap<String, Prompt>,
    variables: Map<String, Value>,
}

impl GraphPromptsSpec {
    /// Takes the prompts out of a case.
    ///
    /// # Errors
    /// When the fixture block has an unknown key or value.
    pub(crate) fn take_from_block(block: &mut YamlMapReader) -> Outcome<Self> {
        let mut spec = Self::default();
        if let Some(backend) = block.take_value("prompt_backend") {
            let mut backend = backend.into_map_reader()?;
            let kind = backend.take_required("type")?;
            if !["filesystem", "mock_with_langfuse_reference"].contains(&kind.as_text()?) {
                let what = format!("unknown backend '{}'", kind.as_text()?);
                return Err(CaseFailure::reader_error(&kind.path, what));
            }
            let mut prompts = backend.take_required("prompts")?.into_map_reader()?;
            backend.reject_remaining_keys()?;
            while let Some((name, prompt)) = prompts.take_next_entry() {
                spec.prompts.insert(name, parse_referenced_prompt(prompt)?);
            }
        }
        if let Some(variables) = block.take_value("render_variables") {
            spec.variables = parse_literals(variables)?;
        }
        Ok(spec)
    }

    /// Makes a manager over the prompts.
    #[must_use]
    pub(crate) fn build_prompts(&self) -> GraphPrompts {
        let backend = self.prompts.values().cloned().fold(MemoryBackend::new(), MemoryBackend::with);
        let variables = self.variables.clone().into_iter();
        let inputs =
            variables.fold(PromptInputs::new(), |inputs, (name, value)| inputs.variable(name, value));
        GraphPrompts { manager: PromptManager::builder(backend).build(), inputs }
    }
}

/// Reads a prompt, which may have a reference of Langfuse's beside the keys that every prompt has.
fn parse_referenced_prompt(spot: LocatedNode) -> Outcome<Prompt> {
    let mut node = spot.node;
    let mut reference = None;
    if let crate::yaml::YamlValue::Map(entries) = &mut node.value
        && let Some(at) = entries.iter().position(|(key, _)| key == "langfuse_prompt_reference")
    {
        reference = Some(entries.remove(at).1.to_json());
    }
    let prompt = parse_prompt(LocatedNode::new(node, spot.path))?;
    Ok(match reference {
        Some(reference) => prompt
            .with_observability_entities(Map::from_iter([("langfuse_prompt".to_owned(), json!(reference))])),
        None => prompt,
    })
}

/// A manager over a case's prompts.
#[derive(Debug)]
pub(crate) struct GraphPrompts {
    manager: PromptManager,
    inputs: PromptInputs,
}

impl GraphPrompts {
    /// Renders a prompt.
    ///
    /// # Errors
    /// Why it cannot be rendered.
    pub(crate) async fn render_prompt(&self, name: &str) -> Result<PromptResult, String> {
        self.manager.get(name, &self.inputs).await.map_err(|error| error.to_string())
    }

    /// Renders the prompts of a group.
    ///
    /// # Errors
    /// Why one cannot be rendered, or why they make no group.
    pub(crate) async fn render_group(&self, name: &str, members: &[String]) -> Result<PromptGroup, String> {
        let mut results = Vec::new();
        for member in members {
            results.push(self.render_prompt(member).await?);
        }
        PromptGroup::new(name, results).map_err(|error| error.to_string())
    }
}
