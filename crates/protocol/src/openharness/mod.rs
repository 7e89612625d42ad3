//! OpenHarness 1.0: what a shell asks and an engine answers.
