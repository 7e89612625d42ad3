//! Named, versioned prompt templates rendered to messages (spec: prompt-management).
//!
//! # Vocabulary
//!
//! A *prompt* is a template with its identity: name, version, label, and a hash of its content. It is a *text*
//! prompt, which renders to one user message, or a *chat* prompt: *segments* that render to a message each, and
//! *placeholders* where the caller's messages go. A *backend* fetches prompts by name and label; a *manager* asks
//! several of them in order, and renders. A *result* is the rendered messages with the identity of their prompt; a
//! *group* is two or more results that belong together in a trace.
//!
//! Templates are written in Jinja's language. An undefined variable is an error, nothing is escaped, and text outside
//! of tags is kept byte for byte: two renders that begin with the same values begin with the same bytes.
//!
//! # Example
//!
//! ```
//! use singletree_prompts::{FileBackend, MemoryBackend, Prompt, PromptInputs, PromptManager};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let greeting = Prompt::text("greeting", "1", "Hello, {{ user }}!");
//! let prompts = PromptManager::builder(MemoryBackend::new().with(greeting))
//!     .fallback(FileBackend::new("prompts"))
//!     .build();
//! let result = prompts.get("greeting", &PromptInputs::new().variable("user", "Alice")).await?;
//! assert_eq!(result.messages()[0].text(), "Hello, Alice!");
//! # Ok(())
//! # }
//! ```

mod error;
mod hash;

mod prompt;
mod template;

mod backend;
mod cache;
mod files;
mod memory;

mod inputs;
mod render;
mod result;
mod templating;

mod fallback;
mod group;
mod labels;

mod prompt_manager;
mod query;

pub use backend::PromptBackend;
pub use cache::{CacheLimits, CachedBackend};
pub use error::{Error, RenderError, Result};
pub use fallback::Fallback;
pub use files::{FileBackend, FileLimits};
pub use group::PromptGroup;
pub use inputs::PromptInputs;
pub use labels::{DEFAULT_LABEL, LabelResolver, PromptLabels};
pub use memory::MemoryBackend;
pub use prompt::Prompt;
pub use prompt_manager::{PromptManager, PromptManagerBuilder};
pub use query::PromptQuery;
pub use result::PromptResult;
pub use singletree_env::BoxError;
pub use singletree_llm::TokenBudget;
pub use template::{BlockTemplate, ChatSegment, ImageTemplate, SegmentContent, SegmentRole, Template};
pub use templating::RenderLimits;
