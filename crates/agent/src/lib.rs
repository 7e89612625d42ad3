//! The agent loop as a graph, and the scripted demo agent.
