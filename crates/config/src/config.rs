//! A configuration that was read and found sound.

use std::path::{Path, PathBuf};

use singletree_harness::Retention;
use singletree_http::{Redactor, Secret};
use singletree_providers::Wire;

use crate::agent::AgentTable;
use crate::campaigns::CampaignSettings;
use crate::check;
use crate::error::{Error, Result};
use crate::file::ConfigFile;
use crate::model::{HttpModel, ModelBackend, ModelRetry, ModelTable, ModelTime, required_sampling};
use crate::notify::NotifySettings;
use crate::prompt;
use crate::report::{ConfigReport, MistakeCollector};
use crate::resolve::{ReadyBackend, ReadyModel, ResolvedResources, read_bounded_text, resolve_resources};
use crate::serving::ServingSettings;
use crate::spot::LocatedValue;
use crate::surroundings::Surroundings;
use crate::telemetry::TelemetrySettings;

/// How large a file may be, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A configuration that was read and found sound. [`Config::build`] makes agents of it.
///
/// Holds the secrets that its agents need; `Debug` hides them.
#[derive(Debug, Clone)]
pub struct Config {
    pub(crate) file: ConfigFile,
    pub(crate) resolved: ResolvedResources,
    /// Where relative paths of the file start.
    pub(crate) folder: PathBuf,
}

/// A model that somebody names without a file.
#[derive(Debug, Clone)]
pub struct BareModel {
    /// Which protocol its server speaks.
    pub wire: Wire,
    /// The server's name for the model.
    pub name: String,
    /// Where the server is; the vendor's own otherwise.
    pub base_url: Option<String>,
    /// The key, if the server wants one.
    pub key: Option<Secret>,
}

/// The name of the agent of a model without a file.
const BARE_AGENT: &str = "assistant";

/// How far [`Config::inspect`] looks beyond the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InspectionDepth {
    /// Whether the programs of MCP servers are on this machine. Nothing is started.
    Programs,
    /// Also whether the servers answer and have the tools that the file names. They are started or reached.
    Servers,
}

impl Config {
    /// Reads a text and checks everything that can be known without asking a server: syntax, keys, values, names,
    /// destructive tools that would run without an approval, variables and files. `file` is the name of the file in
    /// the report.
    ///
    /// # Errors
    /// The report of everything that is wrong.
    ///
    /// # Cancellation
    /// Dropping the future leaves nothing behind.
    pub async fn check_text(file: &str, text: &str, around: &Surroundings<'_>) -> Result<Self, ConfigReport> {
        Self::check_text_to_depth(file, text, around, None).await
    }

    async fn check_text_to_depth(
        file: &str,
        text: &str,
        around: &Surroundings<'_>,
        depth: Option<InspectionDepth>,
    ) -> Result<Self, ConfigReport> {
        let faults = MistakeCollector::default();
        let Some(read) = ConfigFile::from_toml_text(text, around.folder, &faults) else {
            return Err(faults.into_report(file, text));
        };
        check::check_consistency(&read, &faults);
        let mut resolved = resolve_resources(&read, around, &faults);
        let (prompts, unfit) = prompt::render_prompts(&read, around.folder).await;
        resolved.prompts = prompts;
        unfit.into_iter().for_each(|it| it.report_to(&faults));
        let config = Self { file: read, resolved, folder: around.folder.to_owned() };
        config.check_server_clients(&faults);
        if let Some(depth) = depth {
            let absent = config.report_missing_programs(&faults);
            if depth == InspectionDepth::Servers {
                config
                    .reach_servers(&absent)
                    .await
                    .into_iter()
                    .for_each(|reach_server| reach_server.report_to(&faults));
            }
        }
        if faults.is_empty() { Ok(config) } else { Err(faults.into_report(file, text)) }
    }

    /// Reads a file and checks it as [`Config::check_text`] does.
    ///
    /// # Errors
    /// `config_unreadable`, `config_invalid`.
    ///
    /// # Cancellation
    /// Dropping the future leaves nothing behind.
    pub async fn load(path: &Path, around: &Surroundings<'_>) -> Result<Self> {
        Self::load_to_depth(path, around, None).await
    }

    /// Reads a file and checks it as [`Config::load`] does, and its MCP servers as far as is said: for who looks for
    /// mistakes. Agents would go on without them, and say so
    /// ([`AgentDependencies::unoffered`](crate::AgentDependencies)).
    ///
    /// # Errors
    /// `config_unreadable`, `config_invalid`.
    ///
    /// # Cancellation
    /// Dropping the future stops the servers that were started.
    pub async fn inspect(path: &Path, around: &Surroundings<'_>, depth: InspectionDepth) -> Result<Self> {
        Self::load_to_depth(path, around, Some(depth)).await
    }

