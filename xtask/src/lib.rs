//! The project's own chores, run as `cargo xtask NAME`.
//!
//! `tidy` reads the tracked files, the manifests and the lock file and reports every
//! place where a rule is broken. It compiles nothing and needs no network, so
//! it also runs as a test of this crate.

mod advisories;
mod doc;
mod language;
mod lock;
mod packages;
mod release;
mod repo;
mod rust_source;
mod std_paths;
mod tidy;

pub use advisories::{AdvisoryReport, check_advisories};
pub use doc::build_documentation;
pub use language::{LanguageMeasure, measure_language};
pub use release::build_release;
pub use repo::Repository;
pub use tidy::{TidyFinding, describe_crate_edges, find_violations, missing_error_pages};
