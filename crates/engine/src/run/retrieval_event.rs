//! Events about calls of embedding models and rerankers (graph-engine §6). Nothing makes such calls yet.

use std::sync::Arc;

use serde_json::{Map, Value};
use singletree_durable::Timestamp;
use singletree_llm::ActivePrompt;

use super::call_event::{CallerMetadata, EventSource};

/// A call of a retrieval provider: what all its events share.
#[derive(Debug, Clone, PartialEq)]
pub struct RetrievalCall {
    /// Where it was made.
    pub source: EventSource,
    /// The identifier of the provider's system.
    pub provider: Arc<str>,
    /// The model that was asked.
    pub model: Arc<str>,
    /// Names the call among those of the run.
    pub call_id: Arc<str>,
    /// The fields of the call's configuration that the caller set.
    pub request_params: Map<String, Value>,
    /// The fields that are passed on to the provider untouched.
    pub request_extras: Map<String, Value>,
    /// The identity of the prompt that the input was rendered from.
    pub active_prompt: Option<Arc<ActivePrompt>>,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub at: Timestamp,
    /// How long it took by the monotonic clock, in milliseconds.
    pub latency_ms: Option<f64>,
    /// The caller's metadata.
    pub caller_invocation_metadata: CallerMetadata,
}

/// The answer of a retrieval provider, beside its content.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RetrievalAnswer {
    /// The usage that the provider reported.
    pub usage: Option<Map<String, Value>>,
    /// The provider's identifier of the response.
    pub response_id: Option<String>,
    /// The model that the provider says it answered with.
    pub response_model: Option<String>,
}

/// A failure of a retrieval provider.
#[derive(Debug, Clone, PartialEq)]
pub struct RetrievalFailure {
    /// The category of retrieval-provider §7.
    pub error_category: String,
    /// The type or code of the error, where it has one.
    pub error_type: Option<String>,
    /// The error message, without secrets.
    pub error_message: String,
}

/// Texts were embedded.
#[derive(Debug, Clone, PartialEq)]
pub struct EmbeddingEvent {
    /// The call.
    pub call: RetrievalCall,
    /// The texts.
    pub input_strings: Vec<String>,
    /// The answer beside its vectors.
    pub answer: RetrievalAnswer,
    /// The length of the vectors.
    pub dimensions: Option<u64>,
    /// The vectors.
    pub output_vectors: Vec<Vec<f64>>,
}

/// Texts could not be embedded.
#[derive(Debug, Clone, PartialEq)]
pub struct EmbeddingFailedEvent {
    /// The call.
    pub call: RetrievalCall,
    /// The texts.
    pub input_strings: Vec<String>,
    /// The failure.
    pub failure: RetrievalFailure,
}

/// A document with its score.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoredDocument {
    /// Its position among the documents of the call.
    pub index: u64,
    /// How relevant it is.
    pub relevance_score: f64,
    /// The document, where the provider returned it.
    pub document: Option<String>,
}

/// Documents were ranked.
#[derive(Debug, Clone, PartialEq)]
pub struct RerankEvent {
    /// The call.
    pub call: RetrievalCall,
    /// The query.
    pub query: String,
    /// The documents.
    pub documents: Vec<String>,
    /// How many results were asked for.
    pub top_k: Option<u64>,
    /// The answer beside its results.
    pub answer: RetrievalAnswer,
    /// The results.
    pub output_results: Vec<ScoredDocument>,
}

/// Documents could not be ranked.
#[derive(Debug, Clone, PartialEq)]
pub struct RerankFailedEvent {
    /// The call.
    pub call: RetrievalCall,
    /// The query.
    pub query: String,
    /// The documents.
    pub documents: Vec<String>,
    /// How many results were asked for.
    pub top_k: Option<u64>,
    /// The failure.
    pub failure: RetrievalFailure,
}
