//! The dialect of prompt-management: backends, managers and calls in place of a graph.
//!
//! spec: prompt-management; conformance-adapter §5.10, §5.13, §6.8

mod backend;
mod call;
mod equal;
mod expect;
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
pub(crate) fn is_shared(key: &str) -> bool {
    matches!(key, "backends" | "label_resolvers") || setting::is_resolver(key) || is_manager(key)
}

/// `manager`, and others by a name before it.
fn is_manager(key: &str) -> bool {
    key == MANAGER || key.strip_suffix(MANAGER).is_some_and(|key| key.ends_with('_'))
}

/// The manager that a list of calls is for: `secondary_calls` is for `secondary_manager`.
fn manager_of_calls(key: &str) -> Option<String> {
    let before = key.strip_suffix("_calls")?;
    let before = before.strip_suffix("_manager").unwrap_or(before);
    Some(if before == MANAGER { before.to_owned() } else { format!("{before}_{MANAGER}") })
}

impl PromptCaseSpec {
    /// Reads a case, strictly.
    ///
    /// # Errors
    /// For the first thing that is unknown in it.
    fn read(case: UnparsedCase) -> Outcome<Self> {
        let (own, shared) = case.parts();
        let mut read = Self::default();
        if let Some(shared) = shared {
            let mut block = LocatedNode::new(shared, "").fields()?;
            check_version(&mut block)?;
            read.take_setting(&mut block)?;
            block.finish()?;
        }
        let mut block = LocatedNode::new(own, "").fields()?;
        check_version(&mut block)?;
        block.text("name")?;
        block.text("description")?;
        read.take_setting(&mut block)?;
        read.take_calls(&mut block)?;
        read.expected = block.take("expected");
        for key in BESIDE {
            read.beside.extend(block.take(key).map(|value| (*key, value)));
        }
        block.finish()?;
        if read.calls.is_empty() {
            return Err(CaseFailure::reader("calls", "nothing is called"));
        }
        Ok(read)
    }

    fn take_setting(&mut self, block: &mut YamlMapReader) -> Outcome<()> {
        if let Some(list) = block.take("backends") {
            for one in list.items()? {
                self.backends.push(PromptBackendSpec::read(one)?);
            }
        }
        match block.take("label_resolvers") {
            None => {}
            Some(list) if matches!(list.node.value, YamlValue::List(_)) => {
                for one in list.items()? {
                    self.resolvers.push(LabelResolverSpec::read(None, one)?);
                }
            }
            Some(several) => {
                let mut several = several.fields()?;
                while let Some((name, one)) = several.next() {
                    self.resolvers.push(LabelResolverSpec::read(Some(name), one)?);
                }
            }
        }
        let resolvers: Vec<String> =
            block.keys().filter(|key| setting::is_resolver(key)).map(str::to_owned).collect();
        for key in resolvers {
            let spot = block.need(&key)?;
            // A name of its own goes before its key.
            let has_name = spot.node.get("name").is_some();
            if !spot.is_null() {
                self.resolvers.push(LabelResolverSpec::read((!has_name).then_some(key), spot)?);
            }
        }
        let managers: Vec<String> = block.keys().filter(|it| is_manager(it)).map(str::to_owned).collect();
        for name in managers {
            let spec = PromptManagerSpec::read(block.need(&name)?)?;
            // The case's own declaration of a manager overrides that of its file.
            self.managers.retain(|(it, _)| *it != name);
            self.managers.push((name, spec));
        }
        Ok(())
    }

    fn take_calls(&mut self, block: &mut YamlMapReader) -> Outcome<()> {
        let lists: Vec<String> = block
            .keys()
            .filter(|it| *it == "calls" || manager_of_calls(it).is_some())
            .map(str::to_owned)
            .collect();
        for key in lists {
            let target = manager_of_calls(&key);
            for one in block.need(&key)?.items()? {
                self.calls.push(PromptCallSpec::read(one, target.as_deref())?);
            }
        }
        Ok(())
    }
}

/// Reads a case, makes its calls and asserts its expectations.
///
/// # Errors
/// For the first unknown key or value in the case, and for a call that cannot be made.
pub(crate) async fn perform(case: UnparsedCase, checker: &mut AssertionChecker) -> Outcome<()> {
    let case = PromptCaseSpec::read(case)?;
    let mut world = PromptEnvironment::build(&case.backends, &case.managers, &case.resolvers)?;
    for call in &case.calls {
        let outcome = world.call(call).await?;
        expect::of_call(checker, call, outcome, &mut world)?;
    }
    if let Some(expected) = case.expected {
        expect::of_case(checker, expected, &world)?;
    }
    for (key, spot) in case.beside {
        expect::beside(checker, (key, spot), &world)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
