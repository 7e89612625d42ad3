//! Reading a folder of prompts.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::header::{self, PromptFileMistake};
use super::path::{PromptPath, prompt_name_of_file};
use super::{FileLimits, body};
use crate::error::{Error, Result};
use crate::labels::DEFAULT_LABEL;
use crate::prompt::Prompt;
use crate::render;
use crate::templating::{RenderLimits, TemplateEngine};
use singletree_llm::TokenBudget;

/// How much of a template's hash is a version.
const SHORT_HASH: usize = 12;

/// A folder of prompts.
#[derive(Debug, Clone)]
pub(super) struct PromptFolder {
    pub(super) root: PathBuf,
    pub(super) limits: FileLimits,
}

/// A file that was read.
struct PromptFile {
    path: PathBuf,
    labels: Vec<String>,
    prompt: Prompt,
}

impl PromptFolder {
    /// Finds the prompt of a name and a label.
    pub(super) fn find_prompt(&self, name: &str, label: &str) -> Result<Prompt> {
        // A root that is not there is no answer, whatever the name.
        fs::read_dir(&self.root).map_err(|error| unreadable_path_error(&self.root, error))?;
        let not_found = || Error::not_found(name, label);
        let path = PromptPath::from_prompt_name(name).ok_or_else(not_found)?;
        let mut bad = None;
        let mut good: Option<PromptFile> = None;
        for (file, version) in self.list_version_files(&path)? {
            match self.read_prompt_file(&file, name, version) {
                Ok(found) if !found.labels.iter().any(|it| it == label) => {}
                Ok(found) => match good {
                    Some(other) => return Err(duplicate_label_error(&found.path, &other.path, label)),
                    None => good = Some(found),
                },
                Err(error @ Error::FileInvalid { .. }) => bad = bad.or(Some(error)),
                Err(error) => return Err(error),
            }
        }
        match (good, bad) {
            (Some(found), _) => Ok(found.prompt.with_label(label)),
            // Perhaps it is the one.
            (None, Some(bad)) => Err(bad),
            (None, None) => Err(not_found()),
        }
    }

    /// Returns the mistakes of all files.
    pub(super) fn check_files(&self) -> Result<Vec<Error>> {
        let mut mistakes = Vec::new();
        let mut labelled: BTreeMap<(String, String), PathBuf> = BTreeMap::new();
        let templating = TemplateEngine::new(RenderLimits::default());
        for (path, name) in self.list_prompt_files()? {
            let version = path.file_name().and_then(|file_name| file_name.to_str()).and_then(|it| {
                let leaf = name.rsplit('/').next().unwrap_or_default().to_owned();
                PromptPath { folder: PathBuf::new(), leaf }.version_of_file(it)
            });
            match self.read_prompt_file(&path, &name, version.flatten()) {
                Ok(found) => {
                    if let Err(what) = render::check_template(&templating, found.prompt.template()) {
                        mistakes.push(Error::FileInvalid { path: path.clone(), line: 1, what });
                    }
                    for label in found.labels {
                        let key = (name.clone(), label);
                        match labelled.get(&key) {
                            Some(other) => mistakes.push(duplicate_label_error(&path, other, &key.1)),
                            None => drop(labelled.insert(key, path.clone())),
                        }
                    }
                }
                Err(error @ Error::FileInvalid { .. }) => mistakes.push(error),
                Err(error) => return Err(error),
            }
        }
        Ok(mistakes)
    }

    /// Returns every file of a prompt below the root, with the prompt's name, sorted.
    fn list_prompt_files(&self) -> Result<Vec<(PathBuf, String)>> {
        let mut found = Vec::new();
        let mut folders = vec![self.root.clone()];
        while let Some(folder) = folders.pop() {
            for path in list_folder_entries(&folder)? {
                let is_hidden =
                    path.file_name().is_some_and(|file_name| file_name.as_encoded_bytes().starts_with(b"."));
                if path.is_dir() && !path.is_symlink() && !is_hidden {
                    folders.push(path);
                } else if let Some(name) = path.strip_prefix(&self.root).ok().and_then(prompt_name_of_file) {
                    found.push((path, name));
                }
            }
        }
        found.sort();
        Ok(found)
    }

