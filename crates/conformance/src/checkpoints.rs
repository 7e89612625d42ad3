//! Checkpoint directives (pipeline-utilities §10; conformance-adapter §§5.6–5.8).

mod backend;
mod occasion;
mod play;
mod record;
mod resumed;
mod spec;
mod store;

pub(crate) use play::play;
pub(crate) use resumed::of_resume;
pub(crate) use spec::{CheckpointBackend, CheckpointCaseSpec, backend};
pub(crate) use store::{CheckpointSave, RecordingCheckpointer, resume};

#[cfg(test)]
mod tests;
