//! The whole file, as it is written: read, not yet compared with anything.

use std::path::{Path, PathBuf};

use singletree_harness::{Limits, Retention};
use toml::Spanned;
use toml::de::DeTable;

use crate::agent::AgentTable;
use crate::approval::ApprovalTable;
use crate::campaigns::CampaignsTable;
use crate::limits;
use crate::model::ModelTable;
use crate::notify::NotifyTable;
use crate::replies::RepliesTable;
use crate::report::{MistakeCollector, MistakeKind};
use crate::retention;
use crate::section::TableReader;
use crate::server::McpServerTable;
use crate::serving::{self, ServingSettings};
use crate::spot::LocatedValue;
use crate::telemetry::TelemetryTable;
use crate::tool::ToolSettings;

/// How large a file may be, in bytes.
const TEXT_BYTES_MAX: usize = 1 << 20;

/// How many mistakes of syntax are told: the rest follows from them.
const SYNTAX_MAX: usize = 20;

/// The whole file.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConfigFile {
    pub(crate) models: Vec<ModelTable>,
    pub(crate) agents: Vec<AgentTable>,
    pub(crate) tools: ToolSettings,
    pub(crate) servers: Vec<McpServerTable>,
    pub(crate) approval: Option<ApprovalTable>,
    pub(crate) prompts: Option<LocatedValue<PathBuf>>,
    pub(crate) limits: Limits,
    pub(crate) serving: ServingSettings,
    pub(crate) replies: Option<RepliesTable>,
    pub(crate) retention: Option<Retention>,
    pub(crate) notify: Vec<NotifyTable>,
    pub(crate) telemetry: Option<TelemetryTable>,
    pub(crate) campaigns: CampaignsTable,
    pub(crate) default_agent: Option<LocatedValue<String>>,
}

impl ConfigFile {
    /// Reads a text, whose paths start from the folder. None when its syntax is wrong: then it has no meaning.
    pub(crate) fn from_toml_text(text: &str, folder: &Path, faults: &MistakeCollector) -> Option<Self> {
        if text.len() > TEXT_BYTES_MAX {
            let what = format!("the file is larger than {TEXT_BYTES_MAX} bytes");
            faults.add_mistake(0, MistakeKind::Unreadable, what);
            return None;
        }
        let (table, errors) = DeTable::parse_recoverable(text);
        for error in errors.iter().take(SYNTAX_MAX) {
            let at = error.span().map_or(text.len(), |span| span.start);
            faults.add_with_hint(
                at,
                MistakeKind::Syntax,
                format!("this is no TOML: {}", error.message()),
                syntax_hint(text, at),
            );
        }
        if !errors.is_empty() {
            return None;
        }
        Some(read_root_table(&table, folder, faults))
    }
}

fn read_root_table(table: &Spanned<DeTable<'_>>, folder: &Path, faults: &MistakeCollector) -> ConfigFile {
    let mut section = TableReader::new(table.get_ref(), 0, "", faults);
    let file = ConfigFile {
        models: section.open_named_sections("models").into_iter().map(ModelTable::from_section).collect(),
        agents: section.open_named_sections("agents").into_iter().map(AgentTable::from_section).collect(),
        tools: section.open_section("tools").map(ToolSettings::from_section).unwrap_or_default(),
        servers: section.open_named_sections("mcp").into_iter().map(McpServerTable::from_section).collect(),
        approval: section.open_section("approval").map(ApprovalTable::from_section),
        prompts: section.read_path("prompts"),
        limits: section.open_section("limits").map(limits::read_limits).unwrap_or_default(),
        serving: serving::read_serving_settings(&mut section, folder),
        replies: section.open_section("replies").map(RepliesTable::from_section),
        retention: section.open_section("retention").map(retention::read_retention),
        notify: section.open_named_sections("notify").into_iter().map(NotifyTable::from_section).collect(),
        telemetry: section.open_section("telemetry").map(TelemetryTable::from_section),
        campaigns: section.open_section("campaigns").map(CampaignsTable::from_section).unwrap_or_default(),
        default_agent: section.read_text("default_agent"),
    };
    section.report_unknown_keys();
    file
}

/// Returns the most common cause of a mistake of syntax.
fn syntax_hint(text: &str, at: usize) -> Option<String> {
    let line = text.get(..at).map_or("", |text| text.rsplit('\n').next().unwrap_or_default());
    let rest = text.get(at..).map_or("", |text| text.lines().next().unwrap_or_default());
    let value = line.trim_end().ends_with('=') && rest.starts_with(|it: char| it.is_alphabetic());
    value.then(|| "a text stands in quotation marks".to_owned())
}
