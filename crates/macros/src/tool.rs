//! `#[tool]`: an async function with a doc comment as a tool.

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote};
use syn::parse::Parser;
use syn::spanned::Spanned;
use syn::{
    Attribute, Error, Expr, ExprLit, FnArg, Ident, ItemFn, Lit, Meta, Pat, PatType, Path, Result, Type,
};

const EFFECTS: [(&str, &str); 4] =
    [("read", "Read"), ("safe_write", "SafeWrite"), ("destructive", "Destructive"), ("local", "Local")];

/// The arguments of the attribute.
struct ToolAttributes {
    effect: Option<Ident>,
    idempotent: bool,
    name: Option<String>,
    tools: Path,
}

/// A parameter of the function.
enum ToolParameter<'a> {
    /// The model passes it: a property of the tool's schema.
    Argument { name: &'a Ident, attributes: &'a [Attribute], ty: &'a Type },
    /// The context of the call.
    Context,
}

/// Writes the function that makes the tool, and the type that has the function as `run`.
pub(crate) fn expand_tool(attributes: TokenStream, function: &ItemFn) -> Result<TokenStream> {
    let ToolAttributes { effect, idempotent, name, tools } = parse_tool_attributes(attributes)?;
    let effect = effect.unwrap_or_else(|| format_ident!("Destructive"));
    let parameters = tool_parameters(function)?;
    let description = doc_comment_text(function)?;
    let (vis, called) = (&function.vis, &function.sig.ident);
    let name = name.unwrap_or_else(|| called.to_string());
    let fields = parameters.iter().filter_map(|parameter| match parameter {
        ToolParameter::Argument { name, attributes, ty } => Some(quote!(#(#attributes)* #name: #ty)),
        ToolParameter::Context => None,
    });
    let passed = parameters.iter().map(|parameter| match parameter {
        ToolParameter::Argument { name, .. } => quote!(arguments.#name),
        ToolParameter::Context => quote!(context),
    });
    let recovery = idempotent.then(|| quote!(.map(|tool| tool.with_recovery(#tools::Recovery::Rerun))));
    let derives = generated_derives(&tools);
    let run = runnable_function(function);
    let docs = function.attrs.iter().filter(|attribute| attribute.path().is_ident("doc"));
    let made = format!("Makes the tool `{name}`; [`{called}::run`] is the function itself.");
    Ok(quote! {
        #[doc = #made]
        #[doc = ""]
        #[doc = "# Errors"]
        #[doc = ""]
        #[doc = "`tool_definition_invalid` when the name is none for a tool."]
        #vis fn #called() -> #tools::Result<#tools::TypedTool> {
            #derives
            struct Arguments { #(#fields,)* }
            #tools::TypedTool::new(
                #name,
                #description,
                #tools::Effect::#effect,
                |arguments: Arguments, context: #tools::ToolContext| {
                    // A function may take neither.
                    let _ = (&arguments, &context);
                    #called::run(#(#passed),*)
                },
            )
            #recovery
        }

        #(#docs)*
        #[expect(non_camel_case_types, reason = "it is found by the name of the function")]
        #[derive(Debug)]
        #vis enum #called {}

        impl #called {
            #run
        }
    })
}

/// Returns the attributes of the type that a model's arguments are read into: no argument may be passed that the
/// function does not take.
fn generated_derives(tools: &Path) -> TokenStream {
    let generated = |name: &str| {
        let name = Ident::new(name, tools.span());
        quote!(#tools::generated::#name)
    };
    let (serde, schemars) = (generated("serde"), generated("schemars"));
    let (serde_path, schemars_path) = (path_text(&serde), path_text(&schemars));
    quote! {
        #[derive(#serde::Deserialize, #schemars::JsonSchema)]
        #[serde(crate = #serde_path, deny_unknown_fields)]
        #[schemars(crate = #schemars_path)]
    }
}

fn path_text(path: &TokenStream) -> String {
    path.to_string().replace(' ', "")
}

/// Returns the function as `run`, without the attributes of its parameters, which are those of the schema.
fn runnable_function(function: &ItemFn) -> TokenStream {
    let mut run = function.clone();
    run.sig.ident = Ident::new("run", function.sig.ident.span());
    for input in &mut run.sig.inputs {
        if let FnArg::Typed(input) = input {
            input.attrs.clear();
        }
    }
    run.into_token_stream()
}

fn parse_tool_attributes(attributes: TokenStream) -> Result<ToolAttributes> {
    let tools = syn::parse_quote!(::singletree::tools);
    let mut said = ToolAttributes { effect: None, idempotent: false, name: None, tools };
    let parser = syn::meta::parser(|meta| {
        if let Some((_, variant)) = EFFECTS.iter().find(|(word, _)| meta.path.is_ident(word)) {
            if said.effect.is_some() {
                return Err(meta.error("a tool has one effect"));
            }
            said.effect = Some(Ident::new(variant, meta.path.span()));
        } else if meta.path.is_ident("idempotent") {
            said.idempotent = true;
        } else if meta.path.is_ident("name") {
            said.name = Some(meta.value()?.parse::<syn::LitStr>()?.value());
        } else if meta.path.is_ident("tools") {
            said.tools = meta.value()?.parse()?;
        } else {
            let expected =
                "expected `read`, `safe_write`, `destructive`, `local`, `idempotent`, `name` or `tools`";
            return Err(meta.error(expected));
        }
        Ok(())
    });
    parser.parse2(attributes)?;
    Ok(said)
}

/// Returns the parameters: arguments, and the context of the call where the function takes it.
fn tool_parameters(function: &ItemFn) -> Result<Vec<ToolParameter<'_>>> {
    let sig = &function.sig;
    if sig.asyncness.is_none() {
        return Err(Error::new(sig.fn_token.span(), "a tool is an async function"));
    }
    if !sig.generics.params.is_empty() {
        return Err(Error::new(sig.generics.span(), "a tool has no type parameters"));
    }
    let parameters = sig.inputs.iter().map(|input| match input {
        FnArg::Typed(input) => tool_parameter(input),
        FnArg::Receiver(input) => Err(Error::new(input.span(), "a tool is a function of its own")),
    });
    let parameters = parameters.collect::<Result<Vec<_>>>()?;
    let contexts = parameters.iter().filter(|parameter| matches!(parameter, ToolParameter::Context));
    match contexts.count() {
        0 | 1 => Ok(parameters),
        _ => Err(Error::new(sig.inputs.span(), "a call has one context")),
    }
}

fn tool_parameter(input: &PatType) -> Result<ToolParameter<'_>> {
    let Pat::Ident(pattern) = input.pat.as_ref() else {
        return Err(Error::new(input.pat.span(), "a parameter of a tool is a name"));
    };
    let (name, ty) = (&pattern.ident, input.ty.as_ref());
    match ty {
        Type::Reference(_) => {
            Err(Error::new(ty.span(), "a tool owns its parameters: they are no references"))
        }
        Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "ToolContext") => {
            Ok(ToolParameter::Context)
        }
        _ => Ok(ToolParameter::Argument { name, attributes: &input.attrs, ty }),
    }
}

/// Returns the doc comment in the lines in which it was written.
fn doc_comment_text(function: &ItemFn) -> Result<String> {
    let line = |attribute: &Attribute| match &attribute.meta {
        Meta::NameValue(meta) if meta.path.is_ident("doc") => match &meta.value {
            Expr::Lit(ExprLit { lit: Lit::Str(line), .. }) => Some(line.value().trim().to_owned()),
            _ => None,
        },
        _ => None,
    };
    let lines: Vec<String> = function.attrs.iter().filter_map(line).collect();
    let text = lines.join("\n").trim().to_owned();
    if text.is_empty() {
        let problem = "a tool has a doc comment: the model reads it";
        return Err(Error::new(function.sig.ident.span(), problem));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(attributes: &str, function: &str) -> String {
        let function: ItemFn = syn::parse_str(function).expect("a function");
        let attributes = attributes.parse().expect("tokens");
        expand_tool(attributes, &function).expect_err("refused").to_string()
    }

    #[test]
    fn functions_that_are_no_tools_are_refused_with_the_reason() {
        let words = "expected `read`, `safe_write`, `destructive`, `local`, `idempotent`, `name` or `tools`";
        let table = [
            ("", "/// A.\nfn a(x: X) {}", "a tool is an async function"),
            ("", "async fn a(x: X) {}", "a tool has a doc comment: the model reads it"),
            ("", "/// A.\nasync fn a<T>(x: T) {}", "a tool has no type parameters"),
            ("", "/// A.\nasync fn a(&self) {}", "a tool is a function of its own"),
            ("", "/// A.\nasync fn a((x, y): (X, Y)) {}", "a parameter of a tool is a name"),
            ("", "/// A.\nasync fn a(x: &str) {}", "a tool owns its parameters: they are no references"),
            ("", "/// A.\nasync fn a(x: ToolContext, y: ToolContext) {}", "a call has one context"),
            ("read, local", "/// A.\nasync fn a(x: X) {}", "a tool has one effect"),
            ("reads", "/// A.\nasync fn a(x: X) {}", words),
            ("effect = \"read\"", "/// A.\nasync fn a(x: X) {}", words),
        ];
        for (attributes, function, problem) in table {
            assert_eq!(refused(attributes, function), problem, "{attributes} {function}");
        }
    }
}
