//! Who answers: the demo, the agents of a file, or a model that is named on the command line.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use serde_json::{Map, json};
use singletree::agent::demo::{self, DemoParts};
use singletree::agent::{AgentProfile, AgentResources, Artifacts, DocumentPins, ToolDocuments};
use singletree::config::{
    AgentDependencies, BareModel, CampaignSettings, Config, InspectionDepth, NotifySettings, OnUnoffered,
    ServingSettings, Surroundings, TelemetrySettings,
};
use singletree::controller::demo::DemoCampaignModel;
use singletree::env::{Env, SystemClock};
use singletree::harness::{Limits, Retention};
use singletree::http::{Redactor, Secret};
use singletree::providers::Wire;
use singletree::tools::{NoteStore, OutboxStore, UnavailableStore};
use singletree::{Agent, GraphAgent};
use singletree_server::Environments;

use crate::conversation_store::ConversationStore;
use crate::error::{Error, Result};
use crate::shell_word::quote_shell_word;

/// The file that is looked for where none is named.
pub(crate) const FILE: &str = "singletree.toml";

/// When the demo was made, as clients are told.
const MADE_AT: &str = "1970-01-01T00:00:00Z";

/// Who is asked for.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Who {
    /// The file of the agents; by default singletree.toml in this folder, or the demo where there is none.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// A model instead of a file: openai:NAME, anthropic:NAME or gemini:NAME.
    #[arg(long, value_name = "WIRE:NAME", conflicts_with = "config", value_parser = clap::value_parser!(ModelArgument))]
    pub(crate) model: Option<ModelArgument>,
    /// Where the model's server is, if it is not the vendor's own.
    #[arg(long, value_name = "URL", requires = "model")]
    pub(crate) base_url: Option<String>,
    /// The environment variable of the model's key; by default the vendor's own, for the vendor's own server.
    #[arg(long, value_name = "NAME", requires = "model")]
    pub(crate) key_env: Option<String>,
}

/// A model, as the command line names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ModelArgument {
    wire: Wire,
    name: String,
}

impl FromStr for ModelArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (wire, name) = text.split_once(':').unwrap_or((text, ""));
        let wire = match wire {
            "openai" => Wire::OpenAi,
            "anthropic" => Wire::Anthropic,
            "gemini" => Wire::Gemini,
            _ => return Err("it begins with openai:, anthropic: or gemini:".to_owned()),
        };
        match name.trim() {
            "" => Err("it names no model: write it as in openai:gpt-5-mini".to_owned()),
            name => Ok(Self { wire, name: name.to_owned() }),
        }
    }
}

/// A configuration that was read, with the texts about its origin.
#[derive(Debug)]
pub(crate) struct LoadedConfiguration {
    config: Config,
    about: String,
    again: String,
}

/// Those who answer.
#[derive(Debug)]
pub(crate) struct AgentSelection {
    /// The agents; the first one answers unless another is asked for.
    pub(crate) agents: Vec<GraphAgent>,
    /// The model, the tools and the permissions of each, for campaigns.
    pub(crate) resources: Vec<AgentResources>,
    /// The templates of campaigns, and the tools that may read their proofs.
    pub(crate) campaigns: CampaignSettings,
    /// How clients of a server list them.
    pub(crate) listed: Vec<AgentProfile>,
    pub(crate) limits: Limits,
    /// How they are served, as far as their file says that.
    pub(crate) serving: ServingSettings,
    /// Which data is removed after a time; nothing where there is none.
    pub(crate) retention: Option<Retention>,
    /// Where people are told that something waits for them.
    pub(crate) notify: Vec<NotifySettings>,
    /// Where the traces of turns are sent; nowhere where there is none.
    pub(crate) traces: Option<TelemetrySettings>,
    /// Removes the agents' keys from printed text.
    pub(crate) redactor: Redactor,
    /// Where the states of devices are that talk to them.
    pub(crate) environments: Arc<Environments>,
    /// Whom a person may ask for, and where they come from; none for the demo.
    pub(crate) about: Option<String>,
    /// The options to add to a command so that the same agents answer.
    pub(crate) again: String,
    /// The configuration of the agents, to build them again over a database; none for the demo.
    pub(crate) made_of: Option<(Config, AgentDependencies)>,
}

