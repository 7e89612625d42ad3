//! Negotiates the features that a shell asks for (spec: OpenHarness §5.3).

use serde_json::Value;
use singletree_protocol::openharness::{Capabilities, Capability, CapabilityDenial, DenialCode};

use crate::caller::{Caller, Scope};

/// The result of the negotiation.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct NegotiatedTerms {
    /// The granted features; `None` if the shell asked for none.
    pub(super) supported: Option<Capabilities>,
    pub(super) denials: Option<Vec<CapabilityDenial>>,
    /// Whether the shell can answer a question that it is sent.
    pub(super) can_ask: bool,
}

/// Whether a feature is offered.
pub(super) struct FeatureOffer {
    /// The reason for the denial; `None` if the feature is offered.
    pub(super) denied: Option<DenialCode>,
    /// The meaning of the feature here, or the reason for the denial in words.
    pub(super) message: &'static str,
}

/// Returns whether a feature is offered to a caller: the only place where this is decided.
pub(super) fn decide_feature_offer(capability: Capability, caller: &Caller) -> FeatureOffer {
    let (denied, message) = match capability {
        Capability::Streaming => {
            (Some(DenialCode::NotSupported), "Answers come whole; a streaming profile is not specified yet.")
        }
        Capability::ParallelActions => {
            (Some(DenialCode::NotSupported), "Directives of this engine are done in their order.")
        }
        Capability::RichCards => {
            (Some(DenialCode::NotSupported), "This engine build has no rich-card renderer.")
        }
        Capability::Attachments => (None, "Pictures, by references."),
        Capability::Approval if !caller.scopes.contains(&Scope::Approve) => (
            Some(DenialCode::DisabledByPolicy),
            "This key may not answer questions; they are answered elsewhere.",
        ),
        Capability::Approval => {
            (None, "Questions come as `request_approval` with a continuation for each answer.")
        }
    };
    FeatureOffer { denied, message }
}

/// Negotiates: known features that the shell asks for are granted or denied, unknown ones are ignored.
pub(super) fn negotiate_terms(asked: Option<&Capabilities>, caller: &Caller) -> NegotiatedTerms {
    let may = decide_feature_offer(Capability::Approval, caller).denied.is_none();
    let Some(asked) = asked else { return NegotiatedTerms { can_ask: may, ..NegotiatedTerms::default() } };
    // A shell that says that it cannot show questions is told in words where to answer them.
    let refuses = asked.get(Capability::Approval.as_str()).is_some_and(|asked| !is_feature_request(asked));
    let (mut supported, mut denials) = (Capabilities::new(), Vec::new());
    for capability in
        Capability::ALL.iter().filter(|item| asked.get(item.as_str()).is_some_and(is_feature_request))
    {
        let FeatureOffer { denied, message } = decide_feature_offer(*capability, caller);
        match denied {
            None => drop(supported.insert(capability.as_str().to_owned(), true.into())),
            Some(code) => denials.push(CapabilityDenial::new(capability.as_str(), code, message)),
        }
    }
    NegotiatedTerms { supported: Some(supported), denials: Some(denials), can_ask: may && !refuses }
}

/// Checks whether a value asks for a feature: `false` and `null` do not.
fn is_feature_request(value: &Value) -> bool {
    !matches!(value, Value::Null | Value::Bool(false))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn terms(asked: Value, caller: &Caller) -> (Vec<String>, Vec<(String, String)>, bool) {
        let terms = negotiate_terms(asked.as_object(), caller);
        let denials = terms.denials.unwrap().into_iter();
        let denials = denials.map(|it| (it.capability, it.code.unwrap())).collect();
        (terms.supported.unwrap().keys().cloned().collect(), denials, terms.can_ask)
    }

    // spec: OpenHarness §5.3
    #[test]
    fn what_is_known_is_granted_or_denied_and_what_is_not_is_ignored() {
        let local = Caller::local();
        let asked = json!({
            "openharness.streaming": {"profile": "sse"}, "openharness.ui.rich_cards": true,
            "openharness.attachments.upload": "yes", "openharness.actions.parallel": false,
            "openharness.ui.approval": null, "com.example.unknown": true,
        });
        let denied = |it: &str, code: &str| (it.to_owned(), code.to_owned());
        let not_supported = |it: &str| denied(it, "not_supported");
        let streaming = not_supported("openharness.streaming");
        let expected = (
            vec!["openharness.attachments.upload".to_owned()],
            vec![streaming, not_supported("openharness.ui.rich_cards")],
            false,
        );
        assert_eq!(terms(asked, &local), expected);
        let reader = Caller { scopes: vec![Scope::Read, Scope::Write], ..local.clone() };
        let expected = (vec![], vec![denied("openharness.ui.approval", "disabled_by_policy")], false);
        assert_eq!(terms(json!({"openharness.ui.approval": true}), &reader), expected);
        assert_eq!(
            negotiate_terms(None, &local),
            NegotiatedTerms { can_ask: true, ..NegotiatedTerms::default() }
        );
        assert_eq!(terms(json!({}), &local), (vec![], vec![], true));
    }
}
