//! Sampling parameters and budget hints of one call.

use crate::Map;

/// How to sample (spec: llm-provider §6). A field that is `None` is not sent at all.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RuntimeConfig {
    /// How far to stray from the likeliest token; commonly 0.0 to 2.0.
    pub temperature: Option<f64>,
    /// How many tokens the completion may have.
    pub max_tokens: Option<u64>,
    /// The probability mass to sample from.
    pub top_p: Option<f64>,
    /// A hint towards repeatable answers, without a promise.
    pub seed: Option<i64>,
    /// A penalty on frequent tokens; commonly -2.0 to 2.0.
    pub frequency_penalty: Option<f64>,
    /// A penalty on tokens that were there before; commonly -2.0 to 2.0.
    pub presence_penalty: Option<f64>,
    /// Strings that end the completion.
    pub stop_sequences: Option<Vec<String>>,
    /// Fields of the provider that we do not know, passed on untouched. Kept apart from the
    /// declared ones, because the same name may be in both.
    pub extras: Map,
}

impl RuntimeConfig {
    /// Returns this configuration, overridden field by field by the values that another one sets (spec: llm-provider
    /// §7.1).
    ///
    /// A field that the other one leaves out stays: `None`, and `null` among the extras, cannot clear a value. A list
    /// is replaced, not joined.
    #[must_use]
    pub fn overridden_by(&self, other: &Self) -> Self {
        let mut extras = self.extras.clone();
        let set = other.extras.iter().filter(|(_, value)| !value.is_null());
        extras.extend(set.map(|(key, value)| (key.clone(), value.clone())));
        Self {
            temperature: other.temperature.or(self.temperature),
            max_tokens: other.max_tokens.or(self.max_tokens),
            top_p: other.top_p.or(self.top_p),
            seed: other.seed.or(self.seed),
            frequency_penalty: other.frequency_penalty.or(self.frequency_penalty),
            presence_penalty: other.presence_penalty.or(self.presence_penalty),
            stop_sequences: other.stop_sequences.clone().or_else(|| self.stop_sequences.clone()),
            extras,
        }
    }
}
