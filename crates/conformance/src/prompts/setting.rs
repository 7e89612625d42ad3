//! Managers and label resolvers, as fixtures describe them.

use std::time::Duration;

use singletree::prompts::{LabelResolver as _, PromptLabels};

use super::source::parse_count;
use crate::failure::{CaseFailure, Outcome};
use crate::fields::LocatedNode;
use crate::yaml::YamlValue;

/// How the key of a case's label resolver ends, or begins: there may be any number of them.
const RESOLVER: &str = "label_resolver";

/// How many resolvers a chain may have beside those of its case.
const RESOLVERS_MAX: usize = 16;

/// Tells whether a key holds a label resolver of a case: `label_resolver`, `secondary_label_resolver`,
/// `label_resolver_of_the_file`.
#[must_use]
pub(super) fn is_resolver_key(key: &str) -> bool {
    let is_other = key.strip_suffix(RESOLVER).is_some_and(|before| before.ends_with('_'))
        || key.strip_prefix(RESOLVER).is_some_and(|after| after.starts_with('_'));
    key == RESOLVER || is_other
}

/// A manager.
#[derive(Debug)]
pub(super) struct PromptManagerSpec {
    pub(super) path: String,
    /// Its backends in order; all of the case's when it names none.
    pub(super) backends: Option<Vec<String>>,
    /// Its label resolvers, in the order in which they are asked.
    pub(super) resolvers: Vec<LabelResolverRef>,
    pub(super) cache_ttl: Option<Duration>,
}

/// One of a manager's label resolvers, or a fallback of one.
#[derive(Debug, Clone)]
pub(super) enum LabelResolverRef {
    /// A resolver of the case.
    Named(String),
    /// One of its own.
    Own(LabelResolverSpec),
}

/// A label resolver.
#[derive(Debug, Clone)]
pub(super) struct LabelResolverSpec {
    pub(super) name: Option<String>,
    labels: Vec<(String, String)>,
    /// The resolvers that are asked for the names that it does not know.
    fallbacks: Vec<LabelResolverRef>,
}

impl PromptManagerSpec {
    pub(super) fn from_yaml_node(spot: LocatedNode) -> Outcome<Self> {
        let path = spot.path.clone();
        let mut block = spot.into_map_reader()?;
        let is_chain = |key: &str| key == "label_resolvers" || is_resolver_key(key);
        let keys: Vec<String> =
            block.remaining_keys().filter(|key| is_chain(key)).map(str::to_owned).collect();
        let resolvers = match keys.as_slice() {
            [] => Vec::new(),
            [key] => parse_resolver_chain(block.take_required(key)?)?,
            several => {
                return Err(CaseFailure::reader_error(
                    &path,
                    format!("expected one resolver, found {several:?}"),
                ));
            }
        };
        let spec = Self {
            path,
            backends: block.take_value("backends").map(LocatedNode::into_texts).transpose()?,
            resolvers,
            cache_ttl: block
                .take_value("default_cache_ttl_seconds")
                .and_then(|spot| parse_cache_ttl(&spot).transpose())
                .transpose()?,
        };
        block.reject_remaining_keys()?;
        Ok(spec)
    }
}

/// Reads one resolver or a chain of them: each by its name, or as a block. Null is none.
fn parse_resolver_chain(spot: LocatedNode) -> Outcome<Vec<LabelResolverRef>> {
    match &spot.node.value {
        YamlValue::Null => Ok(Vec::new()),
        YamlValue::Str(name) => Ok(vec![LabelResolverRef::Named(name.clone())]),
        YamlValue::List(_) => {
            let each =
                spot.into_items()?.into_iter().map(parse_resolver_chain).collect::<Outcome<Vec<_>>>()?;
            Ok(each.into_iter().flatten().collect())
        }
        _ => Ok(vec![LabelResolverRef::Own(LabelResolverSpec::from_yaml_node(None, spot)?)]),
    }
}

