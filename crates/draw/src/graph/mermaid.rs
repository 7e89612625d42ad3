//! Flowcharts for Mermaid.

use std::fmt::Write;

use singletree_engine::GraphOutline;

use super::scene::{self, ArrowTarget, NodeContent};
use super::script::DiagramText;
use crate::label::to_visible_line;

/// Characters that cannot stand in a quoted label unescaped, or would be read as Markdown or markup.
const ESCAPED: &str = "\"#&<>`*_~\\[]{}()|$%;";

pub(super) fn draw_outline(outline: &GraphOutline) -> String {
    let mut chart = MermaidDiagram::default();
    chart.0.push_line("flowchart TD");
    chart.0.depth += 1;
    chart.draw_graph(outline);
    chart.0.text
}

/// A script that draws graphs.
#[derive(Default)]
struct MermaidDiagram(DiagramText);

impl MermaidDiagram {
    fn draw_graph(&mut self, outline: &GraphOutline) {
        let start = self.0.next_id();
        self.0.push_line(&format!("{start}([\"START\"])"));
        let mut nodes = Vec::with_capacity(outline.nodes.len());
        for node in &outline.nodes {
            let notes =
                scene::join_notes([scene::node_caption(node), scene::middleware_note(&node.middleware)]);
            let id = match scene::node_content(node) {
                NodeContent::Nothing => self.draw_node(&node.name, &notes),
                NodeContent::Graph(graph) => {
                    self.draw_cluster(&node.name, &notes, |chart| chart.draw_graph(graph))
                }
                NodeContent::Branches(branches) => self.draw_cluster(&node.name, &notes, |chart| {
                    for branch in branches {
                        let about =
                            [scene::branch_caption(branch), scene::middleware_note(&branch.middleware)];
                        let notes = scene::join_notes(about);
                        match &branch.graph {
                            Some(graph) => {
                                chart.draw_cluster(&branch.name, &notes, |chart| chart.draw_graph(graph))
                            }
                            None => chart.draw_node(&branch.name, &notes),
                        };
                    }
                }),
            };
            nodes.push(id);
        }
        let arrows = scene::collect_arrows(outline);
        let end = scene::has_arrow_to(&arrows, ArrowTarget::End).then(|| self.0.next_id());
        if let Some(end) = &end {
            self.0.push_line(&format!("{end}([\"END\"])"));
        }
        for arrow in &arrows {
            let from = arrow.from.map_or(&start, |at| &nodes[at]);
            let line = if arrow.chosen { "-.->" } else { "-->" };
            match arrow.to {
                // A box around others cannot point at itself.
                ArrowTarget::Node(to) if Some(to) == arrow.from && !is_plain_node(outline, to) => {
                    let again = self.0.next_id();
                    self.0.push_line(&format!("{from} {line} {again}([\"again\"])"));
                    self.0.push_line(&format!("{again} {line} {from}"));
                }
                ArrowTarget::Node(to) => self.0.push_line(&format!("{from} {line} {}", nodes[to])),
                ArrowTarget::End => {
                    self.0.push_line(&format!("{from} {line} {}", end.as_deref().unwrap_or_default()))
                }
                ArrowTarget::Unknown => self.draw_marker(from, line, "by function"),
                ArrowTarget::Nowhere => self.draw_marker(from, line, "no edge"),
            }
        }
    }

    fn draw_marker(&mut self, from: &str, line: &str, text: &str) {
        let id = self.0.next_id();
        self.0.push_line(&format!("{from} {line} {id}{{{{\"{text}\"}}}}"));
    }

    fn draw_node(&mut self, name: &str, notes: &[String]) -> String {
        let id = self.0.next_id();
        self.0.push_line(&format!("{id}[\"{}\"]", format_label(name, notes)));
        id
    }

    fn draw_cluster(&mut self, name: &str, notes: &[String], inside: impl FnOnce(&mut Self)) -> String {
        let id = self.0.next_id();
        self.0.push_line(&format!("subgraph {id}[\"{}\"]", format_label(name, notes)));
        self.0.depth += 1;
        self.0.push_line("direction TB");
        inside(self);
        self.0.depth -= 1;
        self.0.push_line("end");
        id
    }
}

fn is_plain_node(outline: &GraphOutline, node: usize) -> bool {
    matches!(scene::node_content(&outline.nodes[node]), NodeContent::Nothing)
}

fn format_label(name: &str, notes: &[String]) -> String {
    std::iter::once(name)
        .chain(notes.iter().map(String::as_str))
        .map(escape_label)
        .collect::<Vec<_>>()
        .join("<br/>")
}

/// Writes a text so that it is nothing else.
fn escape_label(text: &str) -> String {
    let mut escaped = String::new();
    for it in to_visible_line(text).chars() {
        if ESCAPED.contains(it) {
            let _ = write!(escaped, "#{};", u32::from(it));
        } else {
            escaped.push(it);
        }
    }
    escaped
}
