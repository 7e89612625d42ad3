//! How a caller wants an answer in no session.

use std::sync::Arc;

use singletree_llm::{Request, Schema};

/// How a caller wants its answer, for an answer in no session: handed to
/// [`Chat::stateless`](singletree_harness::Chat::stateless) as an extension. In sessions it is not looked at.
#[derive(Debug, Clone, Default)]
pub struct CallOptions {
    max_tokens: Option<u64>,
    stop_sequences: Vec<String>,
    reply_schema: Option<Arc<Schema>>,
}

impl CallOptions {
    /// Asks for nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Bounds the tokens of each answer of the model. The agent's own bound holds where it is lower.
    #[must_use]
    pub fn with_max_tokens(mut self, max: u64) -> Self {
        self.max_tokens = Some(max);
        self
    }

    /// Ends each answer of the model at one of these texts, in place of the agent's own.
    #[must_use]
    pub fn with_stop_sequences(mut self, texts: impl IntoIterator<Item = String>) -> Self {
        self.stop_sequences = texts.into_iter().collect();
        self
    }

    /// Asks for a reply that fits a schema, in place of the agent's own.
    #[must_use]
    pub fn with_reply_schema(mut self, schema: Schema) -> Self {
        self.reply_schema = Some(Arc::new(schema));
        self
    }

    /// Puts them into a request.
    pub(crate) fn apply_to_request(&self, mut request: Request) -> Request {
        let config = &mut request.config;
        config.max_tokens = match (config.max_tokens, self.max_tokens) {
            (Some(own), Some(asked)) => Some(own.min(asked)),
            (own, asked) => asked.or(own),
        };
        if !self.stop_sequences.is_empty() {
            config.stop_sequences = Some(self.stop_sequences.clone());
        }
        match &self.reply_schema {
            Some(schema) => request.with_response_schema(schema.clone()),
            None => request,
        }
    }
}

#[cfg(test)]
mod tests {
    use singletree_llm::RuntimeConfig;

    use super::*;

    #[test]
    fn the_lower_bound_of_tokens_holds() {
        let check = |own: Option<u64>, asked: Option<u64>, expected: Option<u64>| {
            let config = RuntimeConfig { max_tokens: own, ..RuntimeConfig::default() };
            let options = asked.map_or_else(CallOptions::new, |max| CallOptions::new().with_max_tokens(max));
            let request = options.apply_to_request(Request::new(Vec::new()).with_config(config));
            assert_eq!(request.config.max_tokens, expected, "{own:?} {asked:?}");
        };
        check(None, None, None);
        check(Some(5), None, Some(5));
        check(None, Some(7), Some(7));
        check(Some(5), Some(7), Some(5));
        check(Some(9), Some(7), Some(7));
    }
}
