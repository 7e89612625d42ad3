//! The meaning of the signs that occur in a picture of a graph.

use super::board::{ClusterContent, GraphElement, PlacedGraph};
use crate::flow::{ArrowPath, PathSegment, Point};
use crate::label::sans_serif_width;
use crate::svg::{SvgWriter, TextAnchor};

/// The size of its letters.
const SIZE: f64 = 10.5;
/// How long its arrows are.
const ARROW: f64 = 26.0;

/// Which signs a picture has.
#[derive(Debug, Default)]
pub(super) struct GraphLegend {
    fixed: bool,
    chosen: bool,
    back: bool,
}

impl GraphLegend {
    /// Looks for signs in a picture, however deep.
    pub(super) fn collect_from_graph(&mut self, board: &PlacedGraph) {
        for (arrow, path) in board.arrows.iter().zip(&board.arranged.paths) {
            self.fixed |= !arrow.chosen;
            self.chosen |= arrow.chosen;
            self.back |= path.is_back;
        }
        board.faces.iter().for_each(|face| self.collect_from_element(face));
    }

    fn collect_from_element(&mut self, face: &GraphElement) {
        match face {
            GraphElement::Cluster(_, _, ClusterContent::Graph(board)) => self.collect_from_graph(board),
            GraphElement::Cluster(_, _, ClusterContent::Row(row)) => {
                row.iter().for_each(|(_, it)| self.collect_from_element(it))
            }
            GraphElement::Start | GraphElement::End | GraphElement::Mark(_) | GraphElement::Node(_) => {}
        }
    }

    /// Returns the signs with their meaning; none when all arrows are fixed and none goes back.
    fn used_signs(&self) -> Vec<(&'static str, &'static str)> {
        if !(self.chosen || self.back) {
            return Vec::new();
        }
        let all = [
            (self.fixed, "always", "always"),
            (self.chosen, "chosen", "chosen by a function"),
            (self.back, "always back", "back"),
        ];
        all.into_iter().filter(|item| item.0).map(|(_, class, text)| (class, text)).collect()
    }

    /// Returns how wide it is.
    pub(super) fn width(&self) -> f64 {
        self.used_signs().iter().map(|(_, text)| ARROW + 8.0 + sans_serif_width(text, SIZE) + 20.0).sum()
    }

    pub(super) fn draw(&self, svg: &mut SvgWriter, at: Point) {
        let mut x = at.x;
        for (class, text) in self.used_signs() {
            let ends = [Point { x, y: at.y }, Point { x: x + ARROW, y: at.y }];
            let path = ArrowPath { steps: ends.map(PathSegment::To).to_vec(), is_back: false };
            svg.draw_arrow(class, &path, Point::default());
            svg.write_text("note", Point { x: x + ARROW + 8.0, y: at.y + 3.5 }, TextAnchor::Start, text);
            x += ARROW + 8.0 + sans_serif_width(text, SIZE) + 20.0;
        }
    }
}
