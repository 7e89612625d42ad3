//! Steerable chat: its messages, its agents, its stream.
