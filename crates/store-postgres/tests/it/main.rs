//! The store on a real PostgreSQL, which the tests start. Where there is none they say `not run`.
#![expect(clippy::unwrap_used, reason = "a test may unwrap")]
#![expect(clippy::disallowed_methods, reason = "a test starts tasks of its own runtime")]

mod changes;
mod contract;
mod cut;
mod erasures;
mod import;
mod ownership;
mod pooler;
mod served;
mod server;
mod standby;
mod tenant_role;
mod versions;
