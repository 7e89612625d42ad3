//! Arguments that fit a JSON Schema, drawn from random numbers.

use serde_json::{Map, Number, Value};
use singletree_llm::Schema;

use crate::random::SimulationRandom;

/// After how many draws that do not fit it gives up.
const DRAWS_MAX: usize = 32;

/// How many levels of a schema are followed; below them a value is null.
const LEVELS_MAX: usize = 8;

/// Draws arguments that fit a schema; none when no draw fits.
pub(crate) fn draw_arguments(schema: &Schema, random: &SimulationRandom) -> Option<Map<String, Value>> {
    let sampler = SchemaSampler { root: schema.as_value(), random };
    (0..DRAWS_MAX).find_map(|_| match sampler.draw_value(schema.as_value(), LEVELS_MAX) {
        Value::Object(arguments) => schema.check_arguments(&arguments).is_ok().then_some(arguments),
        _ => None,
    })
}

/// Draws values of the parts of one schema.
struct SchemaSampler<'a> {
    root: &'a Value,
    random: &'a SimulationRandom,
}

impl SchemaSampler<'_> {
    fn draw_value(&self, schema: &Value, levels: usize) -> Value {
        let Some(levels) = levels.checked_sub(1) else { return Value::Null };
        if let Some(fixed) = schema.get("const") {
            return fixed.clone();
        }
        for listed in ["enum", "examples"] {
            if let Some(values) = schema.get(listed).and_then(Value::as_array).filter(|all| !all.is_empty()) {
                return self.random.draw_from(values).unwrap_or_default();
            }
        }
        for alternatives in ["anyOf", "oneOf"] {
            if let Some(schemas) = schema.get(alternatives).and_then(Value::as_array) {
                let chosen = self.random.draw_from(schemas).unwrap_or_default();
                return self.merge_values(schema, &chosen, levels);
            }
        }
        if let Some(parts) = schema.get("allOf").and_then(Value::as_array) {
            let drawn = self.draw_typed_value(schema, levels);
            return parts.iter().fold(drawn, |drawn, part| merge(drawn, self.draw_value(part, levels)));
        }
        match schema.get("$ref").and_then(Value::as_str).and_then(|reference| reference.strip_prefix('#')) {
            Some(pointer) => self.draw_value(self.root.pointer(pointer).unwrap_or(&Value::Null), levels),
            None => self.draw_typed_value(schema, levels),
        }
    }

    /// Draws a value of an alternative, with the properties that stand beside the alternatives.
    fn merge_values(&self, beside: &Value, chosen: &Value, levels: usize) -> Value {
        let drawn = self.draw_value(chosen, levels);
        match beside.get("properties") {
            Some(_) => merge(self.draw_object(beside, levels), drawn),
            None => drawn,
        }
    }

    fn draw_typed_value(&self, schema: &Value, levels: usize) -> Value {
        let kinds = match schema.get("type") {
            Some(Value::String(kind)) => vec![kind.clone()],
            Some(Value::Array(kinds)) => {
                kinds.iter().filter_map(|kind| kind.as_str().map(str::to_owned)).collect()
            }
            _ => Vec::new(),
        };
        let has = |key: &str| schema.get(key).is_some();
        match self.random.draw_from(&kinds).as_deref() {
            Some("object") => self.draw_object(schema, levels),
            Some("array") => self.draw_array(schema, levels),
            Some("boolean") => Value::Bool(self.random.draw_percent(50)),
            Some("integer") => Value::Number(self.draw_integer(schema).into()),
            Some("number") => {
                Number::from_f64(self.draw_integer(schema) as f64).map_or(Value::Null, Value::Number)
            }
            Some("null") => Value::Null,
            None if has("properties") || has("required") => self.draw_object(schema, levels),
            None if has("items") => self.draw_array(schema, levels),
            None if has("minimum") || has("maximum") => Value::Number(self.draw_integer(schema).into()),
            Some(_) | None => Value::String(self.draw_text(schema)),
        }
    }

    fn draw_object(&self, schema: &Value, levels: usize) -> Value {
        let required: Vec<&str> = schema
            .get("required")
            .and_then(Value::as_array)
            .map(|names| names.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        let mut drawn = Map::new();
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            if required.contains(&name.as_str()) || self.random.draw_percent(50) {
                drawn.insert(name.clone(), self.draw_value(property, levels));
            }
        }
        for name in required {
            if !drawn.contains_key(name) {
                drawn.insert(name.to_owned(), Value::String(self.draw_text(&Value::Null)));
            }
        }
        Value::Object(drawn)
    }

    fn draw_array(&self, schema: &Value, levels: usize) -> Value {
        let bound = |name: &str| schema.get(name).and_then(Value::as_u64);
        let low = bound("minItems").unwrap_or(0);
        let high = bound("maxItems").unwrap_or(low + 2).min(low + 2);
        let items = schema.get("items").unwrap_or(&Value::Null);
        (0..self.random.draw_between(low, high)).map(|_| self.draw_value(items, levels)).collect()
    }

    fn draw_integer(&self, schema: &Value) -> i64 {
        let bound = |name: &str| schema.get(name).and_then(Value::as_f64).map(|bound| bound as i64);
        let above = bound("exclusiveMinimum").map(|bound| bound.saturating_add(1));
        let below = bound("exclusiveMaximum").map(|bound| bound.saturating_sub(1));
        let low = bound("minimum").or(above);
        let high = bound("maximum").or(below);
        let low = low.unwrap_or_else(|| high.map_or(0, |high| high.saturating_sub(1_000)));
        let span = high.unwrap_or(low.saturating_add(1_000)).saturating_sub(low);
        let step = bound("multipleOf").filter(|step| *step > 0).unwrap_or(1);
        let drawn = i64::try_from(self.random.draw_between(0, u64::try_from(span).unwrap_or(0))).unwrap_or(0);
        let drawn = low.saturating_add(drawn);
        drawn - drawn.rem_euclid(step)
    }

    /// Draws a text of the wanted format and length. Texts differ, so that effects of different calls do, too.
    fn draw_text(&self, schema: &Value) -> String {
        let number = self.random.draw_below(1_000_000);
        let text = match schema.get("format").and_then(Value::as_str) {
            Some("date-time") => format!("2030-01-01T00:00:{:02}Z", number % 60),
            Some("date") => format!("2030-01-{:02}", number % 28 + 1),
            Some("time") => format!("00:00:{:02}Z", number % 60),
            Some("email") => format!("a{number}@example.org"),
            Some("uri" | "uri-reference" | "url") => format!("https://example.org/{number}"),
            Some("uuid") => format!("00000000-0000-4000-8000-{number:012}"),
            Some("ipv4") => format!("192.0.2.{}", number % 256),
            Some(_) | None => format!("v{number}"),
        };
        let bound = |name: &str| {
            schema.get(name).and_then(Value::as_u64).and_then(|bound| usize::try_from(bound).ok())
        };
        let least = bound("minLength").unwrap_or(0).min(10_000);
        let text = if text.len() < least { format!("{text:x<least$}") } else { text };
        text.chars().take(bound("maxLength").unwrap_or(usize::MAX)).collect()
    }
}

