//! Closes the gaps in the engine's own strictness: it takes an undefined value inside of a list, and in four filters.

use minijinja::value::{Kwargs, StringInput, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State, Value, escape_formatter, filters};

/// How deep lists and maps are checked. Deeper values than any prompt's data are printed as the engine does.
const DEPTH: usize = 64;

/// Closes the gaps, and adds `tojson`.
pub(super) fn install_strict_filters(environment: &mut Environment<'static>) {
    environment.set_formatter(|output, state, value| {
        // The engine has already refused undefined values themselves; an `if` without `else` is meant to be nothing.
        if !value.is_undefined() {
            require_defined(value)?;
        }
        escape_formatter(output, state, value)
    });
    environment.add_filter("join", join_defined);
    environment.add_filter("escape", escape_defined);
    environment.add_filter("e", escape_defined);
    environment.add_filter("pprint", pretty_print_defined);
    environment.add_filter("tojson", to_canonical_json);
}

/// Refuses an undefined value, and a value that contains one.
fn require_defined(value: &Value) -> Result<(), Error> {
    if is_fully_defined(value, DEPTH) {
        return Ok(());
    }
    Err(Error::new(ErrorKind::UndefinedError, "a value, or something in it, is undefined"))
}

fn is_fully_defined(value: &Value, depth: usize) -> bool {
    let items_are = |mut items: Box<dyn Iterator<Item = Value> + '_>| {
        depth == 0 || items.all(|item| is_fully_defined(&item, depth - 1))
    };
    match value.kind() {
        ValueKind::Undefined => false,
        ValueKind::Seq | ValueKind::Iterable => value.try_iter().is_ok_and(|iter| items_are(Box::new(iter))),
        ValueKind::Map => value.try_iter().is_ok_and(|keys| {
            items_are(Box::new(keys.map(|key| value.get_item(&key).unwrap_or(Value::UNDEFINED))))
        }),
        _ => true,
    }
}

fn join_defined(
    state: &mut State<'_, '_>,
    value: &Value,
    joiner: Option<StringInput<'_>>,
    attribute: Option<&str>,
    options: Kwargs,
) -> Result<Value, Error> {
    require_defined(value)?;
    filters::join(state, value, joiner, attribute, options)
}

fn escape_defined(state: &mut State<'_, '_>, value: &Value) -> Result<Value, Error> {
    require_defined(value)?;
    filters::escape(state, value)
}

fn pretty_print_defined(value: &Value) -> Result<String, Error> {
    require_defined(value)?;
    Ok(filters::pprint(value))
}

/// JSON with sorted keys and no blanks, and nothing escaped for HTML: the same value, the same bytes.
fn to_canonical_json(value: &Value) -> Result<String, Error> {
    require_defined(value)?;
    let json = serde_json::to_value(value);
    json.map(|json| singletree_llm::canonical_json(&json))
        .map_err(|error| Error::new(ErrorKind::BadSerialization, error.to_string()))
}
