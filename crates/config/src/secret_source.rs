//! Where a secret comes from: an environment variable or a file, never the configuration itself.

use std::path::PathBuf;

use singletree_http::Secret;
use toml::Spanned;
use toml::de::DeValue;

use crate::report::MistakeCollector;
use crate::report::MistakeKind;
use crate::section::TableReader;
use crate::spot::LocatedValue;
use crate::surroundings::Surroundings;

/// Where a secret comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SecretSource {
    /// An environment variable.
    Env(LocatedValue<String>),
    /// A file; white space around its text does not count.
    File(LocatedValue<PathBuf>),
}

/// How large a file with a secret may be, in bytes.
const SECRET_BYTES_MAX: u64 = 64 * 1024;

const HINT: &str =
    "write { env = \"NAME\" } or { file = \"PATH\" }; what stood here is known to whoever read the file";

impl SecretSource {
    /// Reads `{ env = "NAME" }` or `{ file = "PATH" }`. A text is a mistake, and never repeated.
    pub(crate) fn from_section_key<'t>(section: &mut TableReader<'t>, key: &'static str) -> Option<Self> {
        let (_, value) = section.take_raw_value(key)?;
        Self::from_table_value(section, key, value)
    }

    /// As [`SecretSource::from_section_key`], for a key of free name.
    pub(crate) fn from_table_value<'t>(
        section: &TableReader<'t>,
        key: &str,
        value: &'t Spanned<DeValue<'t>>,
    ) -> Option<Self> {
        let (faults, at) = (section.mistakes(), value.span().start);
        let table = match value.get_ref() {
            DeValue::Table(table) => table,
            DeValue::String(_) => {
                let what = format!("`{}` holds a secret itself", section.qualified_key(key));
                faults.add_with_hint(at, MistakeKind::SecretByValue, what, HINT.to_owned());
                return None;
            }
            DeValue::Integer(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Array(_) => {
                section.report_unfit_value(key, value, "{ env = \"NAME\" } or { file = \"PATH\" }");
                return None;
            }
        };
        let mut inner = TableReader::new(table, at, section.qualified_key(key), faults);
        let (env, file) = (inner.read_text("env"), inner.read_path("file"));
        inner.report_unknown_keys();
        match (env, file) {
            (Some(env), None) if is_variable_name(&env.value) => Some(Self::Env(env)),
            (Some(env), None) => {
                let what =
                    format!("`{}.env` is no name of an environment variable", section.qualified_key(key));
                let hint =
                    "write the name of the variable, as in { env = \"OPENAI_API_KEY\" }, not what it holds";
                faults.add_with_hint(env.at, MistakeKind::SecretByValue, what, hint.to_owned());
                None
            }
            (None, Some(file)) => Some(Self::File(file)),
            (Some(_), Some(_)) => {
                let what = format!("`{}` names both a variable and a file", section.qualified_key(key));
                faults.add_mistake(at, MistakeKind::Contradiction, what);
                None
            }
            (None, None) => {
                if table.iter().all(|(name, _)| !matches!(name.get_ref().as_ref(), "env" | "file")) {
                    let hint = "write { env = \"NAME\" } or { file = \"PATH\" }".to_owned();
                    let what =
                        format!("`{}` names neither a variable nor a file", section.qualified_key(key));
                    faults.add_with_hint(at, MistakeKind::Missing, what, hint);
                }
                None
            }
        }
    }

    /// Returns where it stands.
    pub(crate) fn byte_offset(&self) -> usize {
        match self {
            Self::Env(name) => name.at,
            Self::File(path) => path.at,
        }
    }

    /// Fetches the secret. A secret that cannot be fetched is a mistake.
    pub(crate) fn fetch_secret(
        &self,
        around: &Surroundings<'_>,
        faults: &MistakeCollector,
    ) -> Option<Secret> {
        let found = match self {
            Self::Env(name) => match (around.env)(&name.value).filter(|it| !it.trim().is_empty()) {
                Some(text) => Ok(text),
                None => {
                    let what = match is_conventional_variable(&name.value) {
                        true => format!("the environment variable {} is not set", name.value),
                        // It may be a key itself.
                        false => "the environment variable is not set".to_owned(),
                    };
                    let hint = "set it before you start singletree, or take the key from a file: { file = \"PATH\" }";
                    Err((name.at, what, hint))
                }
            },
            Self::File(path) => read_secret_file(&around.folder.join(&path.value))
                .map_err(|error| (path.at, error, "the path is relative to the folder of this file")),
        };
        match found {
            // A key that was pasted with a line end is not another key.
            Ok(text) => Some(Secret::new(text.trim())),
            Err((at, what, hint)) => {
                faults.add_with_hint(at, MistakeKind::Unavailable, what, hint.to_owned());
                None
            }
        }
    }
}

/// Reads a small file of text. Its path is not told: it may be a key that was put into the wrong place.
fn read_secret_file(path: &std::path::Path) -> Result<String, String> {
    use std::io::Read;

    let read = || {
        let mut text = String::new();
        let file = std::fs::File::open(path)?;
        file.take(SECRET_BYTES_MAX).read_to_string(&mut text)?;
        Ok::<_, std::io::Error>(text)
    };
    match read() {
        Ok(text) if text.trim().is_empty() => Err("the file of the key is empty".to_owned()),
        Ok(text) => Ok(text),
        Err(error) => Err(format!("the file of the key cannot be read: {}", error.kind())),
    }
}

fn is_variable_name(name: &str) -> bool {
    let fits = |it: char| it.is_ascii_alphanumeric() || it == '_';
    name.chars().all(fits) && !name.starts_with(|it: char| it.is_ascii_digit())
}

/// Says whether a name can be shown: names of variables are upper case, keys are not.
fn is_conventional_variable(name: &str) -> bool {
    name.len() <= 64
        && name.chars().all(|letter| letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_a_key_is_not_shown() {
        let check = |name: &str, variable: bool, shown: bool| {
            assert_eq!((is_variable_name(name), is_conventional_variable(name)), (variable, shown), "{name}");
        };
        check("OPENAI_API_KEY", true, true);
        check("my_key", true, false);
        check("AIzaSyA1b2c3", true, false);
        check("sk-proj-abc", false, false);
        check("1X", false, true);
    }
}
