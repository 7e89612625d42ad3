//! The things that a file names outside itself: environment variables, keys in files, scripts.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use singletree_http::Secret;
use singletree_llm::Script;

use crate::check::model_of_agent;
use crate::file::ConfigFile;
use crate::model::{HttpModel, ModelBackend, ModelTable};
use crate::notify::NotifySettings;
use crate::prompt::RenderedPrompt;
use crate::report::{MistakeCollector, MistakeKind};
use crate::selector::ToolSelector;
use crate::server::ServerTransport;
use crate::spot::LocatedValue;
use crate::surroundings::Surroundings;
use crate::telemetry::TelemetrySettings;

/// How large a script may be, in bytes.
const SCRIPT_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// A model with the data that it needs from outside.
#[derive(Debug, Clone)]
pub(crate) struct ReadyModel {
    pub(crate) table: ModelTable,
    pub(crate) source: ReadyBackend,
}

/// The backend of a model, with the data that it needs from outside.
#[derive(Debug, Clone)]
pub(crate) enum ReadyBackend {
    Http { model: HttpModel, key: Option<Secret> },
    Script(Script),
}

/// A server with the data that it needs from outside: the settings in the order of the file.
#[derive(Debug, Clone)]
pub(crate) struct ReadyServer {
    /// Which of the file's servers it is.
    pub(crate) index: usize,
    pub(crate) settings: Vec<(String, Secret, bool)>,
    /// The variables that a program gets of our own environment: where programs are, and where its user is at home.
    pub(crate) inherited: Vec<(String, String)>,
}

/// The things that a file names outside itself, as far as its agents use them.
#[derive(Debug, Clone, Default)]
pub(crate) struct ResolvedResources {
    pub(crate) models: Vec<ReadyModel>,
    pub(crate) servers: Vec<ReadyServer>,
    pub(crate) notify: Vec<NotifySettings>,
    pub(crate) telemetry: Option<TelemetrySettings>,
    /// Rendered prompts, by the names of their agents.
    pub(crate) prompts: BTreeMap<String, RenderedPrompt>,
}

/// Fetches the things that the agents of a file use. Unused ones are not asked for.
pub(crate) fn resolve_resources(
    file: &ConfigFile,
    around: &Surroundings<'_>,
    faults: &MistakeCollector,
) -> ResolvedResources {
    let mut resolved = ResolvedResources::default();
    let used = |model: &ModelTable| {
        file.agents
            .iter()
            .any(|agent| model_of_agent(file, agent).is_some_and(|other| other.name.at == model.name.at))
    };
    for model in file.models.iter().filter(|model| used(model)) {
        let source = match &model.backend {
            ModelBackend::Unknown => None,
            ModelBackend::Script(path) => load_script(path, around, faults).map(ReadyBackend::Script),
            ModelBackend::Http(http) => {
                let key = http.key.as_ref().map(|key| key.fetch_secret(around, faults));
                match key {
                    Some(None) => None,
                    key => Some(ReadyBackend::Http { model: http.clone(), key: key.flatten() }),
                }
            }
        };
        let table = model.clone();
        resolved.models.extend(source.map(|source| ReadyModel { table, source }));
    }
    for (index, server) in file.servers.iter().enumerate() {
        let tools = file.agents.iter().flat_map(|agent| &agent.tools);
        let mut means = tools.filter_map(|tool| ToolSelector::from_name(&tool.value, &file.servers).ok());
        let used = means.any(
            |mean| matches!(mean, ToolSelector::Server(at) | ToolSelector::ServerTool(at, _) if at == index),
        );
        if used {
            let settings = match &server.reach {
                ServerTransport::Command { env, .. } => env,
                ServerTransport::Url { headers, .. } => headers,
                ServerTransport::Unknown => continue,
            };
            let ready = settings.iter().filter_map(|(name, it)| {
                let (value, secret) = it.resolve(around, faults)?;
                Some((name.clone(), value, secret))
            });
            let settings = ready.collect();
            let own = ["PATH", "HOME", "USER", "LANG", "TMPDIR"].into_iter();
            let inherited = own.filter_map(|it| Some((it.to_owned(), (around.env)(it)?))).collect();
            resolved.servers.push(ReadyServer { index, settings, inherited });
        }
    }
    resolved.telemetry = file.telemetry.as_ref().and_then(|it| it.resolve_settings(around, faults));
    resolved.notify = file.notify.iter().filter_map(|it| it.resolve_settings(around, faults)).collect();
    resolved
}

fn load_script(
    path: &LocatedValue<std::path::PathBuf>,
    around: &Surroundings<'_>,
    faults: &MistakeCollector,
) -> Option<Script> {
    let full = around.folder.join(&path.value);
    let text = match read_bounded_text(&full, SCRIPT_BYTES_MAX) {
        Ok(text) => text,
        Err(what) => {
            let hint = "the path is relative to the folder of this file".to_owned();
            faults.add_with_hint(
                path.at,
                MistakeKind::Unavailable,
                format!("the script cannot be read: {what}"),
                hint,
            );
            return None;
        }
    };
    match Script::from_json(&text) {
        Ok(script) => Some(script),
        Err(error) => {
            let why = singletree_engine::format_error_chain(&error);
            faults.add_mistake(path.at, MistakeKind::Value, format!("the script cannot be used: {why}"));
            None
        }
    }
}

/// Reads a text of bounded length.
pub(crate) fn read_bounded_text(path: &Path, bytes_max: u64) -> Result<String, String> {
    use std::io::Read;

    let read = || {
        let mut text = String::new();
        let read = fs::File::open(path)?.take(bytes_max + 1).read_to_string(&mut text)?;
        Ok::<_, std::io::Error>((text, read as u64))
    };
    match read() {
        Ok((_, length)) if length > bytes_max => Err(format!("it is larger than {bytes_max} bytes")),
        Ok((text, _)) => Ok(text),
        Err(error) => Err(error.kind().to_string()),
    }
}
