//! Who asks: API keys, bearer tokens, and the audit of what was done with them.
//!
//! # How keys are kept
//! A key's text is `st_ID_SECRET`. The secret is 256 bits that nobody can guess, so what is kept of it is one SHA-256: slow hashes
//! make guessing passwords dear, and nobody guesses 256 bits. A record that is read by a thief therefore opens nothing, and a
//! check costs a microsecond. The id is no secret: it names the key in logs, lists and audits, and finds its record without
//! looking at others. Digests are compared in constant time.
//!
//! A key belongs to one tenant. Its record is a document of that tenant; another one, of the house, says by id whose it is.

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

pub(crate) use access::Access;
pub(crate) use audit::{Audit, Deed};
pub(crate) use page_session::{PageSessions, is_secure};
pub(crate) use routes::section;

pub use access::AccessPolicy;
pub use erase::{erase_tenant, tenants_with_keys};
pub use keyring::{Keyring, NewKey};
pub use revocation::RevocationLog;
pub use token::TokenPolicy;
