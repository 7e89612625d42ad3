//! Quotas: how much of the server a key and a tenant may use.
//!
//! `limits` says how much there is, `meter` counts what is used up by a rate, `usage` is the table of all that was used, and
//! `ledger` decides. Rates and open things are counted in the memory of this process; bytes of blobs are counted by the store.
//!
//! A server that asks nobody for a key applies none of them.

mod ledger;
mod limits;
mod meter;
mod usage;

pub(crate) use ledger::{QuotaLedger, UsePermit};
pub use limits::{KeyQuotas, Quotas, TenantQuotas};
