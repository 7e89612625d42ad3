//! Writes the implementations.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use crate::parse::{DefaultAttribute, FieldDeclaration, ReducerAttribute, StateDeclaration};

pub(crate) fn expand_state(state: &StateDeclaration) -> TokenStream {
    let StateDeclaration { name, visibility, engine, version, fields } = state;
    let update = format_ident!("{name}Update");
    let schema_name = name.to_string();
    let version = version.iter();
    let specs = fields.iter().map(|field| expand_field_declaration(state, field));
    let setters = fields.iter().map(|field| expand_setter(state, field));
    let uses = fields.iter().map(|field| expand_setter_use(state, field));
    let reads = fields.iter().map(|field| expand_field_read(state, field));
    let used = fields.iter().map(|field| &field.name);
    let update_doc = format!("A partial update of [`{name}`]: only what a method sets is changed.");
    let new_doc = format!("Starts an update of [`{name}`] that changes nothing.");
    quote! {
        #[doc = #update_doc]
        #[derive(Debug, Clone, Default)]
        #[must_use]
        #visibility struct #update(#engine::StateUpdate);

        impl #update {
            #(#setters)*
        }

        impl ::core::convert::From<#update> for #engine::StateUpdate {
            fn from(update: #update) -> Self {
                update.0
            }
        }

        impl #name {
            #[doc = #new_doc]
            #visibility fn update() -> #update {
                #update::default()
            }
        }

        // Names every method once: a state need not use all of them.
        const _: fn() = || {
            ::core::mem::drop(#name::update);
            #(#uses)*
        };

        impl #engine::State for #name {
            type Update = #update;

            fn read(snapshot: &#engine::Snapshot) -> ::core::result::Result<Self, #engine::FieldFault> {
                let state = Self { #(#reads,)* };
                // A field that only the graph looks at is used all the same.
                let _ = (#(&state.#used,)*);
                ::core::result::Result::Ok(state)
            }
        }

        impl #engine::DeclaredState for #name {
            fn schema() -> ::std::sync::Arc<#engine::StateSchema> {
                let schema = #engine::StateSchema::new(#schema_name, ::std::vec![#(#specs),*]);
                #(let schema = schema.with_version(#version);)*
                ::std::sync::Arc::new(schema)
            }
        }
    }
}

