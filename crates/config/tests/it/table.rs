//! Checks a text against the expected mistakes.

use std::path::Path;

use singletree_config::{Config, Surroundings};

/// An environment with one key in it.
pub(crate) fn env(name: &str) -> Option<String> {
    match name {
        "KEY" | "OPENAI_API_KEY" | "ANTHROPIC_API_KEY" => Some("canary-4711".to_owned()),
        "OTLP_AUTHORIZATION" => Some("Bearer canary-4711".to_owned()),
        "SINGLETREE_NOTIFY_SECRET" => Some("canary-4711-that-signs-notices\n".to_owned()),
        "SINGLETREE_NOTIFY_SECRET_OLD" => Some("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".to_owned()),
        "EMPTY" => Some(" ".to_owned()),
        _ => None,
    }
}

/// Reads a text in a folder.
pub(crate) fn read_in(folder: &Path, text: &str) -> Result<Config, String> {
    let around = Surroundings { folder, env: &env };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(Config::check_text("f", text, &around)).map_err(|it| it.to_string())
}

/// Asserts the whole report of a text; `f:` and the hints' indent are left out in `expect`.
pub(crate) fn check_in(folder: &Path, text: &str, expect: &[&str]) {
    let told = read_in(folder, text).err().unwrap_or_default();
    let lines: Vec<&str> = told.lines().map(|it| it.strip_prefix("f:").unwrap_or(it.trim_start())).collect();
    assert_eq!(lines, expect, "{text}");
}

/// As [`check_in`], where there are no files.
pub(crate) fn check(text: &str, expect: &[&str]) {
    check_in(Path::new("nowhere"), text, expect);
}

/// A model that needs nothing.
pub(crate) const MODEL: &str =
    "models.m = { wire = \"openai\", name = \"x\", base_url = \"http://127.0.0.1:1\" }\n";

/// As [`check`], with a model on the first line.
pub(crate) fn check_agents(text: &str, expect: &[&str]) {
    check(&format!("{MODEL}{text}"), expect);
}
