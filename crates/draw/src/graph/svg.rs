//! A graph as an SVG.

use singletree_engine::GraphOutline;

use super::board::{
    CARDS, ClusterContent, ClusterKind, GraphElement, LabelledBox, NAME, NOTE_LINE, PlacedGraph,
};
use super::legend::GraphLegend;
use crate::flow::{Dimensions, Point};
use crate::label::{monospace_width, sans_serif_width, to_visible_line, truncate_to_columns};
use crate::svg::{SvgWriter, TextAnchor};

/// The margin around everything.
const MARGIN: f64 = 28.0;
/// The height of title and subtitle.
const HEAD: f64 = 56.0;
/// The height of the legend.
const FOOT: f64 = 34.0;

/// How it looks in the light and in the dark. Without variables, for not every viewer knows them.
const STYLE: &str = include_str!("style.css");
/// How the node looks that works now: an outline that is seen in the light and in the dark.
const LIVE: &str = ".live > .box, .live > g > .box { stroke: #e07b1f; stroke-width: 3; }";

pub(super) fn draw_outline(title: &str, outline: &GraphOutline, live: Option<&str>) -> String {
    let board = PlacedGraph::from_outline(outline);
    let mut legend = GraphLegend::default();
    legend.collect_from_graph(&board);
    let name = truncate_to_columns(&to_visible_line(title), 60).into_owned();
    let about = describe_outline(outline);
    let inner = board.arranged.size;
    let widest = [inner.width, monospace_width(&name, 16.0), sans_serif_width(&about, 11.0), legend.width()];
    let width = widest.into_iter().fold(0.0, f64::max) + 2.0 * MARGIN;
    let foot = if legend.width() > 0.0 { FOOT + 14.0 } else { MARGIN * 0.5 };
    let height = MARGIN + HEAD + inner.height + foot + MARGIN * 0.5;
    let size = Dimensions { width, height };
    let style = live.map_or_else(|| STYLE.to_owned(), |_| format!("{}\n{LIVE}", STYLE.trim()));
    let mut svg = SvgWriter::new(size, &format!("Graph of {}", to_visible_line(title)), &style);
    svg.draw_rectangle(
        "page",
        Point::default(),
        Dimensions { width: width.ceil(), height: height.ceil() },
        12.0,
    );
    svg.write_text("title", Point { x: MARGIN, y: MARGIN + 12.0 }, TextAnchor::Start, &name);
    svg.write_text("note", Point { x: MARGIN, y: MARGIN + 30.0 }, TextAnchor::Start, &about);
    paint_graph(&mut svg, &board, Point { x: (width - inner.width) / 2.0, y: MARGIN + HEAD }, live);
    legend.draw(&mut svg, Point { x: MARGIN, y: height - MARGIN * 0.5 - FOOT / 2.0 });
    svg.finish()
}

fn describe_outline(outline: &GraphOutline) -> String {
    let count = outline.nodes.len();
    let nodes = if count == 1 { "node" } else { "nodes" };
    let text = format!("{count} {nodes} \u{b7} state {} \u{b7} graph {}", outline.state, outline.digest);
    truncate_to_columns(&to_visible_line(&text), 90).into_owned()
}

fn paint_graph(svg: &mut SvgWriter, board: &PlacedGraph, at: Point, live: Option<&str>) {
    let moved = |it: &Point| Point { x: it.x + at.x, y: it.y + at.y };
    for (face, corner) in board.faces.iter().zip(&board.arranged.corners) {
        let lit = face.title().is_some_and(|title| live.is_some_and(|live| to_visible_line(live) == title));
        paint_element(svg, face, moved(corner), lit);
    }
    for (arrow, path) in board.arrows.iter().zip(&board.arranged.paths) {
        let class = match (arrow.chosen, path.is_back) {
            (false, false) => "always",
            (false, true) => "always back",
            (true, false) => "chosen",
            (true, true) => "chosen back",
        };
        svg.draw_arrow(class, path, at);
    }
}

fn paint_element(svg: &mut SvgWriter, face: &GraphElement, at: Point, lit: bool) {
    let size = face.size();
    let middle = Point { x: at.x + size.width / 2.0, y: at.y + size.height / 2.0 };
    match face {
        GraphElement::Start => svg.draw_circle("start", middle, size.width / 2.0),
        GraphElement::End => {
            svg.draw_rectangle("end", at, size, size.height / 2.0);
            svg.write_text("endtext", Point { y: middle.y + 3.7, ..middle }, TextAnchor::Middle, "END");
        }
        GraphElement::Mark(text) => {
            svg.draw_rectangle("mark", at, size, size.height / 2.0);
            svg.write_text("marktext", Point { y: middle.y + 3.7, ..middle }, TextAnchor::Middle, text);
        }
        GraphElement::Node(tile) => {
            svg.open_group(if lit { "node live" } else { "node" }, &tile.title);
            svg.draw_rectangle("box", at, size, 8.0);
            svg.write_text("name", Point { x: middle.x, y: at.y + 22.5 }, TextAnchor::Middle, &tile.name);
            for (line, note) in tile.notes.iter().enumerate() {
                let y = at.y + 38.0 + line as f64 * NOTE_LINE;
                svg.write_text("note", Point { x: middle.x, y }, TextAnchor::Middle, note);
            }
            svg.close_group();
        }
        GraphElement::Cluster(tile, kind, content) => {
            if lit {
                svg.open_group("live", &tile.title);
            }
            paint_cluster(svg, (tile, *kind, content), at);
            if lit {
                svg.close_group();
            }
        }
    }
}

fn paint_cluster(
    svg: &mut SvgWriter,
    (tile, kind, content): (&LabelledBox, ClusterKind, &ClusterContent),
    at: Point,
) {
    svg.open_group(cluster_class(kind), &tile.title);
    let mut size = tile.size;
    if kind == ClusterKind::FanOut {
        size.height -= CARDS;
        for card in [2.0, 1.0] {
            let under = Point { x: at.x + 9.0 * card, y: at.y + 5.0 * card };
            svg.draw_rectangle(
                "box card",
                under,
                Dimensions { width: size.width - 18.0 * card, ..size },
                10.0,
            );
        }
    }
    svg.draw_rectangle("box", at, size, 10.0);
    svg.write_text("name", Point { x: at.x + 16.0, y: at.y + 23.0 }, TextAnchor::Start, &tile.name);
    for (line, note) in tile.notes.iter().enumerate() {
        let y = at.y + 24.0 + NAME * 0.2 + (line + 1) as f64 * NOTE_LINE;
        svg.write_text("note", Point { x: at.x + 16.0, y }, TextAnchor::Start, note);
    }
    let y = at.y + tile.head_height() + 4.0;
    match content {
        ClusterContent::Graph(board) => {
            let x = at.x + (size.width - board.arranged.size.width) / 2.0;
            paint_graph(svg, board, Point { x, y }, None);
        }
        ClusterContent::Row(row) => {
            let right = row.iter().map(|(corner, face)| corner.x + face.size().width);
            let x = at.x + (size.width - right.fold(0.0, f64::max)) / 2.0;
            for (corner, face) in row {
                paint_element(svg, face, Point { x: x + corner.x, y: y + corner.y }, false);
            }
        }
    }
    svg.close_group();
}

fn cluster_class(kind: ClusterKind) -> &'static str {
    match kind {
        ClusterKind::Subgraph => "subgraph",
        ClusterKind::FanOut => "fanout",
        ClusterKind::Branches => "branches",
        ClusterKind::Branch => "branch",
        ClusterKind::Maybe => "branch maybe",
    }
}
