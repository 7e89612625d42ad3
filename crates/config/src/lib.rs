//! Agents as files: singletree.toml, read, checked and built.
