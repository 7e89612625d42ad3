//! JSON Schema, compiled once. The only place that knows the validator.

use std::fmt;
use std::sync::OnceLock;

use serde_json::Value;

use crate::Map;
use crate::error::{Detail, Error, Result};

/// A JSON Schema of an object, compiled at most once.
///
/// Remote references are never fetched: a schema that has one does not compile.
pub struct Schema {
    source: Value,
    validator: OnceLock<Result<jsonschema::Validator, String>>,
}

/// Compiles a schema, or says where it is none.
fn build(source: &Value) -> Result<jsonschema::Validator, String> {
    jsonschema::validator_for(source).map_err(|it| {
        let path = it.instance_path().to_string();
        format!("not a JSON Schema at {}: {}", pointer(&path), it.masked())
    })
}

impl Schema {
    /// Compiles a schema whose root describes an object (spec: llm-provider §4).
    ///
    /// # Errors
    ///
    /// `provider_invalid_request` when it is no JSON Schema, or not one of an object.
    pub fn compile(source: Value) -> Result<Self> {
        let schema = Self::generated(source)?;
        match build(&schema.source) {
            Ok(validator) => Ok(Self { validator: OnceLock::from(Ok(validator)), ..schema }),
            Err(problem) => Err(Error::InvalidRequest(Detail::new(problem))),
        }
    }

    /// Takes a schema that is part of the program, generated from a type or written out and tested. It is compiled when
    /// something is first checked, so that a program with many tools starts quickly.
    ///
    /// # Errors
    ///
    /// `provider_invalid_request` when its root is not an object.
    pub fn generated(source: Value) -> Result<Self> {
        let invalid = |problem: String| Error::InvalidRequest(Detail::new(problem));
        let Value::Object(root) = &source else {
            return Err(invalid("a schema must be a JSON object".to_owned()));
        };
        if root.get("type").is_some_and(|it| it != "object") {
            return Err(invalid("the root of a schema must have type object".to_owned()));
        }
        Ok(Self { source, validator: OnceLock::new() })
    }

    /// Returns the schema as it was given.
    #[must_use]
    pub fn as_value(&self) -> &Value {
        &self.source
    }

    /// Checks a value.
    ///
    /// # Errors
    ///
    /// The first mismatches, by path. Values are not repeated in the text.
    pub fn check(&self, value: &Value) -> Result<(), Mismatch> {
        const TOLD_MAX: usize = 3;
        let validator = match self.validator.get_or_init(|| build(&self.source)) {
            Ok(validator) => validator,
            Err(problem) => return Err(Mismatch { told: vec![(String::new(), problem.clone())] }),
        };
        let told: Vec<(String, String)> = validator
            .iter_errors(value)
            .take(TOLD_MAX)
            .map(|it| (it.instance_path().to_string(), it.masked().to_string()))
            .collect();
        if told.is_empty() { Ok(()) } else { Err(Mismatch { told }) }
    }

    /// Checks the arguments of a call.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check).
    pub fn check_map(&self, map: &Map) -> Result<(), Mismatch> {
        self.check(&Value::Object(map.clone()))
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Schema").field(&self.source).finish()
    }
}

impl PartialEq for Schema {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

/// Why a value does not fit a schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    told: Vec<(String, String)>,
}

impl Mismatch {
    /// Returns the JSON Pointer of the first mismatch; the empty pointer is the whole value.
    #[must_use]
    pub fn path(&self) -> &str {
        self.told.first().map_or("", |(path, _)| path)
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (path, problem)) in self.told.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}at {}: {problem}", pointer(path))?;
        }
        Ok(())
    }
}

impl std::error::Error for Mismatch {}

fn pointer(path: &str) -> &str {
    if path.is_empty() { "the root" } else { path }
}
