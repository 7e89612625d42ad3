//! Checkpoint directives (pipeline-utilities §10; conformance-adapter §§5.6–5.8).

mod record;
mod spec;

pub(crate) use spec::{Backend, CheckpointSpec, Crash, ResumeFrom, ResumeSpec};
