//! The template engine, set up so that prompts are safe and repeatable.

mod room;
mod strict;

use std::collections::BTreeSet;
use std::io;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, ErrorKind, Template, UndefinedBehavior, Value};
use singletree_llm::Map;

/// How much work one template may make: one text, one segment, one field of a block.
///
/// They end endless loops and endless output. They do not bound the memory of a single expression: who lets strangers
/// write templates renders them in a process of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RenderLimits {
    /// Steps of the engine; about three for each turn of a loop. 200,000.
    pub steps: u64,
    /// Bytes of rendered text. 16 MiB.
    pub output_bytes: usize,
}

impl Default for RenderLimits {
    fn default() -> Self {
        Self { steps: 200_000, output_bytes: 16 * 1024 * 1024 }
    }
}

/// The engine: Jinja's language, without files, without escaping, strict about undefined values.
#[derive(Debug)]
pub(crate) struct TemplateEngine {
    environment: Environment<'static>,
    output_bytes: usize,
}

/// The variables of a render, converted once for all its templates.
pub(crate) struct TemplateVariables(Value);

impl TemplateVariables {
    pub(crate) fn new(variables: &Map) -> Self {
        Self(Value::from(Serde(variables)))
    }
}

impl TemplateEngine {
    pub(crate) fn new(limits: RenderLimits) -> Self {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        // Without it an error does not name the variable; the default depends on the build.
        environment.set_debug(true);
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        // Text is kept as it is written: a template without tags renders to itself.
        let syntax = SyntaxConfig::builder().keep_trailing_newline(true).build();
        environment.set_syntax(syntax.expect("the usual delimiters differ from each other"));
        environment.set_fuel(Some(limits.steps));
        // It prints every variable, secrets too.
        environment.remove_global("debug");
        strict::install_strict_filters(&mut environment);
        Self { environment, output_bytes: limits.output_bytes }
    }

    /// Renders one template.
    ///
    /// # Errors
    ///
    /// With a description and its line, as a lowercase fragment.
    pub(crate) fn render_template(
        &self,
        template: &str,
        variables: &TemplateVariables,
    ) -> Result<String, String> {
        if room::is_simple_template(template) {
            return self.render_on_this_stack(template, variables);
        }
        room::require_shallow(template)?;
        room::run_with_large_stack(|| self.render_on_this_stack(template, variables))
    }

    fn render_on_this_stack(&self, template: &str, variables: &TemplateVariables) -> Result<String, String> {
        let compiled =
            self.environment.template_from_str(template).map_err(|error| describe_error(&error))?;
        let mut output = BoundedOutput { text: Vec::new(), most: self.output_bytes, is_full: false };
        let rendered = compiled.render_captured_to(variables.0.clone(), &mut output).map(drop);
        if output.is_full {
            return Err(format!("the text is longer than {} bytes", output.most));
        }
        rendered.map_err(|error| {
            describe_error(&error) + &self.describe_missing_variables(&compiled, variables)
        })?;
        Ok(String::from_utf8(output.text).expect("the engine writes text, whole"))
    }

    /// Names the variables of a template that were not given: where something undefined went through a filter, the
    /// engine does not. One that stands in a branch that is not taken is among them, so this is a hint and no rule.
    fn describe_missing_variables(
        &self,
        template: &Template<'_, '_>,
        variables: &TemplateVariables,
    ) -> String {
        let known: BTreeSet<&str> = self.environment.globals().map(|(name, _)| name).collect();
        let named: BTreeSet<String> = template.undeclared_variables(false).into_iter().collect();
        let given = |name: &str| variables.0.get_attr(name).is_ok_and(|attr| !attr.is_undefined());
        let missing: Vec<String> = named
            .iter()
            .filter(|item| !known.contains(item.as_str()) && !given(item))
            .map(|item| format!("`{item}`"))
            .collect();
        if missing.is_empty() { String::new() } else { format!("; not given: {}", missing.join(", ")) }
    }

    /// Checks that a template can be parsed.
    ///
    /// # Errors
    ///
    /// As [`render_prompt`](Self::render_prompt).
    pub(crate) fn check_syntax(&self, template: &str) -> Result<(), String> {
        room::require_shallow(template)?;
        room::run_with_large_stack(|| {
            self.environment.template_from_str(template).map(drop).map_err(|error| describe_error(&error))
        })
    }
}

/// Describes an error. The engine's error is not kept: its `Debug` shows the values of variables.
fn describe_error(error: &minijinja::Error) -> String {
    let mut told = match (error.kind(), error.detail()) {
        (ErrorKind::UndefinedError, Some(detail)) => detail.to_owned(),
        (kind, Some(detail)) => format!("{kind}: {detail}"),
        (kind, None) => kind.to_string(),
    };
    if let Some(line) = error.line() {
        told.push_str(&format!(" (line {line})"));
    }
    told
}

/// Output up to a limit.
struct BoundedOutput {
    text: Vec<u8>,
    most: usize,
    is_full: bool,
}

impl io::Write for BoundedOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.text.len().saturating_add(bytes.len()) > self.most {
            self.is_full = true;
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
