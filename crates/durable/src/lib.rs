//! What is stored, and under which promise.