impl AgentSelection {
    /// Finds those who are asked for.
    pub(crate) async fn from_arguments(who: &Who) -> Result<Self> {
        if let Some(model) = &who.model {
            let about =
                format!("{} of {}", model.name, who.base_url.as_deref().unwrap_or(model.wire.vendor_url()));
            let config = Config::from_model(build_bare_model(model, who)?);
            return Self::build_from_config(config, (about, String::new()));
        }
        let file = who.config.clone().or_else(|| Path::new(FILE).exists().then(|| FILE.into()));
        let Some(file) = file else { return Self::with_demo_agent() };
        let config = load_config(&file).await?;
        let listed = config.listed_agent_names().join(", ");
        let again = who
            .config
            .as_ref()
            .map(|config| format!(" --config {}", quote_shell_word(&config.display().to_string())));
        Self::build_from_config(config, (format!("{listed} ({})", file.display()), again.unwrap_or_default()))
    }

    /// Returns the configuration that the agents were built from; `None` for the demo.
    pub(crate) fn loaded_configuration(&self) -> Option<LoadedConfiguration> {
        let (config, _) = self.made_of.as_ref()?;
        let (about, again) = (self.about.clone().unwrap_or_default(), self.again.clone());
        Some(LoadedConfiguration { config: config.clone(), about, again })
    }

    /// Builds the agents of a configuration that was read before.
    pub(crate) fn from_configuration(loaded: LoadedConfiguration) -> Result<Self> {
        let LoadedConfiguration { config, about, again } = loaded;
        Self::build_from_config(config, (about, again))
    }

    /// The demo: a script that needs no key and no network.
    pub(crate) fn with_demo_agent() -> Result<Self> {
        let (agent, resources) = build_demo_agent(&Arc::new(UnavailableStore), None)?;
        let listed = vec![AgentProfile {
            description: Some("A script with real tools: needs no key and no network.".to_owned()),
            other: Map::from_iter([("examples".to_owned(), json!(demo::EXAMPLES))]),
            ..AgentProfile::new(demo::NAME, "Demo", MADE_AT)
        }];
        let (limits, serving, redactor) =
            (Limits::default(), ServingSettings::default(), Redactor::default());
        let (notify, traces, environments) = (Vec::new(), None, Arc::default());
        let (about, again) = (None, String::new());
        Ok(Self {
            agents: vec![agent],
            resources: vec![resources],
            campaigns: CampaignSettings::default(),
            listed,
            limits,
            serving,
            retention: None,
            notify,
            traces,
            redactor,
            environments,
            about,
            again,
            made_of: None,
        })
    }

    /// Builds the agents over a database: their models are shown the artifacts that people approved there, and their
    /// tools keep notes and messages in it. That there are agents was checked before the database was opened.
    /// `unoffered` is told of tools that the agents do not have.
    pub(crate) fn build_over_store(
        mut self,
        store: &ConversationStore,
        unoffered: OnUnoffered,
    ) -> Result<Self> {
        let documents = build_tool_documents(store);
        let artifacts = Arc::new(Artifacts::new(Arc::new(store.clone()), Arc::new(SystemClock)));
        (self.agents, self.resources) = match self.made_of.take() {
            Some((config, means)) => {
                let means = AgentDependencies {
                    artifacts: Some(artifacts),
                    tool_documents: Some(documents),
                    definition_pins: Some(Arc::new(build_definition_pins(store))),
                    unoffered: Some(unoffered),
                    ..means
                };
                let built = config.build(&means)?;
                (built.agents, built.resources)
            }
            None => {
                let (agent, resources) = build_demo_agent(&documents, Some(artifacts))?;
                (vec![agent], vec![resources])
            }
        };
        Ok(self)
    }

    fn build_from_config(config: Config, (about, again): (String, String)) -> Result<Self> {
        let environments = Arc::new(Environments::default());
        let means = AgentDependencies {
            tool_documents: None,
            definition_pins: None,
            env: Env::from_system(),
            snapshots: Some(environments.clone()),
            artifacts: None,
            unoffered: None,
        };
        let built = config.build(&means)?;
        let serving = config.serving_settings().clone();
        let redactor = config.redactor();
        let (agents, resources) = (built.agents, built.resources);
        let (listed, limits) = (built.listed, built.limits);
        let (notify, traces) = (config.notify_settings().to_vec(), config.telemetry_settings().cloned());
        let campaigns = config.campaign_settings();
        Ok(Self {
            agents,
            resources,
            campaigns,
            listed,
            limits,
            serving,
            retention: config.retention(),
            notify,
            traces,
            redactor,
            environments,
            about: Some(about),
            again,
            made_of: Some((config, means)),
        })
    }
}

