//! What a model call is: messages, tools, the provider trait and stream assembly.
