//! Directed graphs in the language of Graphviz.

use singletree_engine::GraphOutline;

use super::scene::{self, ArrowTarget, NodeContent};
use super::script::DiagramText;
use crate::label::to_visible_line;

pub(super) fn draw_outline(title: &str, outline: &GraphOutline) -> String {
    let mut chart = DotDiagram::default();
    chart.0.push_line(&format!("digraph \"{}\" {{", escape_label(title)));
    chart.0.depth += 1;
    chart.0.push_line("compound=true; rankdir=TB; fontname=\"Helvetica\"; fontsize=11;");
    chart.0.push_line("node [shape=box, style=rounded, fontname=\"Helvetica\", fontsize=11];");
    chart.0.push_line("edge [fontname=\"Helvetica\", fontsize=10];");
    chart.draw_graph(outline);
    chart.0.depth -= 1;
    chart.0.push_line("}");
    chart.0.text
}

/// The points at which arrows enter and leave; each stands for the whole box that it is in, if it is in one.
#[derive(Clone)]
struct DotEndpoints {
    entry: String,
    exit: String,
    cluster: Option<String>,
}

/// A script that draws graphs.
#[derive(Default)]
struct DotDiagram(DiagramText);

impl DotDiagram {
    /// Draws a graph, and returns its first and its last point.
    fn draw_graph(&mut self, outline: &GraphOutline) -> (String, String) {
        let start = self.0.next_id();
        self.0.push_line(&format!(
            "{start} [shape=circle, style=filled, fillcolor=black, label=\"\", width=0.15];"
        ));
        let mut spots = Vec::with_capacity(outline.nodes.len());
        for node in &outline.nodes {
            let notes =
                scene::join_notes([scene::node_caption(node), scene::middleware_note(&node.middleware)]);
            let spot = match scene::node_content(node) {
                NodeContent::Nothing => self.draw_node(&node.name, &notes),
                NodeContent::Graph(graph) => {
                    self.draw_cluster(&node.name, &notes, |chart| chart.draw_graph(graph))
                }
                NodeContent::Branches(branches) => self.draw_cluster(&node.name, &notes, |chart| {
                    let mut ends = None;
                    for branch in branches {
                        let about =
                            [scene::branch_caption(branch), scene::middleware_note(&branch.middleware)];
                        let notes = scene::join_notes(about);
                        let spot = match &branch.graph {
                            Some(graph) => {
                                chart.draw_cluster(&branch.name, &notes, |chart| chart.draw_graph(graph))
                            }
                            None => chart.draw_node(&branch.name, &notes),
                        };
                        ends.get_or_insert((spot.entry, spot.exit));
                    }
                    ends.unwrap_or_else(|| {
                        let point = chart.0.next_id();
                        chart.0.push_line(&format!("{point} [shape=point, style=invis];"));
                        (point.clone(), point)
                    })
                }),
            };
            spots.push(spot);
        }
        let end = self.draw_arrows(outline, &start, &spots);
        (start.clone(), end.unwrap_or(start))
    }

    fn draw_arrows(&mut self, outline: &GraphOutline, start: &str, spots: &[DotEndpoints]) -> Option<String> {
        let arrows = scene::collect_arrows(outline);
        let end = scene::has_arrow_to(&arrows, ArrowTarget::End).then(|| self.0.next_id());
        if let Some(end) = &end {
            self.0.push_line(&format!(
                "{end} [shape=box, style=\"rounded,filled\", fillcolor=\"gray90\", label=\"END\"];"
            ));
        }
        let start = DotEndpoints { entry: start.to_owned(), exit: start.to_owned(), cluster: None };
        for arrow in &arrows {
            let from = arrow.from.map_or(&start, |at| &spots[at]);
            let mark = |chart: &mut Self, text: &str| {
                let id = chart.0.next_id();
                chart.0.push_line(&format!("{id} [shape=plaintext, style=\"\", label=\"{text}\"];"));
                DotEndpoints { entry: id.clone(), exit: id, cluster: None }
            };
            match arrow.to {
                // A box around others cannot point at itself.
                ArrowTarget::Node(to) if Some(to) == arrow.from && spots[to].cluster.is_some() => {
                    let again = mark(self, "again");
                    self.draw_arrow(from, &again, arrow.chosen);
                    self.draw_arrow(&again, from, arrow.chosen);
                }
                ArrowTarget::Node(to) => self.draw_arrow(from, &spots[to], arrow.chosen),
                ArrowTarget::End => {
                    let id = end.clone().unwrap_or_default();
                    let end = DotEndpoints { entry: id.clone(), exit: id, cluster: None };
                    self.draw_arrow(from, &end, arrow.chosen);
                }
                ArrowTarget::Unknown => {
                    let mark = mark(self, "by function");
                    self.draw_arrow(from, &mark, true);
                }
                ArrowTarget::Nowhere => {
                    let mark = mark(self, "no edge");
                    self.draw_arrow(from, &mark, arrow.chosen);
                }
            }
        }
        end
    }

    fn draw_arrow(&mut self, from: &DotEndpoints, to: &DotEndpoints, chosen: bool) {
        let mut attributes = Vec::new();
        if chosen {
            attributes.push("style=dashed".to_owned());
        }
        attributes.extend(from.cluster.as_ref().map(|cluster| format!("ltail={cluster}")));
        attributes.extend(to.cluster.as_ref().map(|cluster| format!("lhead={cluster}")));
        let attributes =
            if attributes.is_empty() { String::new() } else { format!(" [{}]", attributes.join(", ")) };
        self.0.push_line(&format!("{} -> {}{attributes};", from.exit, to.entry));
    }

    fn draw_node(&mut self, name: &str, notes: &[String]) -> DotEndpoints {
        let id = self.0.next_id();
        self.0.push_line(&format!("{id} [label=\"{}\"];", format_label(name, notes)));
        DotEndpoints { entry: id.clone(), exit: id, cluster: None }
    }

    fn draw_cluster(
        &mut self,
        name: &str,
        notes: &[String],
        inside: impl FnOnce(&mut Self) -> (String, String),
    ) -> DotEndpoints {
        let cluster = format!("cluster_{}", self.0.next_id());
        self.0.push_line(&format!("subgraph {cluster} {{"));
        self.0.depth += 1;
        self.0.push_line(&format!(
            "label=\"{}\"; labeljust=l; style=rounded; color=gray50;",
            format_label(name, notes)
        ));
        let (entry, exit) = inside(self);
        self.0.depth -= 1;
        self.0.push_line("}");
        DotEndpoints { entry, exit, cluster: Some(cluster) }
    }
}

fn format_label(name: &str, notes: &[String]) -> String {
    std::iter::once(name)
        .chain(notes.iter().map(String::as_str))
        .map(escape_label)
        .collect::<Vec<_>>()
        .join("\\n")
}

/// Writes a text so that it is nothing else: no end of the string, no escape, no entity.
fn escape_label(text: &str) -> String {
    to_visible_line(text).replace('\\', "\\\\").replace('"', "\\\"").replace('&', "&amp;")
}