/// Keeps notes and messages of tools in a database.
pub(crate) fn build_tool_documents(store: &ConversationStore) -> Arc<ToolDocuments> {
    Arc::new(ToolDocuments::new(Arc::new(store.clone()), Arc::new(SystemClock)))
}

/// Keeps definitions of MCP servers in a database.
pub(crate) fn build_definition_pins(store: &ConversationStore) -> DocumentPins {
    DocumentPins::new(Arc::new(store.clone()))
}

fn build_demo_agent<S: NoteStore + OutboxStore + 'static>(
    store: &Arc<S>,
    artifacts: Option<Arc<Artifacts>>,
) -> Result<(GraphAgent, AgentResources)> {
    let (notes, outbox) = (store.clone(), store.clone());
    let parts = DemoParts { notes, outbox, env: Env::from_system(), artifacts };
    let built = demo::build_demo_agent(parts).and_then(Agent::build_with_resources);
    let (agent, resources) = built.map_err(|source| Error::Agent { source })?;
    let model = DemoCampaignModel::new(resources.model());
    Ok((agent, resources.with_model(model)))
}

/// Reads and checks a file.
pub(crate) async fn load_config(file: &Path) -> Result<Config> {
    let folder = folder_of_file(file);
    Ok(Config::load(file, &Surroundings { folder: &folder, env: &read_env_variable }).await?)
}

/// As [`load`], for who looks for mistakes: also at its MCP servers.
pub(crate) async fn inspect_config(file: &Path, depth: InspectionDepth) -> Result<Config> {
    let folder = folder_of_file(file);
    Ok(Config::inspect(file, &Surroundings { folder: &folder, env: &read_env_variable }, depth).await?)
}

fn folder_of_file(file: &Path) -> PathBuf {
    let folder = std::path::absolute(file).ok().and_then(|absolute| absolute.parent().map(Path::to_owned));
    folder.unwrap_or_default()
}

fn build_bare_model(model: &ModelArgument, who: &Who) -> Result<BareModel> {
    let key = match (&who.key_env, &who.base_url) {
        (Some(name), _) => Some(read_key_variable(name).ok_or_else(|| {
            // It may be the key itself.
            Error::Usage("the variable that --key-env names is not set".to_owned())
        })?),
        // A vendor's key is not for other servers.
        (None, Some(_)) => None,
        (None, None) => {
            let name = key_variable_name(model.wire);
            let hint = "name another variable by --key-env, or a server that wants no key by --base-url";
            let missing = || Error::Usage(format!("the environment variable {name} is not set; {hint}"));
            Some(read_key_variable(name).ok_or_else(missing)?)
        }
    };
    Ok(BareModel { wire: model.wire, name: model.name.clone(), base_url: who.base_url.clone(), key })
}

fn read_key_variable(name: &str) -> Option<Secret> {
    read_env_variable(name)
        .filter(|variable| !variable.trim().is_empty())
        .map(|variable| Secret::new(variable.trim()))
}

fn key_variable_name(wire: Wire) -> &'static str {
    match wire {
        Wire::OpenAi => "OPENAI_API_KEY",
        Wire::Anthropic => "ANTHROPIC_API_KEY",
        Wire::Gemini => "GEMINI_API_KEY",
    }
}

pub(crate) fn read_env_variable(name: &str) -> Option<String> {
    // No name that the system takes is asked for otherwise: it would panic on some.
    if name.is_empty() || name.contains(['=', '\0']) {
        return None;
    }
    std::env::var_os(name)?.into_string().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_named_with_its_wire() {
        let named = |wire, name: &str| Ok(ModelArgument { wire, name: name.to_owned() });
        assert_eq!("openai:gpt-5-mini".parse(), named(Wire::OpenAi, "gpt-5-mini"));
        assert_eq!("openai:library/qwen3:4b".parse(), named(Wire::OpenAi, "library/qwen3:4b"));
        assert_eq!("anthropic:x".parse(), named(Wire::Anthropic, "x"));
        assert_eq!("gemini:x".parse(), named(Wire::Gemini, "x"));
        for wrong in ["", "gpt-5", "openai", "openai:", "openai: ", "mistral:x"] {
            assert!(wrong.parse::<ModelArgument>().is_err(), "{wrong}");
        }
    }
}
