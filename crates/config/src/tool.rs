//! `[tools]`: settings of the built-in tools, and which there are.

use std::sync::Arc;
use std::time::Duration;

use singletree_agent::ToolDocuments;
use singletree_engine::Clock;
use singletree_tools::{
    Calculator, ClockTool, Effect, HttpGet, NoteStore, Notes, OutboxStore, OutboxTool, Result, Tool,
    UnavailableStore,
};

use crate::section::TableReader;

/// The settings of the built-in tools in the file.
#[derive(Debug, Clone, Default)]
pub(crate) struct ToolSettings {
    /// Where `http_get` may go; to every public host otherwise.
    pub(crate) hosts: Option<Vec<String>>,
    /// How long a call may take.
    pub(crate) call_time: Option<Duration>,
    /// How much of a result the model gets to read.
    pub(crate) output_bytes: Option<u64>,
}

/// The dependencies of the built-in tools.
#[derive(Clone, Copy)]
pub(crate) struct BuiltinDependencies<'a> {
    pub(crate) settings: &'a ToolSettings,
    /// Where notes and messages are kept; without it the tools answer that they cannot be used.
    pub(crate) documents: Option<&'a Arc<ToolDocuments>>,
    pub(crate) clock: &'a Arc<dyn Clock>,
}

/// Makes the tools of a built-in.
type BuildTools = fn(BuiltinDependencies<'_>) -> Result<Vec<Arc<dyn Tool>>>;

/// A built-in: a name that agents list, the tools that it stands for, and how they are made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BuiltinToolset {
    pub(crate) name: &'static str,
    pub(crate) tools: &'static [(&'static str, Effect)],
    pub(crate) build: BuildTools,
}

/// Names are unique, and addresses of functions cannot be compared.
impl PartialEq for BuiltinToolset {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for BuiltinToolset {}

/// All built-ins.
pub(crate) const BUILTINS: [BuiltinToolset; 5] = [
    BuiltinToolset {
        name: "clock",
        tools: &[("clock", Effect::Read)],
        build: |with| Ok(vec![Arc::new(ClockTool::new(with.clock.clone())?)]),
    },
    BuiltinToolset {
        name: "calculator",
        tools: &[("calculator", Effect::Read)],
        build: |_| Ok(vec![Arc::new(Calculator::new()?)]),
    },
    BuiltinToolset {
        name: "notes",
        tools: &[("notes_add", Effect::Local), ("notes_list", Effect::Read), ("notes_search", Effect::Read)],
        build: |with| {
            let store: Arc<dyn NoteStore> = match with.documents {
                Some(documents) => documents.clone(),
                None => Arc::new(UnavailableStore),
            };
            Notes::new(store).build_tools()
        },
    },
    BuiltinToolset {
        name: "outbox",
        tools: &[("send_message", Effect::Destructive)],
        build: |with| {
            let store: Arc<dyn OutboxStore> = match with.documents {
                Some(documents) => documents.clone(),
                None => Arc::new(UnavailableStore),
            };
            Ok(vec![Arc::new(OutboxTool::new(store)?)])
        },
    },
    BuiltinToolset {
        name: "http_get",
        tools: &[("http_get", Effect::Read)],
        build: |with| {
            Ok(vec![Arc::new(match &with.settings.hosts {
                Some(hosts) => HttpGet::with_allowed_hosts(hosts.iter().map(String::as_str))?,
                None => HttpGet::new()?,
            })])
        },
    },
];

impl ToolSettings {
    pub(crate) fn from_section(mut section: TableReader<'_>) -> Self {
        let mut settings = Self {
            call_time: section.read_duration("call_time"),
            output_bytes: section.read_byte_count("output_bytes"),
            ..Self::default()
        };
        if let Some(mut http_get) = section.open_section("http_get") {
            let hosts = http_get.read_text_list("hosts");
            settings.hosts = hosts.map(|it| it.into_iter().map(|it| it.value).collect());
            http_get.report_unknown_keys();
        }
        section.report_unknown_keys();
        settings
    }
}

#[cfg(test)]
mod tests {
    use singletree_engine::SystemClock;

    use super::*;

    #[test]
    fn the_table_has_the_names_and_effects_of_the_tools_that_it_builds() {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let settings = ToolSettings::default();
        for builtin in BUILTINS {
            let with = BuiltinDependencies { settings: &settings, documents: None, clock: &clock };
            let tools = (builtin.build)(with).unwrap();
            let built: Vec<(&str, Effect)> =
                tools.iter().map(|tool| (tool.definition().name(), tool.effect())).collect();
            assert_eq!(built, builtin.tools, "{}", builtin.name);
        }
    }
}
