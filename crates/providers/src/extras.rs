//! Fields of the runtime configuration that we do not know, beside those that a mapping writes itself (llm-provider
//! §6).
//!
//! One rule for every wire. A field that is not managed is passed on untouched. A managed one is *merged* where it is a
//! list that both may add to; else an *equal* value is taken up silently and a conflicting one is *rejected* before
//! anything is sent. A *malformed* value for a merge counts as absent.

use serde_json::Value;
use singletree_llm::{Error, Map, ProviderErrorDetail, Result};

use crate::canonical::values_equal;

/// How a managed field meets an extra of its name. A field of the body without a rule is managed while it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExtraFieldRule {
    /// Managed in every call; where the body does not have it, no extra may bring it.
    Always,
    /// Managed in every call; where the body does not have it, it stands for this switch.
    Switch(bool),
    /// Managed while it is there: a list of strings, the mapping's first, each once.
    Merge {
        /// Whether a plain string is taken for a list of one.
        scalar: bool,
    },
}

/// Puts the extras into the body.
///
/// # Errors
/// `provider_invalid_request` for an extra that contradicts a managed field; it names the field and no value.
pub(crate) fn apply_extras(body: &mut Map, extras: &Map, rules: &[(&str, ExtraFieldRule)]) -> Result<()> {
    for (key, extra) in extras {
        let rule = rules.iter().find(|(name, _)| name == key).map(|(_, rule)| *rule);
        match (rule, body.get_mut(key)) {
            (Some(ExtraFieldRule::Merge { scalar }), Some(produced)) => {
                merge_extra_value(produced, extra, scalar)
            }
            (_, Some(produced)) if values_equal(produced, extra) => {}
            (Some(ExtraFieldRule::Switch(implied)), None) if *extra == Value::Bool(implied) => {}
            (None | Some(ExtraFieldRule::Merge { .. }), None) => {
                body.insert(key.clone(), extra.clone());
            }
            (_, Some(_)) | (Some(ExtraFieldRule::Always | ExtraFieldRule::Switch(_)), None) => {
                return Err(extra_conflict_error(key));
            }
        }
    }
    Ok(())
}

fn merge_extra_value(produced: &mut Value, extra: &Value, scalar: bool) {
    let Value::Array(list) = produced else { return };
    let more: Vec<&Value> = match extra {
        Value::String(_) if scalar => vec![extra],
        Value::Array(items) if items.iter().all(Value::is_string) => items.iter().collect(),
        _ => return,
    };
    let mut merged: Vec<Value> = Vec::with_capacity(list.len() + more.len());
    for item in list.iter().chain(more) {
        if !merged.contains(item) {
            merged.push(item.clone());
        }
    }
    *list = merged;
}

fn extra_conflict_error(key: &str) -> Error {
    Error::InvalidRequest(ProviderErrorDetail::new(format!(
        "the extra {key:?} contradicts what this call sends under that name; leave it out"
    )))
}

#[cfg(test)]
mod tests;
