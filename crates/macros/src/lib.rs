//! `#[derive(State)]`: a Rust struct as the state of a graph. `#[tool]`: an async function as a tool.
//!
//! For a struct with named fields the derive makes the schema, the reader, and an update builder with one method for
//! each field. Field types implement the engine's `StateField`, list fields under a list reducer its `StateListField`.
//!
//! # Attributes of a field
//! - `#[state(append)]`, `#[state(merge)]`, `#[state(concat_flatten)]`, `#[state(merge_all)]`,
//!   `#[state(bounded_append = 100)]`, `#[state(dedupe_append)]`, `#[state(dedupe_append = "id")]`,
//!   `#[state(merge_by_key = "id")]`, `#[state(reducer = path::to::function)]`: the reducer; last write wins otherwise.
//! - `#[state(default = expression)]`: the default; `Default::default()` otherwise.
//! - `#[state(required)]`: no default.
//!
//! # Attributes of the struct
//! - `#[state(version = "2")]`: the schema's version.
//! - `#[state(engine = path)]`: where the engine is, for crates that use it without the facade.
//!
//! # Attributes of a tool
//! - `#[tool(read)]`, or `safe_write`, `local`, `destructive`: how much a call may change; the last otherwise.
//! - `#[tool(idempotent)]`: a call whose outcome is unknown may be run again; otherwise one that only reads may.
//! - `#[tool(name = "other")]`: its name; that of the function otherwise.
//! - `#[tool(tools = path)]`: where the tools are, for crates that use them without the facade.

mod expand;
mod parse;
mod tool;

use proc_macro::TokenStream;

/// Derives the engine's `State` and `DeclaredState` for a struct. See the crate's documentation.
#[proc_macro_derive(State, attributes(state))]
pub fn derive_state(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as syn::DeriveInput);
    let expanded = parse::parse_state_declaration(&input).map(|it| expand::expand_state(&it));
    expanded.unwrap_or_else(|error| error.to_compile_error()).into()
}

/// Makes a tool of an async function `NAME`: afterwards `NAME` is a function that returns the tool, as agents take it,
/// and `NAME::run` the function as it was written.
///
/// The parameters are the arguments that the model passes, by name: their types (`Deserialize` and `JsonSchema`) and
/// doc comments are the tool's schema, and attributes like `#[serde(default)]` may stand at them. A parameter of the
/// type `ToolContext` gets the context of the call. The function returns a result of the tools' error; its doc comment
/// is the tool's description for the model. See the crate's documentation.
#[proc_macro_attribute]
pub fn tool(attributes: TokenStream, function: TokenStream) -> TokenStream {
    let function = syn::parse_macro_input!(function as syn::ItemFn);
    let expanded = tool::expand_tool(attributes.into(), &function);
    expanded.unwrap_or_else(|error| error.to_compile_error()).into()
}