/// Calls a setter in code that never runs, with a value of the type that its reducer takes.
fn expand_setter_use(state: &StateDeclaration, field: &FieldDeclaration) -> TokenStream {
    let engine = &state.engine;
    let update = format_ident!("{}Update", state.name);
    let FieldDeclaration { name, ty, reducer, .. } = field;
    let element = quote!(<#ty as #engine::StateListField>::Element);
    let argument = match reducer {
        ReducerAttribute::LastWriteWins | ReducerAttribute::Merge => quote!(#ty),
        ReducerAttribute::Append
        | ReducerAttribute::BoundedAppend(_)
        | ReducerAttribute::DedupeAppend(_)
        | ReducerAttribute::MergeByKey(_) => {
            quote!(::std::vec::Vec<#element>)
        }
        ReducerAttribute::ConcatFlatten => quote!(::std::vec::Vec<::std::vec::Vec<#element>>),
        ReducerAttribute::MergeAll => quote!(::std::vec::Vec<#ty>),
        ReducerAttribute::Custom(_) => quote!(#engine::FieldContent),
    };
    quote! { ::core::mem::drop(|update: #update, value: #argument| update.#name(value)); }
}

fn expand_field_read(state: &StateDeclaration, field: &FieldDeclaration) -> TokenStream {
    let engine = &state.engine;
    let FieldDeclaration { name, ty, .. } = field;
    let text = name.to_string();
    quote! { #name: #engine::read_field::<#ty>(snapshot, #text)? }
}

fn expand_field_declaration(state: &StateDeclaration, field: &FieldDeclaration) -> TokenStream {
    let engine = &state.engine;
    let FieldDeclaration { name, ty, reducer, default } = field;
    let text = name.to_string();
    let default = match default {
        DefaultAttribute::Trait => {
            quote!(::core::option::Option::Some(<#ty as ::core::default::Default>::default()))
        }
        DefaultAttribute::Value(value) => quote!(::core::option::Option::Some::<#ty>(#value)),
        DefaultAttribute::Required => quote!(::core::option::Option::None::<#ty>),
    };
    let reducer = match reducer {
        ReducerAttribute::LastWriteWins => quote!(#engine::Reducer::LastWriteWins),
        ReducerAttribute::Append => quote!(#engine::Reducer::Append),
        ReducerAttribute::Merge => quote!(#engine::Reducer::Merge),
        ReducerAttribute::ConcatFlatten => quote!(#engine::Reducer::ConcatFlatten),
        ReducerAttribute::MergeAll => quote!(#engine::Reducer::MergeAll),
        ReducerAttribute::BoundedAppend(max) => quote!(#engine::Reducer::BoundedAppend(#max)),
        ReducerAttribute::DedupeAppend(None) => {
            quote!(#engine::Reducer::DedupeAppend(::core::option::Option::None))
        }
        ReducerAttribute::DedupeAppend(Some(key)) => {
            quote!(#engine::Reducer::DedupeAppend(::core::option::Option::Some(#engine::KeyExtractor::field(#key))))
        }
        ReducerAttribute::MergeByKey(key) => {
            quote!(#engine::Reducer::MergeByKey(::core::option::Option::Some(#engine::KeyExtractor::field(#key))))
        }
        ReducerAttribute::Custom(path) => quote!(#path()),
    };
    quote! { #engine::declare_field::<#ty>(#text, #default, #reducer) }
}

/// One method of the update builder. Its argument has the type that the reducer takes, which need not be the field's
/// type.
fn expand_setter(state: &StateDeclaration, field: &FieldDeclaration) -> TokenStream {
    let engine = &state.engine;
    let visibility = &state.visibility;
    let FieldDeclaration { name, ty, reducer, .. } = field;
    let text = name.to_string();
    let element = quote!(<#ty as #engine::StateListField>::Element);
    match reducer {
        ReducerAttribute::LastWriteWins | ReducerAttribute::Merge => {
            let doc = format!("Sets `{name}`, as its reducer takes it.");
            quote! {
                #[doc = #doc]
                #visibility fn #name(self, value: impl ::core::convert::Into<#ty>) -> Self {
                    Self(self.0.with(#text, #engine::StateField::write(value.into())))
                }
            }
        }
        ReducerAttribute::Append
        | ReducerAttribute::BoundedAppend(_)
        | ReducerAttribute::DedupeAppend(_)
        | ReducerAttribute::MergeByKey(_) => {
            let doc = format!("Adds to `{name}`, by its reducer.");
            quote! {
                #[doc = #doc]
                #visibility fn #name<I>(self, items: I) -> Self
                where
                    I: ::core::iter::IntoIterator,
                    I::Item: ::core::convert::Into<#element>,
                {
                    let items = items.into_iter().map(|item| #engine::Item::from_typed::<#element>(item.into()));
                    Self(self.0.with(#text, #engine::FieldContent::Many(items.collect())))
                }
            }
        }
        ReducerAttribute::ConcatFlatten => {
            let doc = format!("Adds lists to `{name}`, one after the other.");
            quote! {
                #[doc = #doc]
                #visibility fn #name(self, lists: impl ::core::iter::IntoIterator<Item = ::std::vec::Vec<#element>>) -> Self {
                    let lists = lists.into_iter().map(#engine::Item::from_typed::<::std::vec::Vec<#element>>);
                    Self(self.0.with(#text, #engine::FieldContent::Many(lists.collect())))
                }
            }
        }
        ReducerAttribute::MergeAll => {
            let doc = format!("Merges maps into `{name}`, one after the other.");
            quote! {
                #[doc = #doc]
                #visibility fn #name(self, maps: impl ::core::iter::IntoIterator<Item = #ty>) -> Self {
                    let maps = maps.into_iter().map(#engine::Item::from_typed::<#ty>);
                    Self(self.0.with(#text, #engine::FieldContent::Many(maps.collect())))
                }
            }
        }
        ReducerAttribute::Custom(_) => {
            let doc = format!("Hands a value to the reducer of `{name}`.");
            quote! {
                #[doc = #doc]
                #visibility fn #name(self, value: #engine::FieldContent) -> Self {
                    Self(self.0.with(#text, value))
                }
            }
        }
    }
}
