//! JSON Schema, compiled once. The only place that knows the validator.

mod bounds;
mod positions;
mod steps;

use std::fmt;
use std::sync::OnceLock;

use serde_json::Value;

use crate::Map;
use crate::error::{Error, ProviderErrorDetail, Result};

pub use bounds::count_patterns;
use steps::{BoundedValidator, ValidationOutcome};

/// A JSON Schema of an object, compiled at most once.
///
/// # Limits
/// A schema that is compiled by [`compile`](Self::compile) has at most 128 KiB, 32 levels, 2,000 objects and lists,
/// 64 references, and 64 patterns of 512 bytes; its references stay within it and unfold to at most 20,000 schemas. A
/// check takes a bounded number of steps, at most some tenths of a second; a value for which it would take more does
/// not fit.
pub struct Schema {
    source: Value,
    validator: OnceLock<Result<BoundedValidator, String>>,
}

/// Compiles a schema, or says where it is none.
fn build_validator(source: &Value) -> Result<BoundedValidator, String> {
    BoundedValidator::new(source).map_err(|error| {
        let path = error.instance_path().to_string();
        format!("not a JSON Schema at {}: {}", describe_pointer(&path), error.masked())
    })
}

impl Schema {
    /// Compiles a schema whose root describes an object (spec: llm-provider §4).
    ///
    /// # Errors
    ///
    /// `provider_invalid_request` when it is no JSON Schema, not one of an object, or exceeds a limit.
    pub fn compile(source: Value) -> Result<Self> {
        let schema = Self::from_generated(source)?;
        if let Value::Object(root) = &schema.source {
            bounds::check_bounds(root)
                .map_err(|error| Error::InvalidRequest(ProviderErrorDetail::new(error)))?;
        }
        match build_validator(&schema.source) {
            Ok(validator) => Ok(Self { validator: OnceLock::from(Ok(validator)), ..schema }),
            Err(problem) => Err(Error::InvalidRequest(ProviderErrorDetail::new(problem))),
        }
    }

    /// Takes a schema that is part of the program, generated from a type or written out and tested. It is compiled when
    /// something is first checked, so that a program with many tools starts quickly.
    ///
    /// # Errors
    ///
    /// `provider_invalid_request` when its root is not an object.
    pub fn from_generated(source: Value) -> Result<Self> {
        let invalid = |problem: String| Error::InvalidRequest(ProviderErrorDetail::new(problem));
        let Value::Object(root) = &source else {
            return Err(invalid("a schema must be a JSON object".to_owned()));
        };
        if root.get("type").is_some_and(|root| root != "object") {
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
    /// The first mismatches, by path, or that the check would take too many steps. Values are not repeated in the text.
    pub fn check_value(&self, value: &Value) -> Result<(), SchemaMismatch> {
        const TOLD_MAX: usize = 3;
        let at_root = |problem: &str| SchemaMismatch { told: vec![(String::new(), problem.to_owned())] };
        let validator = match self.validator.get_or_init(|| build_validator(&self.source)) {
            Ok(validator) => validator,
            Err(problem) => return Err(at_root(problem)),
        };
        match validator.check_value(value, TOLD_MAX) {
            ValidationOutcome::Fits => Ok(()),
            ValidationOutcome::Mismatches(told) if told.is_empty() => {
                Err(at_root("the value does not fit the schema"))
            }
            ValidationOutcome::Mismatches(told) => Err(SchemaMismatch { told }),
            ValidationOutcome::TooManySteps => {
                Err(at_root("checking the value against the schema takes too many steps"))
            }
        }
    }

    /// Checks the arguments of a call.
    ///
    /// # Errors
    ///
    /// As [`check_value`](Self::check_value).
    pub fn check_arguments(&self, map: &Map) -> Result<(), SchemaMismatch> {
        self.check_value(&Value::Object(map.clone()))
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
pub struct SchemaMismatch {
    told: Vec<(String, String)>,
}

impl SchemaMismatch {
    /// Returns the JSON Pointer of the first mismatch; the empty pointer is the whole value.
    #[must_use]
    pub fn first_mismatch_path(&self) -> &str {
        self.told.first().map_or("", |(path, _)| path)
    }
}

impl fmt::Display for SchemaMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (path, problem)) in self.told.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}at {}: {problem}", describe_pointer(path))?;
        }
        Ok(())
    }
}

impl std::error::Error for SchemaMismatch {}

fn describe_pointer(path: &str) -> &str {
    if path.is_empty() { "the root" } else { path }
}

#[cfg(test)]
mod tests;
