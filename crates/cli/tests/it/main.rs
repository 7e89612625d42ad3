//! End-to-end tests: the real binary, in a terminal, in a pipe, and from scripts.
#![expect(clippy::unwrap_used, reason = "a test may unwrap")]
#![expect(clippy::print_stderr, reason = "a test that lacks its program says so")]

mod desk;
mod home;
mod import;
mod model_server;
mod pages;
mod screen;
mod serving;
mod terminal;

mod agents_file;
mod agents_together;
mod api_guide;
mod bare_model;
mod beside;
mod branches;
mod campaign_servers;
mod campaigns;
mod canaries;
mod colours;
mod commands;
mod doctor;
mod erase;
mod erase_postgres;
mod erring;
mod guide;
mod health;
mod oteltap;
mod other_owner;
mod page;
mod paste;
mod piped;
mod postgres;
mod refused;
mod retry;
mod rolling;
mod routes;
mod scripts;
mod served;
mod sessions;
mod shell;
mod show;
mod signals;
mod simulated_agents;
mod slash;
mod standing_still;
mod story;
mod sync_trace;
mod tenants;
mod torture;
mod torture_nodes;
#[cfg(unix)]
mod trace_context;
mod traces;
mod unoffered;
mod upgrade;
