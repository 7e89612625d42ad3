//! The derive macro for typed graph state.
