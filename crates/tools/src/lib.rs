//! What a tool is, and the tools worth having.
