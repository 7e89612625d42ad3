//! The dialect of prompt-management: backends, managers and calls in place of a graph.
//!
//! spec: prompt-management; conformance-adapter §5.10, §5.13, §6.8

mod backend;
mod call;
mod equal;
mod expect;
mod graph_prompts;
mod raised;
mod setting;
mod shown;
mod source;
mod world;

use crate::case::{UnparsedCase, check_version};
use crate::check::AssertionChecker;
use crate::failure::{CaseFailure, Outcome};
use crate::fields::{LocatedNode, YamlMapReader};
use crate::yaml::YamlValue;

pub(crate) use graph_prompts::{GraphPrompts, GraphPromptsSpec};

use backend::PromptBackendSpec;
use call::PromptCallSpec;
use setting::{LabelResolverSpec, PromptManagerSpec};
use world::PromptEnvironment;

/// A case that was read.
#[derive(Debug, Default)]
struct PromptCaseSpec {
    backends: Vec<PromptBackendSpec>,
    managers: Vec<(String, PromptManagerSpec)>,
    resolvers: Vec<LabelResolverSpec>,
    calls: Vec<PromptCallSpec>,
    expected: Option<LocatedNode>,
    /// Expectations that stand beside `expected`.
    beside: Vec<(&'static str, LocatedNode)>,
}

/// Expectations that stand beside `expected`.
const BESIDE: &[&str] = &["expected_backend_state", "expected_shared_prefix", "expected_message_equal"];

/// How the name of a manager ends.
const MANAGER: &str = "manager";

/// Tells whether cases of a file may share this key.
#[must_use]
pub(crate) fn is_shared_key(key: &str) -> bool {
    matches!(key, "backends" | "label_resolvers") || setting::is_resolver_key(key) || is_manager_key(key)
}

/// `manager`, and others by a name before it.
fn is_manager_key(key: &str) -> bool {
    key == MANAGER || key.strip_suffix(MANAGER).is_some_and(|key| key.ends_with('_'))
}

/// The manager that a list of calls is for: `secondary_calls` is for `secondary_manager`.
fn manager_of_calls_key(key: &str) -> Option<String> {
    let before = key.strip_suffix("_calls")?;
    let before = before.strip_suffix("_manager").unwrap_or(before);
    Some(if before == MANAGER { before.to_owned() } else { format!("{before}_{MANAGER}") })
}

impl PromptCaseSpec {
    /// Reads a case, strictly.
    ///
    /// # Errors
    /// For the first thing that is unknown in it.
    fn from_case(case: UnparsedCase) -> Outcome<Self> {
        let (own, shared) = case.into_parts();
        let mut read = Self::default();
        if let Some(shared) = shared {
            let mut block = LocatedNode::new(shared, "").into_map_reader()?;
            check_version(&mut block)?;
            read.take_setting(&mut block)?;
            block.reject_remaining_keys()?;
        }
        let mut block = LocatedNode::new(own, "").into_map_reader()?;
        check_version(&mut block)?;
        block.take_text("name")?;
        block.take_text("description")?;
        read.take_setting(&mut block)?;
        read.take_calls(&mut block)?;
        read.expected = block.take_value("expected");
        for key in BESIDE {
            read.beside.extend(block.take_value(key).map(|value| (*key, value)));
        }
        block.reject_remaining_keys()?;
        if read.calls.is_empty() {
            return Err(CaseFailure::reader_error("calls", "nothing is called"));
        }
        Ok(read)
    }

    fn take_setting(&mut self, block: &mut YamlMapReader) -> Outcome<()> {
        if let Some(list) = block.take_value("backends") {
            for one in list.into_items()? {
                self.backends.push(PromptBackendSpec::from_yaml_node(one)?);
            }
        }
        match block.take_value("label_resolvers") {
            None => {}
            Some(list) if matches!(list.node.value, YamlValue::List(_)) => {
                for one in list.into_items()? {
                    self.resolvers.push(LabelResolverSpec::from_yaml_node(None, one)?);
                }
            }
            Some(several) => {
                let mut several = several.into_map_reader()?;
                while let Some((name, one)) = several.take_next_entry() {
                    self.resolvers.push(LabelResolverSpec::from_yaml_node(Some(name), one)?);
                }
            }
        }
        let resolvers: Vec<String> =
            block.remaining_keys().filter(|key| setting::is_resolver_key(key)).map(str::to_owned).collect();
        for key in resolvers {
            let spot = block.take_required(&key)?;
            // A name of its own goes before its key.
            let has_name = spot.node.get_entry("name").is_some();
            if !spot.is_null() {
                self.resolvers.push(LabelResolverSpec::from_yaml_node((!has_name).then_some(key), spot)?);
            }
        }
        let managers: Vec<String> =
            block.remaining_keys().filter(|it| is_manager_key(it)).map(str::to_owned).collect();
        for name in managers {
            let spec = PromptManagerSpec::from_yaml_node(block.take_required(&name)?)?;
            // The case's own declaration of a manager overrides that of its file.
            self.managers.retain(|(it, _)| *it != name);
            self.managers.push((name, spec));
        }
        Ok(())
    }

    fn take_calls(&mut self, block: &mut YamlMapReader) -> Outcome<()> {
        let lists: Vec<String> = block
            .remaining_keys()
            .filter(|it| *it == "calls" || manager_of_calls_key(it).is_some())
            .map(str::to_owned)
            .collect();
        for key in lists {
            let target = manager_of_calls_key(&key);
            for one in block.take_required(&key)?.into_items()? {
                self.calls.push(PromptCallSpec::from_yaml_node(one, target.as_deref())?);
            }
        }
        Ok(())
    }
}

/// Reads a case, makes its calls and asserts its expectations.
///
/// # Errors
/// For the first unknown key or value in the case, and for a call that cannot be made.
pub(crate) async fn run_prompt_case(case: UnparsedCase, checker: &mut AssertionChecker) -> Outcome<()> {
    let case = PromptCaseSpec::from_case(case)?;
    let mut world = PromptEnvironment::from_specs(&case.backends, &case.managers, &case.resolvers)?;
    for call in &case.calls {
        let outcome = world.run_prompt_call(call).await?;
        expect::check_call(checker, call, outcome, &mut world)?;
    }
    if let Some(expected) = case.expected {
        expect::check_case(checker, expected, &world)?;
    }
    for (key, spot) in case.beside {
        expect::check_sibling_key(checker, (key, spot), &world)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