    async fn load_to_depth(
        path: &Path,
        around: &Surroundings<'_>,
        depth: Option<InspectionDepth>,
    ) -> Result<Self> {
        let name = path.display().to_string();
        let text = read_bounded_text(path, FILE_BYTES_MAX)
            .map_err(|why| Error::Unreadable { file: name.clone(), why })?;
        Self::check_text_to_depth(&name, &text, around, depth)
            .await
            .map_err(|error| Error::Invalid(Box::new(error)))
    }

    /// Makes a configuration of one agent, `assistant`, that is a model and nothing else: no instructions, no tools.
    #[must_use]
    pub fn from_model(model: BareModel) -> Self {
        let BareModel { wire, name, base_url, key } = model;
        let named = LocatedValue::new(BARE_AGENT.to_owned(), 0);
        let http = HttpModel {
            wire,
            model: name,
            base_url,
            key: None,
            streaming: None,
            images: None,
            structured_output: None,
            baggage: None,
        };
        let table = ModelTable {
            name: named.clone(),
            backend: ModelBackend::Http(http.clone()),
            sampling: required_sampling(wire),
            time: ModelTime::default(),
            retry: ModelRetry::default(),
        };
        let ready = ReadyModel { table: table.clone(), source: ReadyBackend::Http { model: http, key } };
        let file = ConfigFile {
            models: vec![table],
            agents: vec![AgentTable::with_name_only(named)],
            ..ConfigFile::default()
        };
        let resolved = ResolvedResources { models: vec![ready], ..ResolvedResources::default() };
        Self { file, resolved, folder: PathBuf::new() }
    }

    /// Returns the names of the agents, the one that answers unless another is asked for first: `default_agent`, else
    /// the first of the file. The others stand in the order of the file.
    #[must_use]
    pub fn agent_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.file.agents.iter().map(|agent| agent.name.value.as_str()).collect();
        if let Some(default) = &self.file.default_agent {
            names.sort_by_key(|name| *name != default.value);
        }
        names
    }

    /// Returns the names of the agents whom a person picks: [`Config::agent_names`] without the hidden ones.
    #[must_use]
    pub fn listed_agent_names(&self) -> Vec<&str> {
        let hidden =
            |name: &str| self.file.agents.iter().any(|agent| agent.hidden && agent.name.value == name);
        self.agent_names().into_iter().filter(|agent| !hidden(agent)).collect()
    }

    /// Returns how the agents are served over HTTP.
    #[must_use]
    pub fn serving_settings(&self) -> &ServingSettings {
        &self.file.serving
    }

    /// Returns the limits of kept turns and events; none: everything is kept.
    #[must_use]
    pub fn retention(&self) -> Option<Retention> {
        self.file.retention
    }

    /// Returns the templates of campaigns, and the tools that may read their proofs.
    #[must_use]
    pub fn campaign_settings(&self) -> CampaignSettings {
        self.file.campaigns.to_settings()
    }

    /// Returns where notices are told, of each tenant that has some told.
    #[must_use]
    pub fn notify_settings(&self) -> &[NotifySettings] {
        &self.resolved.notify
    }

    /// Returns where the traces of turns are sent; none: nowhere.
    #[must_use]
    pub fn telemetry_settings(&self) -> Option<&TelemetrySettings> {
        self.resolved.telemetry.as_ref()
    }

    /// Returns a redactor that removes the secrets of this configuration from a text.
    #[must_use]
    pub fn redactor(&self) -> Redactor {
        let keys = self.resolved.models.iter().filter_map(|model| match &model.source {
            ReadyBackend::Http { key, .. } => key.clone(),
            ReadyBackend::Script(_) => None,
        });
        let settings = self.resolved.servers.iter().flat_map(|server| &server.settings);
        let secrets = settings.filter(|(_, _, secret)| *secret).map(|(_, value, _)| value.clone());
        let signing =
            self.resolved.notify.iter().flat_map(|it| [&it.secret].into_iter().chain(&it.old_secret));
        let headers =
            self.resolved.telemetry.iter().flat_map(|it| &it.headers).map(|(_, value)| value.clone());
        Redactor::new(keys.chain(secrets).chain(signing.cloned()).chain(headers).collect::<Vec<Secret>>())
    }
}
