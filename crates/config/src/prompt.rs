//! Instructions that stand in a file of their own.

use std::collections::BTreeMap;
use std::path::Path;

use singletree_llm::{Role, RuntimeConfig};
use singletree_prompts::{Error as PromptError, FileBackend, PromptInputs, PromptManager, PromptQuery};

use crate::agent::NamedPrompt;
use crate::file::ConfigFile;
use crate::report::{MistakeCollector, MistakeKind};
use crate::section::printable_name;

/// The folder of prompts, where the file names none.
const FOLDER: &str = "prompts";

/// A prompt that was rendered.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RenderedPrompt {
    pub(crate) text: String,
    /// How the prompt wants to be sampled.
    pub(crate) sampling: Option<RuntimeConfig>,
}

/// Something wrong with a prompt.
#[derive(Debug)]
pub(crate) struct PromptMistake {
    at: usize,
    kind: MistakeKind,
    what: String,
    hint: Option<String>,
}

impl PromptMistake {
    pub(crate) fn report_to(self, faults: &MistakeCollector) {
        faults.add_with_hint(self.at, self.kind, self.what, self.hint);
    }
}

/// Renders the prompts of a file's agents, by the agents' names.
pub(crate) async fn render_prompts(
    file: &ConfigFile,
    folder: &Path,
) -> (BTreeMap<String, RenderedPrompt>, Vec<PromptMistake>) {
    let named = file.prompts.as_ref().map_or(Path::new(FOLDER), |prompts| prompts.value.as_path());
    let (mut rendered, mut unfit) = (BTreeMap::new(), Vec::new());
    let agents = file.agents.iter().filter_map(|agent| Some((&agent.name.value, agent.prompt.as_ref()?)));
    let prompts = PromptManager::builder(FileBackend::new(folder.join(named))).build();
    for (agent, prompt) in agents {
        match render_prompt(&prompts, prompt, named).await {
            Ok(text) => {
                rendered.insert(agent.clone(), text);
            }
            Err(it) => unfit.push(it),
        }
    }
    (rendered, unfit)
}

async fn render_prompt(
    prompts: &PromptManager,
    prompt: &NamedPrompt,
    folder: &Path,
) -> Result<RenderedPrompt, PromptMistake> {
    let name = prompt.name.value.as_str();
    let mut query = PromptQuery::new(name);
    if let Some(label) = &prompt.label {
        query = query.label(label.as_str());
    }
    let unfit = |kind, what: String, hint| PromptMistake { at: prompt.name.at, kind, what, hint };
    let inputs = PromptInputs::new().variables(prompt.variables.clone());
    let result = match prompts.get(query, &inputs).await {
        Ok(result) => result,
        Err(error) => {
            let hint = match &error {
                PromptError::NotFound { .. } => {
                    Some(format!("it would stand in {}", folder.join(format!("{name}.md")).display()))
                }
                PromptError::Render(_) => Some(
                    "give what it needs: prompt = { name = \"NAME\", variables = { key = \"value\" } }"
                        .to_owned(),
                ),
                _ => None,
            };
            let what = format!(
                "the prompt `{}` cannot be used: {}",
                printable_name(name),
                singletree_engine::format_error_chain(&error)
            );
            return Err(unfit(MistakeKind::Unavailable, what, hint));
        }
    };
    let sampling = result.sampling().cloned();
    match result.messages() {
        [only] if matches!(only.role, Role::System | Role::User) => {
            Ok(RenderedPrompt { text: only.text().into_owned(), sampling })
        }
        _ => {
            let what = format!(
                "the prompt `{}` is a conversation, and instructions are one text",
                printable_name(name)
            );
            Err(unfit(MistakeKind::Value, what, None))
        }
    }
}
