//! Flowcharts for Mermaid.

use std::fmt::Write;

use singletree_engine::Outline;

use super::scene::{self, Goal, Inside};
use crate::label::shown;

/// What cannot stand in a quoted label as it is, or would be read as Markdown or markup.
const ESCAPED: &str = "\"#&<>`*_~\\[]{}()|$%;";

pub(super) fn draw(outline: &Outline) -> String {
    let mut chart = Chart { text: "flowchart TD\n".into(), next: 0, indent: 1 };
    chart.graph(outline);
    chart.text
}

struct Chart {
    text: String,
    /// The next free number: names are no identifiers here.
    next: usize,
    indent: usize,
}

impl Chart {
    fn line(&mut self, text: &str) {
        let indent = self.indent * 2;
        let _ = writeln!(self.text, "{:indent$}{text}", "");
    }

    fn id(&mut self) -> String {
        self.next += 1;
        format!("n{}", self.next)
    }

    fn graph(&mut self, outline: &Outline) {
        let start = self.id();
        self.line(&format!("{start}([\"START\"])"));
        let mut nodes = Vec::with_capacity(outline.nodes.len());
        for node in &outline.nodes {
            let notes = scene::notes([scene::caption(node), scene::around(&node.middleware)]);
            let id = match scene::inside(node) {
                Inside::Nothing => self.node(&node.name, &notes),
                Inside::Graph(graph) => self.cluster(&node.name, &notes, |chart| chart.graph(graph)),
                Inside::Branches(branches) => self.cluster(&node.name, &notes, |chart| {
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
        let end = scene::leads_to(&arrows, Goal::End).then(|| self.id());
        if let Some(end) = &end {
            self.line(&format!("{end}([\"END\"])"));
        }
        for arrow in &arrows {
            let from = arrow.from.map_or(&start, |at| &nodes[at]);
            let line = if arrow.chosen { "-.->" } else { "-->" };
            match arrow.to {
                // A box around others cannot point at itself.
                Goal::Node(to) if Some(to) == arrow.from && !is_plain(outline, to) => {
                    let again = self.id();
                    self.line(&format!("{from} {line} {again}([\"again\"])"));
                    self.line(&format!("{again} {line} {from}"));
                }
                Goal::Node(to) => self.line(&format!("{from} {line} {}", nodes[to])),
                Goal::End => self.line(&format!("{from} {line} {}", end.as_deref().unwrap_or_default())),
                Goal::Unknown => self.mark(from, line, "by function"),
                Goal::Nowhere => self.mark(from, line, "no edge"),
            }
        }
    }

    fn mark(&mut self, from: &str, line: &str, text: &str) {
        let id = self.id();
        self.line(&format!("{from} {line} {id}{{{{\"{text}\"}}}}"));
    }

    fn node(&mut self, name: &str, notes: &[String]) -> String {
        let id = self.id();
        self.line(&format!("{id}[\"{}\"]", label(name, notes)));
        id
    }

    fn cluster(&mut self, name: &str, notes: &[String], inside: impl FnOnce(&mut Self)) -> String {
        let id = self.id();
        self.line(&format!("subgraph {id}[\"{}\"]", label(name, notes)));
        self.indent += 1;
        self.line("direction TB");
        inside(self);
        self.indent -= 1;
        self.line("end");
        id
    }
}

fn is_plain(outline: &Outline, node: usize) -> bool {
    matches!(scene::inside(&outline.nodes[node]), Inside::Nothing)
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
