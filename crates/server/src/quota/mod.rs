//! Quotas: how much of the server a key and a tenant may use.
//!
//! `limits` defines the quotas, `meter` counts the usage of a rate, `usage` is the table of all usage, and `ledger`
//! decides; `campaigns` asks it for the cycles of campaigns. This process counts rates, streams and turns in memory; the store counts bytes of blobs.
//!
//! A server that needs no keys applies no quotas.

mod campaigns;
mod ledger;
mod limits;
mod meter;
mod usage;

pub(crate) use campaigns::CampaignQuotas;
pub(crate) use ledger::{QuotaLedger, QuotaUsePermit};
pub use limits::{KeyQuotas, Quotas, TenantQuotas};
