//! What a graph is, and how it runs.
