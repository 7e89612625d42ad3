//! The OpenHarness engine over its wire. Every answer of every test is checked against the schema of the protocol and
//! against the table that the engine publishes.

mod asking;
mod schema;

mod attachments;
mod campaigns;
mod capabilities;
mod deciding;
mod goldens;
mod mutations;
mod pairing;
mod privacy;
mod replay;
mod saying;
mod second_opinion;
mod shell;
mod tenants;
mod transport;
mod unknown_fields;