/// Adds the properties of an object to those of another; any other value takes the place of the former.
fn merge(former: Value, value: Value) -> Value {
    match (former, value) {
        (Value::Object(mut all), Value::Object(more)) => {
            all.extend(more);
            Value::Object(all)
        }
        (_, value) => value,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn drawn_arguments_fit_their_schema() {
        let schemas = [
            json!({ "type": "object" }),
            json!({ "type": "object", "required": ["order"], "additionalProperties": false,
                "properties": { "order": { "type": "string", "minLength": 3, "maxLength": 5 } } }),
            json!({ "type": "object", "required": ["count", "kind", "at", "tags", "more"], "properties": {
                "count": { "type": "integer", "minimum": 3, "exclusiveMaximum": 9, "multipleOf": 2 },
                "kind": { "enum": ["a", "b"] },
                "at": { "type": "string", "format": "date-time" },
                "tags": { "type": "array", "items": { "type": "string" }, "minItems": 1 },
                "more": { "$ref": "#/$defs/more" },
                "other": { "type": ["null", "boolean"] } },
                "$defs": { "more": { "anyOf": [{ "type": "number", "maximum": -4 }, { "const": "none" }] } } }),
            json!({ "type": "object", "allOf": [
                { "type": "object", "required": ["a"], "properties": { "a": { "type": "integer" } } },
                { "type": "object", "required": ["b"], "properties": { "b": { "type": "string" } } }] }),
        ];
        for (at, schema) in schemas.into_iter().enumerate() {
            let schema = Schema::compile(schema).unwrap();
            for seed in 0..50 {
                let random = SimulationRandom::from_name(seed, "sample");
                let drawn = draw_arguments(&schema, &random);
                assert!(drawn.is_some(), "schema {at}, seed {seed}");
            }
        }
    }

    #[test]
    fn nothing_is_drawn_where_no_draw_fits() {
        let schema = json!({ "type": "object", "required": ["code"],
            "properties": { "code": { "type": "string", "pattern": "^[A-Z]{9}$" } } });
        let random = SimulationRandom::from_name(0, "sample");
        assert_eq!(draw_arguments(&Schema::compile(schema).unwrap(), &random), None);
    }
}
