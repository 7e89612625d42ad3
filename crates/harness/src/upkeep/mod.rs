//! Work that no turn waits for: retention, removal of old data, blobs without a session, the doctor.

pub(crate) mod abandoned_blobs;
pub(crate) mod doctor;
pub(crate) mod forget;
pub(crate) mod retention;
