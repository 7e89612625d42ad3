//! temp
use serde_json::Value;
use std::collections::BTreeMap;
/// temp
#[derive(Debug, thiserror::Error)]
pub enum MigrationError {
    /// t
    #[error("m")]
    Missing {},
    /// t
    #[error("m")]
    Ambiguous {},
    /// t
    #[error("m")]
    Failed {},
}
/// temp
#[derive(Debug, Default)]
pub struct Migrations;
impl Migrations {
    /// t
    pub fn migrate(
        &self,
        _f: &str,
        _t: &str,
        s: BTreeMap<String, Value>,
    ) -> Result<BTreeMap<String, Value>, MigrationError> {
        Ok(s)
    }
}
