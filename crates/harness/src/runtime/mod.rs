//! The runtime of the session core: sessions in memory, the one commit path, the tasks, and the publication of
//! committed changes.

pub(crate) mod blobs;
pub(crate) mod call_status;
pub(crate) mod chat_inner;
pub(crate) mod commit;
pub(crate) mod deed;
pub(crate) mod feed;
pub(crate) mod field_reads;
pub(crate) mod loaded_session;
pub(crate) mod narrate;
pub(crate) mod narrator;
pub(crate) mod notice;
pub(crate) mod noticing;
pub(crate) mod outcome_reads;
pub(crate) mod pending_wait;
pub(crate) mod readers;
pub(crate) mod retention;
pub(crate) mod store_wait;
pub(crate) mod tasks;
pub(crate) mod tenant_events;
pub(crate) mod tenant_log;
pub(crate) mod unsent_turns;
pub(crate) mod watcher;