impl LabelResolverSpec {
    /// Reads a resolver: its labels by the names of prompts, its default, and the resolvers that it falls back to.
    ///
    /// # Errors
    /// When a key is unknown.
    pub(super) fn from_yaml_node(name: Option<String>, spot: LocatedNode) -> Outcome<Self> {
        let mut block = spot.into_map_reader()?;
        let own_name = block.take_text("name")?;
        let mapping = block.take_value("mapping").or_else(|| block.take_value("labels"));
        let default = block.take_value("default").or_else(|| block.take_value("default_label"));
        let fallback = block.take_value("fallback").or_else(|| block.take_value("fallbacks"));
        if mapping.is_none() && default.is_none() && fallback.is_none() {
            return Err(CaseFailure::reader_error(
                block.path(),
                "a label resolver has a 'mapping' or a 'default'",
            ));
        }
        block.reject_remaining_keys()?;
        let mut labels = Vec::new();
        if let Some(mapping) = mapping.filter(|spot| !spot.is_null()) {
            let mut mapping = mapping.into_map_reader()?;
            while let Some((prompt, label)) = mapping.take_next_entry() {
                labels.push((prompt, label.as_text()?.to_owned()));
            }
        }
        if let Some(default) = default.filter(|spot| !spot.is_null()) {
            labels.push(("default".to_owned(), default.as_text()?.to_owned()));
        }
        let fallbacks = fallback.map(parse_resolver_chain).transpose()?.unwrap_or_default();
        Ok(Self { name: name.or(own_name), labels, fallbacks })
    }
}

/// Makes one resolver of a chain: the first that knows a prompt's name counts, else the first that has a default
/// (spec: prompt-management §7).
///
/// # Errors
/// When a resolver is named that is not there, or one falls back to itself.
pub(super) fn build_labels(
    chain: &[LabelResolverRef],
    all: &[LabelResolverSpec],
    path: &str,
) -> Outcome<PromptLabels> {
    let mut labels = PromptLabels::new();
    let mut known = Vec::new();
    let mut waiting: Vec<LabelResolverRef> = chain.iter().rev().cloned().collect();
    let mut left = all.len() + chain.len() + RESOLVERS_MAX;
    while let Some(next) = waiting.pop() {
        left = left
            .checked_sub(1)
            .ok_or_else(|| CaseFailure::reader_error(path, "the label resolvers fall back to each other"))?;
        let resolver = match &next {
            LabelResolverRef::Own(own) => own,
            LabelResolverRef::Named(name) => find_resolver(name, all, path)?,
        };
        for (prompt, label) in &resolver.labels {
            if !known.contains(prompt) {
                known.push(prompt.clone());
                labels = labels.with_label(prompt, label);
            }
        }
        waiting.extend(resolver.fallbacks.iter().rev().cloned());
    }
    Ok(labels)
}

/// Finds a resolver by its name. One without a name of its own is meant by every reference: where it is the only one, a
/// fixture has no other way to name it.
fn find_resolver<'a>(name: &str, all: &'a [LabelResolverSpec], path: &str) -> Outcome<&'a LabelResolverSpec> {
    let by_name = all.iter().find(|resolver| resolver.name.as_deref() == Some(name));
    let only = match all {
        [only] if only.name.as_deref().is_none_or(|own| own == RESOLVER) => Some(only),
        _ => None,
    };
    by_name
        .or(only)
        .ok_or_else(|| CaseFailure::reader_error(path, format!("there is no label resolver '{name}'")))
}

/// Returns the label that a resolver of the case gives a prompt.
///
/// # Errors
/// When there is no such resolver.
pub(super) fn resolve_label(
    resolver: &str,
    prompt: &str,
    all: &[LabelResolverSpec],
    path: &str,
) -> Outcome<String> {
    let chain = [LabelResolverRef::Named(resolver.to_owned())];
    Ok(build_labels(&chain, all, path)?.resolve_label(prompt))
}

/// Reads a bound in seconds; null is none.
pub(super) fn parse_cache_ttl(spot: &LocatedNode) -> Outcome<Option<Duration>> {
    if spot.is_null() {
        Ok(None)
    } else {
        parse_count(spot).map(|seconds| Some(Duration::from_secs(seconds)))
    }
}
