//! Stored rows and documents, as values.

pub(crate) mod calls;
pub(crate) mod position;
pub(crate) mod provenance;
pub(crate) mod record;
pub(crate) mod stored;
pub(crate) mod telemetry;
pub(crate) mod window;
