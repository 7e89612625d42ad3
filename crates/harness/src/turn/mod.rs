//! One running turn: preparation, the journal port, live output, budgets, and the context of its nodes.

pub(crate) mod activity_events;
pub(crate) mod budget;
pub(crate) mod caller_trace;
pub(crate) mod frame_decoder;
pub(crate) mod journal_port;
pub(crate) mod pictures;
pub(crate) mod prepare;
pub(crate) mod steering_inbox;
pub(crate) mod stream;
pub(crate) mod telemetry_records;
pub(crate) mod tool_message;
pub(crate) mod turn_context;
pub(crate) mod unrun;
