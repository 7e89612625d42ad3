//! Laying out one graph by layers, from top to bottom: boxes of given sizes, arrows between them.
//!
//! Arrows that close a cycle are set aside; the remaining graph is layered by longest paths, ordered in its layers by
//! barycentres, and placed as near to its neighbours as the gaps allow. Arrows back run in lanes of their own beside
//! the layers, so that they are seen to go back. All of it is plain arithmetic in a fixed order: equal graphs give
//! equal pictures.

mod layers;
mod order;
mod place;
mod route;

pub(crate) use route::{ArrowPath, PathSegment};

/// The input of the layout.
#[derive(Debug, Clone, Default)]
pub(crate) struct LayoutInput {
    /// The boxes. The first one is where everything begins.
    pub(crate) boxes: Vec<Dimensions>,
    /// Pairs of boxes, by their numbers, each pair once.
    pub(crate) arrows: Vec<(usize, usize)>,
    /// Pairs that are not drawn, but laid out as if there were an arrow.
    pub(crate) hints: Vec<(usize, usize)>,
    /// The box that belongs on the last layer, if there is one.
    pub(crate) last: Option<usize>,
}

/// Width and height.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Dimensions {
    pub(crate) width: f64,
    pub(crate) height: f64,
}

/// A place.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
}

/// The layout. Everything lies right of and below the origin.
#[derive(Debug, Clone, Default)]
pub(crate) struct GraphLayout {
    pub(crate) size: Dimensions,
    /// The upper left corner of each box.
    pub(crate) corners: Vec<Point>,
    /// The way of each arrow.
    pub(crate) paths: Vec<ArrowPath>,
}

/// The room between neighbours in a layer.
const BESIDE: f64 = 34.0;
/// The room around an arrow that passes a layer.
const PASSING: f64 = 22.0;
/// The room that an arrow takes from a box to itself.
const LOOP: f64 = 30.0;

/// A box, or the place where a longer arrow passes a layer.
#[derive(Debug, Clone, Copy)]
struct LayerSlot {
    /// The box; none for an arrow that passes.
    at: Option<usize>,
    layer: usize,
    width: f64,
    /// The room for an arrow to itself, left of the box.
    left: f64,
    /// The centre.
    x: f64,
}

/// The graph in layers: its spots, and the pieces of its arrows, each from one layer to the next.
#[derive(Debug, Default)]
struct LayeredGraph {
    spots: Vec<LayerSlot>,
    /// The spots of each layer, from left to right.
    layers: Vec<Vec<usize>>,
    /// Pieces between neighbouring layers, with how much they want to be straight.
    pieces: Vec<(usize, usize, f64)>,
    /// For each arrow the spots that it runs through; none for those that go back or to themselves.
    chains: Vec<Option<Vec<usize>>>,
}

impl LayoutInput {
    /// Lays it out.
    pub(crate) fn compute_layout(&self) -> GraphLayout {
        let mut layered = layers::build_layered_graph(self);
        order::order_layers(&mut layered);
        place::place_slots(&mut layered);
        route::route_arrows(self, &layered)
    }
}

impl LayeredGraph {
    /// Returns how far apart the centres of two neighbours are at least.
    fn minimum_distance(&self, left: usize, right: usize) -> f64 {
        let (left, right) = (&self.spots[left], &self.spots[right]);
        let room = match (left.at, right.at) {
            (Some(_), Some(_)) => BESIDE,
            _ => PASSING,
        };
        left.width / 2.0 + room + right.left + right.width / 2.0
    }

    /// Returns the neighbours of each spot, above and below.
    fn slot_neighbours(&self) -> (Vec<Vec<usize>>, Vec<Vec<usize>>) {
        let none = || vec![Vec::new(); self.spots.len()];
        let (mut above, mut below) = (none(), none());
        for (from, to, _) in &self.pieces {
            below[*from].push(*to);
            above[*to].push(*from);
        }
        (above, below)
    }
}

#[cfg(test)]
mod tests;
