//! OpenAI's chat completions, as far as clients of compatible servers use them.
