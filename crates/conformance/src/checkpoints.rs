//! Checkpoint directives (pipeline-utilities §10; conformance-adapter §§5.6–5.8).

mod backend;
mod occasion;
mod play;
mod record;
mod resumed;
mod spec;
mod store;

pub(crate) use play::run_checkpoint_case;
pub(crate) use resumed::check_resumption_key;
pub(crate) use spec::{CheckpointBackend, CheckpointCaseSpec, parse_backend};
pub(crate) use store::{CheckpointSave, RecordingCheckpointer, resume_invocation};

#[cfg(test)]
mod tests;
