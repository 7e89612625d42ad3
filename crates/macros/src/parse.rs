//! Reads the struct and its attributes.

use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Expr, Fields, Ident, LitStr, Path, Result, Type, Visibility};

/// A struct that is a state.
pub(crate) struct StateDeclaration {
    pub(crate) name: Ident,
    pub(crate) visibility: Visibility,
    pub(crate) engine: Path,
    pub(crate) version: Option<LitStr>,
    pub(crate) fields: Vec<FieldDeclaration>,
}

/// One of its fields.
pub(crate) struct FieldDeclaration {
    pub(crate) name: Ident,
    pub(crate) ty: Type,
    pub(crate) reducer: ReducerAttribute,
    pub(crate) default: DefaultAttribute,
}

pub(crate) enum ReducerAttribute {
    LastWriteWins,
    Append,
    Merge,
    ConcatFlatten,
    MergeAll,
    BoundedAppend(Expr),
    DedupeAppend(Option<LitStr>),
    MergeByKey(LitStr),
    Custom(Path),
}

pub(crate) enum DefaultAttribute {
    Trait,
    Value(Box<Expr>),
    Required,
}

pub(crate) fn parse_state_declaration(input: &DeriveInput) -> Result<StateDeclaration> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new(input.span(), "a state is a struct with named fields"));
    };
    let Fields::Named(named) = &data.fields else {
        return Err(Error::new(input.span(), "a state is a struct with named fields"));
    };
    if !input.generics.params.is_empty() {
        return Err(Error::new(input.generics.span(), "a state has no type parameters"));
    }
    let mut engine: Path = syn::parse_quote!(::singletree::engine);
    let mut version = None;
    for attribute in input.attrs.iter().filter(|attr| attr.path().is_ident("state")) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("version") {
                version = Some(meta.value()?.parse()?);
            } else if meta.path.is_ident("engine") {
                engine = meta.value()?.parse()?;
            } else {
                return Err(meta.error("expected `version` or `engine`"));
            }
            Ok(())
        })?;
    }
    let fields = named.named.iter().map(parse_field_declaration).collect::<Result<_>>()?;
    Ok(StateDeclaration { name: input.ident.clone(), visibility: input.vis.clone(), engine, version, fields })
}

fn parse_field_declaration(field: &syn::Field) -> Result<FieldDeclaration> {
    let name = field.ident.clone().ok_or_else(|| Error::new(field.span(), "a field has a name"))?;
    let (mut reducer, mut default) = (None, None);
    for attribute in field.attrs.iter().filter(|attr| attr.path().is_ident("state")) {
        attribute.parse_nested_meta(|meta| {
            let twice = match meta.path.get_ident().map(ToString::to_string).as_deref() {
                Some("default") => {
                    default.replace(DefaultAttribute::Value(Box::new(meta.value()?.parse()?))).is_some()
                }
                Some("required") => default.replace(DefaultAttribute::Required).is_some(),
                Some(word) => reducer.replace(self::parse_reducer_attribute(word, &meta)?).is_some(),
                None => return Err(meta.error("expected a word")),
            };
            if twice { Err(meta.error("a field has one reducer and one default")) } else { Ok(()) }
        })?;
    }
    Ok(FieldDeclaration {
        name,
        ty: field.ty.clone(),
        reducer: reducer.unwrap_or(ReducerAttribute::LastWriteWins),
        default: default.unwrap_or(DefaultAttribute::Trait),
    })
}

fn parse_reducer_attribute(word: &str, meta: &syn::meta::ParseNestedMeta<'_>) -> Result<ReducerAttribute> {
    Ok(match word {
        "last_write_wins" => ReducerAttribute::LastWriteWins,
        "append" => ReducerAttribute::Append,
        "merge" => ReducerAttribute::Merge,
        "concat_flatten" => ReducerAttribute::ConcatFlatten,
        "merge_all" => ReducerAttribute::MergeAll,
        "bounded_append" => ReducerAttribute::BoundedAppend(meta.value()?.parse()?),
        "dedupe_append" => ReducerAttribute::DedupeAppend(match meta.value() {
            Ok(value) => Some(value.parse()?),
            Err(_) => None,
        }),
        "merge_by_key" => ReducerAttribute::MergeByKey(meta.value()?.parse()?),
        "reducer" => ReducerAttribute::Custom(meta.value()?.parse()?),
        _ => return Err(meta.error("expected a reducer, `default` or `required`")),
    })
}
