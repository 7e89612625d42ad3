//! Authentication: API keys, bearer tokens, and the audit of the actions of callers.
//!
//! # How keys are kept
//! A key's text is `st_ID_SECRET`. The secret is 256 random bits, so the store keeps one SHA-256 of it: slow hashes
//! protect passwords that can be guessed, and 256 bits cannot be. A thief who reads a record can therefore not use the
//! key, and a check costs a microsecond. The id is no secret: it names the key in logs, lists and audits, and finds its
//! record without reading others. Digests are compared in constant time.
//!
//! A key belongs to one tenant. Its record is a document of that tenant; another document, of the operator's tenant id,
//! maps the id of the key to its tenant.

mod access;
mod audit;
mod erase;
mod key_text;
mod keyring;
mod page_session;
mod record;
mod revocation;
mod routes;
mod token;

pub(crate) use access::RequestAuthenticator;
pub(crate) use audit::{KeyAuditEntry, TenantAuditLog};
pub(crate) use page_session::{PageSessions, is_reached_over_tls};
pub(crate) use routes::build_section;

pub use access::AccessPolicy;
pub use erase::{erase_tenant, tenants_with_keys};
pub use keyring::{Keyring, NewKey};
pub use revocation::RevocationLog;
pub use token::TokenPolicy;
