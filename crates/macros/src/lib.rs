//! `#[derive(State)]`: a Rust struct as the state of a graph.
//!
//! For a struct with named fields the derive makes the schema, the reader, and an update builder with one method for each
//! field. Field types implement the engine's `Field`, list fields under a list reducer its `ListField`.
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

mod expand;
mod parse;

use proc_macro::TokenStream;

/// Derives the engine's `State` and `Declared` for a struct. See the crate's documentation.
#[proc_macro_derive(State, attributes(state))]
pub fn derive_state(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as syn::DeriveInput);
    let expanded = parse::state(&input).map(|it| expand::state(&it));
    expanded.unwrap_or_else(|error| error.to_compile_error()).into()
}
