//! A graph as an SVG.

use singletree_engine::GraphOutline;

use super::board::{
    CARDS, ClusterContent, ClusterKind, GraphElement, LabelledBox, NAME, NOTE_LINE, PlacedGraph,
};
use super::legend::GraphLegend;
use crate::flow::{Dimensions, Point};
use crate::label::{cut, mono, sans, shown};
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

pub(super) fn draw(title: &str, outline: &GraphOutline, live: Option<&str>) -> String {
    let board = PlacedGraph::of(outline);
    let mut legend = GraphLegend::default();
    legend.see(&board);
    let name = cut(&shown(title), 60).into_owned();
    let about = about(outline);
    let inner = board.arranged.size;
    let widest = [inner.width, mono(&name, 16.0), sans(&about, 11.0), legend.width()];
    let width = widest.into_iter().fold(0.0, f64::max) + 2.0 * MARGIN;
    let foot = if legend.width() > 0.0 { FOOT + 14.0 } else { MARGIN * 0.5 };
    let height = MARGIN + HEAD + inner.height + foot + MARGIN * 0.5;
    let size = Dimensions { width, height };
    let style = live.map_or_else(|| STYLE.to_owned(), |_| format!("{}\n{LIVE}", STYLE.trim()));
    let mut svg = SvgWriter::new(size, &format!("Graph of {}", shown(title)), &style);
    svg.rect("page", Point::default(), Dimensions { width: width.ceil(), height: height.ceil() }, 12.0);
    svg.text("title", Point { x: MARGIN, y: MARGIN + 12.0 }, TextAnchor::Start, &name);
    svg.text("note", Point { x: MARGIN, y: MARGIN + 30.0 }, TextAnchor::Start, &about);
    paint(&mut svg, &board, Point { x: (width - inner.width) / 2.0, y: MARGIN + HEAD }, live);
    legend.draw(&mut svg, Point { x: MARGIN, y: height - MARGIN * 0.5 - FOOT / 2.0 });
    svg.finish()
}

fn about(outline: &GraphOutline) -> String {
    let count = outline.nodes.len();
    let nodes = if count == 1 { "node" } else { "nodes" };
    let text = format!("{count} {nodes} \u{b7} state {} \u{b7} graph {}", outline.state, outline.digest);
    cut(&shown(&text), 90).into_owned()
}

fn paint(svg: &mut SvgWriter, board: &PlacedGraph, at: Point, live: Option<&str>) {
    let moved = |it: &Point| Point { x: it.x + at.x, y: it.y + at.y };
    for (face, corner) in board.faces.iter().zip(&board.arranged.corners) {
        let lit = face.title().is_some_and(|title| live.is_some_and(|live| shown(live) == title));
        paint_face(svg, face, moved(corner), lit);
    }
    for (arrow, path) in board.arrows.iter().zip(&board.arranged.paths) {
        let class = match (arrow.chosen, path.is_back) {
            (false, false) => "always",
            (false, true) => "always back",
            (true, false) => "chosen",
            (true, true) => "chosen back",
        };
        svg.arrow(class, path, at);
    }
}

fn paint_face(svg: &mut SvgWriter, face: &GraphElement, at: Point, lit: bool) {
    let size = face.size();
    let middle = Point { x: at.x + size.width / 2.0, y: at.y + size.height / 2.0 };
    match face {
        GraphElement::Start => svg.dot("start", middle, size.width / 2.0),
        GraphElement::End => {
            svg.rect("end", at, size, size.height / 2.0);
            svg.text("endtext", Point { y: middle.y + 3.7, ..middle }, TextAnchor::Middle, "END");
        }
        GraphElement::Mark(text) => {
            svg.rect("mark", at, size, size.height / 2.0);
            svg.text("marktext", Point { y: middle.y + 3.7, ..middle }, TextAnchor::Middle, text);
        }
        GraphElement::Node(tile) => {
            svg.open(if lit { "node live" } else { "node" }, &tile.title);
            svg.rect("box", at, size, 8.0);
            svg.text("name", Point { x: middle.x, y: at.y + 22.5 }, TextAnchor::Middle, &tile.name);
            for (line, note) in tile.notes.iter().enumerate() {
                let y = at.y + 38.0 + line as f64 * NOTE_LINE;
                svg.text("note", Point { x: middle.x, y }, TextAnchor::Middle, note);
            }
            svg.close();
        }
        GraphElement::Cluster(tile, kind, content) => {
            if lit {
                svg.open("live", &tile.title);
            }
            paint_cluster(svg, (tile, *kind, content), at);
            if lit {
                svg.close();
            }
        }
    }
}

fn paint_cluster(
    svg: &mut SvgWriter,
    (tile, kind, content): (&LabelledBox, ClusterKind, &ClusterContent),
    at: Point,
) {
    svg.open(class(kind), &tile.title);
    let mut size = tile.size;
    if kind == ClusterKind::FanOut {
        size.height -= CARDS;
        for card in [2.0, 1.0] {
            let under = Point { x: at.x + 9.0 * card, y: at.y + 5.0 * card };
            svg.rect("box card", under, Dimensions { width: size.width - 18.0 * card, ..size }, 10.0);
        }
    }
    svg.rect("box", at, size, 10.0);
    svg.text("name", Point { x: at.x + 16.0, y: at.y + 23.0 }, TextAnchor::Start, &tile.name);
    for (line, note) in tile.notes.iter().enumerate() {
        let y = at.y + 24.0 + NAME * 0.2 + (line + 1) as f64 * NOTE_LINE;
        svg.text("note", Point { x: at.x + 16.0, y }, TextAnchor::Start, note);
    }
    let y = at.y + tile.head() + 4.0;
    match content {
        ClusterContent::Graph(board) => {
            let x = at.x + (size.width - board.arranged.size.width) / 2.0;
            paint(svg, board, Point { x, y }, None);
        }
        ClusterContent::Row(row) => {
            let right = row.iter().map(|(corner, face)| corner.x + face.size().width);
            let x = at.x + (size.width - right.fold(0.0, f64::max)) / 2.0;
            for (corner, face) in row {
                paint_face(svg, face, Point { x: x + corner.x, y: y + corner.y }, false);
            }
        }
    }
    svg.close();
}

fn class(kind: ClusterKind) -> &'static str {
    match kind {
        ClusterKind::Subgraph => "subgraph",
        ClusterKind::FanOut => "fanout",
        ClusterKind::Branches => "branches",
        ClusterKind::Branch => "branch",
        ClusterKind::Maybe => "branch maybe",
    }
}
