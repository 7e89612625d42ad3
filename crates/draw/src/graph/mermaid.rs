//! Flowcharts for Mermaid.

use std::fmt::Write;

use singletree_engine::GraphOutline;

use super::scene::{self, ArrowTarget, NodeContent};
use super::script::DiagramText;
use crate::label::shown;

/// Characters that cannot stand in a quoted label unescaped, or would be read as Markdown or markup.
const ESCAPED: &str = "\"#&<>`*_~\\[]{}()|$%;";

pub(super) fn draw(outline: &GraphOutline) -> String {
    let mut chart = MermaidDiagram::default();
    chart.0.line("flowchart TD");
    chart.0.depth += 1;
    chart.graph(outline);
    chart.0.text
}

/// A script that draws graphs.
#[derive(Default)]
struct MermaidDiagram(DiagramText);

impl MermaidDiagram {
    fn graph(&mut self, outline: &GraphOutline) {
        let start = self.0.id();
        self.0.line(&format!("{start}([\"START\"])"));
        let mut nodes = Vec::with_capacity(outline.nodes.len());
        for node in &outline.nodes {
            let notes = scene::notes([scene::caption(node), scene::around(&node.middleware)]);
            let id = match scene::inside(node) {
                NodeContent::Nothing => self.node(&node.name, &notes),
                NodeContent::Graph(graph) => self.cluster(&node.name, &notes, |chart| chart.graph(graph)),
                NodeContent::Branches(branches) => self.cluster(&node.name, &notes, |chart| {
                    for branch in branches {
                        let about = [scene::branch_caption(branch), scene::around(&branch.middleware)];
                        let notes = scene::notes(about);
                        match &branch.graph {
                            Some(graph) => chart.cluster(&branch.name, &notes, |chart| chart.graph(graph)),
                            None => chart.node(&branch.name, &notes),
                        };
                    }
                }),
            };
            nodes.push(id);
        }
        let arrows = scene::arrows(outline);
        let end = scene::leads_to(&arrows, ArrowTarget::End).then(|| self.0.id());
        if let Some(end) = &end {
            self.0.line(&format!("{end}([\"END\"])"));
        }
        for arrow in &arrows {
            let from = arrow.from.map_or(&start, |at| &nodes[at]);
            let line = if arrow.chosen { "-.->" } else { "-->" };
            match arrow.to {
                // A box around others cannot point at itself.
                ArrowTarget::Node(to) if Some(to) == arrow.from && !is_plain(outline, to) => {
                    let again = self.0.id();
                    self.0.line(&format!("{from} {line} {again}([\"again\"])"));
                    self.0.line(&format!("{again} {line} {from}"));
                }
                ArrowTarget::Node(to) => self.0.line(&format!("{from} {line} {}", nodes[to])),
                ArrowTarget::End => {
                    self.0.line(&format!("{from} {line} {}", end.as_deref().unwrap_or_default()))
                }
                ArrowTarget::Unknown => self.mark(from, line, "by function"),
                ArrowTarget::Nowhere => self.mark(from, line, "no edge"),
            }
        }
    }

    fn mark(&mut self, from: &str, line: &str, text: &str) {
        let id = self.0.id();
        self.0.line(&format!("{from} {line} {id}{{{{\"{text}\"}}}}"));
    }

    fn node(&mut self, name: &str, notes: &[String]) -> String {
        let id = self.0.id();
        self.0.line(&format!("{id}[\"{}\"]", label(name, notes)));
        id
    }

    fn cluster(&mut self, name: &str, notes: &[String], inside: impl FnOnce(&mut Self)) -> String {
        let id = self.0.id();
        self.0.line(&format!("subgraph {id}[\"{}\"]", label(name, notes)));
        self.0.depth += 1;
        self.0.line("direction TB");
        inside(self);
        self.0.depth -= 1;
        self.0.line("end");
        id
    }
}

fn is_plain(outline: &GraphOutline, node: usize) -> bool {
    matches!(scene::inside(&outline.nodes[node]), NodeContent::Nothing)
}

fn label(name: &str, notes: &[String]) -> String {
    std::iter::once(name)
        .chain(notes.iter().map(String::as_str))
        .map(escape)
        .collect::<Vec<_>>()
        .join("<br/>")
}

/// Writes a text so that it is nothing else.
fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for it in shown(text).chars() {
        if ESCAPED.contains(it) {
            let _ = write!(escaped, "#{};", u32::from(it));
        } else {
            escaped.push(it);
        }
    }
    escaped
}
