//! `[tools]`: settings of the built-in tools, and which there are.

use std::time::Duration;

use singletree_tools::Effect;

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

/// A built-in: a name that agents list, and the tools that it stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BuiltinToolset {
    pub(crate) name: &'static str,
    pub(crate) tools: &'static [(&'static str, Effect)],
}

/// All built-ins.
pub(crate) const BUILTINS: [BuiltinToolset; 5] = [
    BuiltinToolset { name: "clock", tools: &[("clock", Effect::Read)] },
    BuiltinToolset { name: "calculator", tools: &[("calculator", Effect::Read)] },
    BuiltinToolset {
        name: "notes",
        tools: &[("notes_add", Effect::Local), ("notes_list", Effect::Read), ("notes_search", Effect::Read)],
    },
    BuiltinToolset { name: "outbox", tools: &[("send_message", Effect::Destructive)] },
    BuiltinToolset { name: "http_get", tools: &[("http_get", Effect::Read)] },
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