    /// Returns the files of a prompt, each with the version that its name says, sorted.
    fn list_version_files(&self, path: &PromptPath) -> Result<Vec<(PathBuf, Option<String>)>> {
        let folder = self.root.join(&path.folder);
        if !folder.is_dir() {
            return Ok(Vec::new());
        }
        let mut found: Vec<_> = list_folder_entries(&folder)?
            .into_iter()
            .filter(|file| !file.is_dir())
            .filter_map(|file| {
                let version = path.version_of_file(file.file_name()?.to_str()?)?;
                Some((file, version))
            })
            .collect();
        found.sort();
        Ok(found)
    }

    fn read_prompt_file(&self, path: &Path, name: &str, version: Option<String>) -> Result<PromptFile> {
        let invalid = |it: PromptFileMistake| Error::FileInvalid {
            path: path.to_owned(),
            line: it.line,
            what: it.what,
        };
        let text = self.read_file_text(path)?.map_err(invalid)?;
        let below = path.strip_prefix(&self.root).unwrap_or(path);
        let (labels, prompt) = parse_prompt_file(&text, name, version, below).map_err(invalid)?;
        Ok(PromptFile { path: path.to_owned(), labels, prompt })
    }

    fn read_file_text(&self, path: &Path) -> Result<Result<String, PromptFileMistake>> {
        let file = fs::File::open(path).map_err(|error| unreadable_path_error(path, error))?;
        let mut bytes = Vec::new();
        // One more, to see that there is more.
        let most = self.limits.file_bytes;
        let read = file.take(most.saturating_add(1)).read_to_end(&mut bytes);
        let read = read.map_err(|error| unreadable_path_error(path, error))?;
        if read as u64 > most {
            return Ok(Err(PromptFileMistake::at_line(1, format!("the file is longer than {most} bytes"))));
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = good.iter().filter(|it| **it == b'\n').count() + 1;
            PromptFileMistake::at_line(line, "the text is no UTF-8")
        });
        Ok(text.map(|text| text.trim_start_matches('\u{feff}').replace("\r\n", "\n")))
    }
}

/// Makes a prompt of a file's text.
fn parse_prompt_file(
    text: &str,
    name: &str,
    version: Option<String>,
    below: &Path,
) -> Result<(Vec<String>, Prompt), PromptFileMistake> {
    let (header, body, first_line) = header::split_header(text)?;
    let template = body::parse_body(body, first_line)?;
    let version = match (version, header.version) {
        (Some(named), Some(said)) if named != said => {
            let what = format!("the header says version {said:?}, the file's name {named:?}");
            return Err(PromptFileMistake::at_line(1, what));
        }
        (Some(version), _) | (None, Some(version)) => Some(version),
        (None, None) => None,
    };
    let mut prompt = Prompt::new(name, version.clone().unwrap_or_default(), template.clone());
    if version.is_none() {
        let hash = prompt.template_hash().trim_start_matches("sha256:");
        prompt = Prompt::new(name, hash[..SHORT_HASH].to_owned(), template);
    }
    let mut metadata = header.metadata.unwrap_or_default();
    if let Some(description) = header.description {
        metadata.entry("description").or_insert(description.into());
    }
    metadata.entry("path").or_insert(below.to_string_lossy().into());
    prompt = prompt.with_metadata(metadata);
    if let Some(sampling) = header.sampling {
        prompt = prompt.with_sampling(sampling.into());
    }
    if let Some(budget) = header.token_budget.as_ref().and_then(TokenBudget::from_config) {
        prompt = prompt.with_token_budget(budget);
    }
    if let Some(entities) = header.observability_entities {
        prompt = prompt.with_observability_entities(entities);
    }
    let labels = header.labels.unwrap_or_else(|| vec![DEFAULT_LABEL.to_owned()]);
    Ok((labels, prompt))
}

fn list_folder_entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let listed = fs::read_dir(folder).map_err(|error| unreadable_path_error(folder, error))?;
    listed
        .map(|listed| {
            listed.map(|listed| listed.path()).map_err(|error| unreadable_path_error(folder, error))
        })
        .collect()
}

fn unreadable_path_error(path: &Path, error: io::Error) -> Error {
    Error::store_unavailable(format!("{} cannot be read", path.display()), Some(error.into()))
}

fn duplicate_label_error(path: &Path, other: &Path, label: &str) -> Error {
    let what = format!("the label {label:?} is also that of {}", other.display());
    Error::FileInvalid { path: path.to_owned(), line: 1, what }
}
