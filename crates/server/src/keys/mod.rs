//! API keys, bearer tokens, and the audit of what was done with them.
