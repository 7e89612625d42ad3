//! `#[tool]`: an async function with a doc comment as a tool.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::parse::Parser;
use syn::spanned::Spanned;
use syn::{Error, Expr, ExprLit, FnArg, Ident, ItemFn, Lit, LitStr, Meta, Path, Result, Type};

/// The arguments of the attribute.
struct ToolAttributes {
    effect: Ident,
    recovery: Option<Ident>,
    name: Option<String>,
    tools: Path,
}

/// Writes the function that makes the tool, beside the function that is one.
pub(crate) fn expand_tool(attributes: TokenStream, function: &ItemFn) -> Result<TokenStream> {
    let said = parse_tool_attributes(attributes)?;
    let inputs = parameter_types(function)?;
    let (ToolAttributes { effect, tools, .. }, ItemFn { vis, sig, .. }) = (&said, function);
    let called = &sig.ident;
    let maker = format_ident!("{called}_tool");
    let name = said.name.clone().unwrap_or_else(|| called.to_string());
    let description = doc_comment_text(function)?;
    let arguments = inputs[0];
    let passed = if inputs.len() == 2 { quote!(arguments, context) } else { quote!(arguments) };
    let context = if inputs.len() == 2 { quote!(context) } else { quote!(_) };
    let recovery = said.recovery.iter();
    let doc = format!("Makes the tool `{name}` of [`{called}`].");
    Ok(quote! {
        #function

        #[doc = #doc]
        #[doc = ""]
        #[doc = "# Errors"]
        #[doc = ""]
        #[doc = "`tool_definition_invalid` when the argument type is no object."]
        #vis fn #maker() -> #tools::Result<#tools::TypedTool> {
            #tools::TypedTool::new(
                #name,
                #description,
                #tools::Effect::#effect,
                |arguments: #arguments, #context: #tools::CallContext| #called(#passed),
            )
            #(.map(|it| it.with_recovery(#tools::Recovery::#recovery)))*
        }
    })
}

fn parse_tool_attributes(attributes: TokenStream) -> Result<ToolAttributes> {
    let mut said = ToolAttributes {
        effect: format_ident!("Destructive"),
        recovery: None,
        name: None,
        tools: syn::parse_quote!(::singletree::tools),
    };
    let parser = syn::meta::parser(|meta| {
        if meta.path.is_ident("effect") {
            let word: LitStr = meta.value()?.parse()?;
            said.effect = match word.value().as_str() {
                "read" => format_ident!("Read"),
                "safe_write" => format_ident!("SafeWrite"),
                "destructive" => format_ident!("Destructive"),
                "local" => format_ident!("Local"),
                _ => return Err(Error::new(word.span(), "expected read, safe_write, destructive or local")),
            };
        } else if meta.path.is_ident("idempotent") {
            said.recovery = Some(format_ident!("Rerun"));
        } else if meta.path.is_ident("name") {
            said.name = Some(meta.value()?.parse::<LitStr>()?.value());
        } else if meta.path.is_ident("tools") {
            said.tools = meta.value()?.parse()?;
        } else {
            return Err(meta.error("expected `effect`, `idempotent`, `name` or `tools`"));
        }
        Ok(())
    });
    parser.parse2(attributes)?;
    Ok(said)
}

/// Returns the types of the parameters: the arguments, and the context of the call if the function takes it.
fn parameter_types(function: &ItemFn) -> Result<Vec<&Type>> {
    let sig = &function.sig;
    if sig.asyncness.is_none() {
        return Err(Error::new(sig.fn_token.span(), "a tool is an async function"));
    }
    if !sig.generics.params.is_empty() {
        return Err(Error::new(sig.generics.span(), "a tool has no type parameters"));
    }
    let typed = sig.inputs.iter().map(|input| match input {
        FnArg::Typed(input) => Ok(input.ty.as_ref()),
        FnArg::Receiver(input) => Err(Error::new(input.span(), "a tool is a function of its own")),
    });
    let typed = typed.collect::<Result<Vec<_>>>()?;
    match typed.len() {
        1 | 2 => Ok(typed),
        _ => Err(Error::new(
            sig.span(),
            "a tool takes its arguments, and the context of the call if it wants it",
        )),
    }
}

/// Returns the doc comment in the lines in which it was written.
fn doc_comment_text(function: &ItemFn) -> Result<String> {
    let line = |it: &syn::Attribute| match &it.meta {
        Meta::NameValue(meta) if meta.path.is_ident("doc") => match &meta.value {
            Expr::Lit(ExprLit { lit: Lit::Str(line), .. }) => Some(line.value().trim().to_owned()),
            _ => None,
        },
        _ => None,
    };
    let lines: Vec<String> = function.attrs.iter().filter_map(line).collect();
    let text = lines.join("\n").trim().to_owned();
    if text.is_empty() {
        let problem = "a tool has a doc comment: it is what the model reads";
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
    fn what_is_no_tool_is_refused_with_what_it_lacks() {
        let table = [
            ("", "/// A.\nfn a(x: X) {}", "a tool is an async function"),
            ("", "async fn a(x: X) {}", "a tool has a doc comment: it is what the model reads"),
            ("", "/// A.\nasync fn a<T>(x: T) {}", "a tool has no type parameters"),
            ("", "/// A.\nasync fn a(&self) {}", "a tool is a function of its own"),
            (
                "",
                "/// A.\nasync fn a() {}",
                "a tool takes its arguments, and the context of the call if it wants it",
            ),
            (
                "effect = \"reads\"",
                "/// A.\nasync fn a(x: X) {}",
                "expected read, safe_write, destructive or local",
            ),
            ("safe", "/// A.\nasync fn a(x: X) {}", "expected `effect`, `idempotent`, `name` or `tools`"),
        ];
        for (attributes, function, problem) in table {
            assert_eq!(refused(attributes, function), problem, "{attributes} {function}");
        }
    }
}
