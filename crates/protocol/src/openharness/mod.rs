//! OpenHarness v1: what a shell asks an engine, and what the engine answers (spec: OpenHarness PROTOCOL).
//!
//! # Vocabulary
//! A *shell* is what a person uses; an *engine* is what thinks. A *directive* is one thing that the engine wants shown or
//! done. A *capability* is a feature that a shell asks for; a *denial* says that it does not get it. A *continuation* goes on
//! with a run that was left waiting. A *tier* says how private something is.
//!
//! # Reading
//! Both sides use the same shapes. A field that is not known is ignored, at every level (§4); one that is known and has a
//! wrong type is refused with its place, and so is `null` where something is expected: who has nothing to say leaves the field
//! out. Of words in what an engine says, those that are not known are read as what is safe: see [`Priority`],
//! [`Execution`] and [`RiskTier`].

mod attachment;
mod directive;
mod embedded;
mod environment;
mod given;
mod pairing;
mod payload;
mod read;
mod registry;
mod request;
mod response;
mod truth_table;
mod version;

pub use attachment::AttachmentRef;
pub use directive::{ActionDirective, Execution, Priority, RiskTier};
pub use embedded::find_embedded_bytes;
pub use environment::{EnvironmentState, PrivacyTier};
pub use pairing::{PairClaim, PairConfirm, PairCreate, PairCreated, PairRevoke, Paired};
pub use payload::{Action, ApprovalOption, Decision, RenderMessage, RequestApproval, SignalRequest};
pub use read::{Malformed, parse_json_object};
pub use registry::{ActionType, Capability, DenialCode, ErrorCode, MessageClass, NAMESPACE};
pub use request::{
    Auth, Capabilities, Context, Continuation, RequestMessage, RequestPayload, ShellIdentity, TaskHint,
};
pub use response::{CapabilityDenial, ErrorObject, Issued, ResponseMessage, ResponsePayload, Status};
pub use truth_table::{
    ActionTypeEntry, AttachmentTerms, CapabilityEntry, DenialEntry, ErrorCodeEntry, TruthTable,
};
pub use version::{ProtocolVersion, SUPPORTED};

#[cfg(test)]
mod tests;
