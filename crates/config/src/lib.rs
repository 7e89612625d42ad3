//! Agents as files: `singletree.toml`, read, checked and built.
//!
//! # Vocabulary
//!
//! The *file* is written by a person. A *mistake* is something wrong in it, with its line, its column and a hint; a
//! *report* is all of them. A *configuration* is a file without mistakes. Its *surroundings* are the things that it
//! names outside itself: a folder, and a way to look variables up; nothing here asks the environment (INV-17). A
//! secret never stands in the file, only where it is: in a variable or in another file (INV-16).
//!
//! # Example
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! use std::path::Path;
//! use singletree_config::{Config, Surroundings};
//!
//! let text = r#"
//! [models.main]
//! wire = "openai"
//! name = "gpt-5-mini"
//! key = { env = "OPENAI_API_KEY" }
//!
//! [agents.support]
//! instructions = "You help the customers of a bookshop."
//! tools = ["outbox"]
//! approval = { ask = ["destructive"] }
//! "#;
//! let around =
//!     Surroundings { folder: Path::new("."), env: &|_| Some("a key".to_owned()) };
//! let config = Config::check_text("singletree.toml", text, &around).await.unwrap();
//! assert_eq!(config.agent_names(), ["support"]);
//!
//! let text = text.replace("tools", "tool");
//! let report = Config::check_text("singletree.toml", &text, &around).await.unwrap_err();
//! let told = "singletree.toml:9:1: `agents.support` has no key `tool`\n    hint: did you mean `tools`?";
//! assert_eq!(report.to_string(), told);
//! # }
//! ```

mod error;

mod replies;
mod report;
mod spot;
mod suggest;
mod surroundings;

mod quantity;
mod quota;
mod secret_source;
mod section;

mod agent;
mod approval;
mod compaction;
mod file;
mod limits;
mod model;
mod notify;
mod server;
mod serving;
mod telemetry;
mod tool;

mod campaigns;
mod check;
mod prompt;
mod resolve;
mod retention;
mod selector;

mod build;
mod config;
mod programs;
mod reach;
mod sample;
mod unoffered;

pub use build::{AgentDependencies, BuiltAgents, ReplacedParts};
pub use campaigns::CampaignSettings;
pub use config::{BareModel, Config, InspectionDepth};
pub use error::{Error, Result};
pub use notify::NotifySettings;
pub use quota::{QuotaSettings, ScopeQuotas};
pub use report::{ConfigMistake, ConfigReport, MistakeKind};
pub use sample::SAMPLE;
pub use serving::{ServingSettings, TokenSettings};
pub use surroundings::Surroundings;
pub use telemetry::{MetricSettings, TelemetrySettings};
pub use unoffered::{OnUnoffered, UnofferedTools};
