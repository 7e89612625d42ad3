//! Named, versioned prompt templates rendered to messages (spec: prompt-management).
