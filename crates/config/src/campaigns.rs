//! `[campaigns]`: templates of campaigns, and the tools that may read their proofs.

use serde_json::Value;
use singletree_campaign::{CampaignBudget, MissedRuns, Plan, PlanTask, ProofPolicy};
use singletree_controller::{CampaignTemplate, NewSchedule};
use toml::Spanned;
use toml::de::DeValue;

use crate::file::ConfigFile;
use crate::report::{MistakeCollector, MistakeKind};
use crate::section::{TableReader, convert_to_json, is_valid_name};
use crate::spot::LocatedValue;
use crate::suggest::did_you_mean;

/// The key of the table that is no template.
const VERIFY_TOOLS: &str = "verify_tools";

/// Templates of campaigns, and the tools of MCP servers that may read proofs.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct CampaignSettings {
    /// The tools that may read proofs, as (server, tool).
    pub verify_tools: Vec<(String, String)>,
    /// The templates, in the order of the file.
    pub templates: Vec<CampaignTemplate>,
}

/// The table as the file has it.
#[derive(Debug, Clone, Default)]
pub(crate) struct CampaignsTable {
    verify_tools: Vec<LocatedValue<String>>,
    templates: Vec<(LocatedValue<String>, CampaignTemplate)>,
}

impl CampaignsTable {
    pub(crate) fn from_section(mut section: TableReader<'_>) -> Self {
        let verify_tools = section.read_text_list("verify_tools").unwrap_or_default();
        let mut templates = Vec::new();
        for (name, value) in section.ordered_entries() {
            if name.value == VERIFY_TOOLS {
                continue;
            }
            let faults = section.mistakes();
            let table = value.get_ref().as_table().filter(|_| is_valid_name(&name.value));
            let Some(table) = table else {
                let hint = "a template is a table, as in `[campaigns.weekly]`";
                let what = format!("`campaigns` has no key `{}`", name.value);
                faults.add_with_hint(name.at, MistakeKind::UnknownKey, what, Some(hint.to_owned()));
                continue;
            };
            let inner = TableReader::new(table, name.at, section.qualified_key(&name.value), faults);
            let template = read_template(&name.value, inner);
            templates.push((name, template));
        }
        Self { verify_tools, templates }
    }

    /// Returns the settings of a file without mistakes.
    pub(crate) fn to_settings(&self) -> CampaignSettings {
        let tool = |named: &LocatedValue<String>| {
            let (server, tool) = named.value.split_once('.')?;
            Some((server.to_owned(), tool.to_owned()))
        };
        CampaignSettings {
            verify_tools: self.verify_tools.iter().filter_map(tool).collect(),
            templates: self.templates.iter().map(|(_, template)| template.clone()).collect(),
        }
    }

    /// Compares the table with the rest of the file: servers, agents and proofs have to be there.
    pub(crate) fn check_against_file(&self, file: &ConfigFile, faults: &MistakeCollector) {
        for named in &self.verify_tools {
            let server = named.value.split_once('.').map(|(server, _)| server);
            if server.is_none_or(|server| file.servers.iter().all(|table| table.name.value != server)) {
                let what = format!("`campaigns.verify_tools` names no tool of a server: `{}`", named.value);
                let hint = Some("write it as in \"crm.read_order\"".to_owned());
                faults.add_with_hint(named.at, MistakeKind::Value, what, hint);
            }
        }
        let policy = ProofPolicy {
            verify_tools: self.to_settings().verify_tools.into_iter().collect(),
            ..ProofPolicy::default()
        };
        let agents = || file.agents.iter().map(|agent| agent.name.value.as_str());
        for (name, template) in &self.templates {
            if agents().any(|agent| agent == name.value) {
                let what = format!("`{}` is both an agent and a template of campaigns", name.value);
                faults.add_mistake(name.at, MistakeKind::Contradiction, what);
            }
            if let Some(agent) = &template.agent
                && agents().all(|known| known != agent)
            {
                let what = format!("`campaigns.{}.agent` names no agent: `{agent}`", name.value);
                faults.add_with_hint(name.at, MistakeKind::Value, what, did_you_mean(agent, agents()));
            }
            if !template.tasks.is_empty()
                && let Err(error) = Plan::new("cmp_template", 1, template.tasks.clone(), &policy)
            {
                let what = format!("`campaigns.{}.plan`: {error}", name.value);
                faults.add_mistake(name.at, MistakeKind::Value, what);
            }
        }
    }
}

fn read_template(name: &str, mut section: TableReader<'_>) -> CampaignTemplate {
    let budget = CampaignBudget {
        cycles: section.read_count("cycles", 1).map(|cycles| cycles.value),
        tokens: section.read_count("tokens", 1).map(|tokens| tokens.value),
        time_ms: section
            .read_duration("time")
            .map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
    };
    let tasks = match section.take_raw_value("plan") {
        Some((_, value)) => read_tasks(&section, value),
        None => Vec::new(),
    };
    let schedules = match section.take_raw_value("schedules") {
        Some((_, value)) => read_schedules(&section, value),
        None => Vec::new(),
    };
    let text = |text: Option<LocatedValue<String>>| text.map(|text| text.value);
    let template = CampaignTemplate {
        name: name.to_owned(),
        description: text(section.read_text("description")),
        goal: text(section.read_text("goal")),
        agent: text(section.read_text("agent")),
        budget,
        tasks,
        schedules,
    };
    section.report_unknown_keys();
    template
}

/// Reads the tasks of a plan, in the form in which an agent proposes them.
fn read_tasks(section: &TableReader<'_>, value: &Spanned<DeValue<'_>>) -> Vec<PlanTask> {
    let tasks = convert_to_json(value.get_ref()).and_then(|tasks| serde_json::from_value(tasks).ok());
    tasks.unwrap_or_else(|| {
        let must = "a list of tasks { id, description, needs = [], proof = [{ type, … }] }";
        section.report_unfit_value("plan", value, must);
        Vec::new()
    })
}

fn read_schedules(section: &TableReader<'_>, value: &Spanned<DeValue<'_>>) -> Vec<NewSchedule> {
    let listed = convert_to_json(value.get_ref());
    let read = listed
        .as_ref()
        .and_then(Value::as_array)
        .and_then(|listed| listed.iter().map(read_schedule).collect::<Option<Vec<NewSchedule>>>());
    read.unwrap_or_else(|| {
        let must = "a list of schedules { cron, command, zone = \"UTC\", missed = \"once\" or \"skip\" }";
        section.report_unfit_value("schedules", value, must);
        Vec::new()
    })
}

fn read_schedule(value: &Value) -> Option<NewSchedule> {
    let fields = value.as_object()?;
    if fields.keys().any(|key| !["cron", "command", "zone", "missed"].contains(&key.as_str())) {
        return None;
    }
    let text = |key: &str| fields.get(key).map(|text| text.as_str().map(str::to_owned));
    let missed = match text("missed") {
        None => MissedRuns::Once,
        Some(word) => match word?.as_str() {
            "once" => MissedRuns::Once,
            "skip" => MissedRuns::Skip,
            _ => return None,
        },
    };
    let zone = text("zone").unwrap_or_else(|| Some("UTC".to_owned()))?;
    Some(NewSchedule { expression: text("cron")??, zone, missed, command: text("command")?? })
}
