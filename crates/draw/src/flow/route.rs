//! The way of each arrow: straight through the layers, in curves between them, and back in lanes beside them.

use super::{Dimensions, GraphLayout, LayeredGraph, LayoutInput, Point};

/// The room between two layers.
const BETWEEN: f64 = 40.0;
/// The room that each arrow back takes between two layers.
const TRACK: f64 = 12.0;
/// The room between lanes, and between the boxes and the first lane.
const LANE: f64 = 16.0;
/// How far apart arrows leave and reach a box.
const PORT: f64 = 16.0;
/// How far apart arrows back meet the side of a box.
const SIDE: f64 = 12.0;
/// How round corners are.
const CORNER: f64 = 9.0;

/// The way of an arrow.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ArrowPath {
    pub(crate) steps: Vec<PathSegment>,
    /// Whether it leads back, or to where it comes from.
    pub(crate) is_back: bool,
}

/// A piece of a way; the first one is the beginning.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum PathSegment {
    To(Point),
    /// Two control points and an end.
    Curve(Point, Point, Point),
}

/// An arrow back.
struct BackwardArrow {
    arrow: usize,
    from: usize,
    to: usize,
    /// Whether it leaves, and reaches, its box at the side of the lanes, because nothing stands in between.
    sides: (bool, bool),
    lane: f64,
}

/// Where layers lie.
struct LayerExtents {
    top: Vec<f64>,
    bottom: Vec<f64>,
}

pub(super) fn route_arrows(flow: &LayoutInput, layered: &LayeredGraph) -> GraphLayout {
    let mut backs = find_backward_arrows(flow, layered);
    let is_right = choose_lane_side(layered, &backs);
    for back in &mut backs {
        back.sides = (is_outermost(layered, back.from, is_right), is_outermost(layered, back.to, is_right));
    }
    let (rows, tracks) = (measure_layers(flow, layered, &backs), vec![0; layered.layers.len() + 1]);
    let mut router = ArrowRouter { flow, layered, rows, is_right, tracks, beside: Vec::new() };
    router.assign_lanes(&mut backs);
    router.beside = sort_side_arrows(flow, &backs);
    let ports = router.assign_ports(&backs);
    let mut paths = vec![ArrowPath::default(); flow.arrows.len()];
    for (arrow, chain) in layered.chains.iter().enumerate() {
        let (from, to) = flow.arrows[arrow];
        if let Some(chain) = chain {
            paths[arrow] = router.forward_path(chain, ports.port_offsets(arrow));
        } else if from == to {
            paths[arrow] = router.self_loop_path(from);
        }
    }
    for back in &backs {
        paths[back.arrow] = router.backward_path(back, ports.port_offsets(back.arrow));
    }
    router.shift_to_origin(paths)
}

fn find_backward_arrows(flow: &LayoutInput, layered: &LayeredGraph) -> Vec<BackwardArrow> {
    let arrows =
        flow.arrows.iter().enumerate().filter(|(at, (from, to))| layered.chains[*at].is_none() && from != to);
    let mut backs: Vec<BackwardArrow> = arrows
        .map(|(arrow, (from, to))| BackwardArrow {
            arrow,
            from: *from,
            to: *to,
            sides: (false, false),
            lane: 0.0,
        })
        .collect();
    // The shortest runs innermost.
    backs.sort_by_key(|back| layered.spots[back.from].layer - layered.spots[back.to].layer);
    backs
}

/// Chooses the side of the lanes: where less stands between them and the boxes.
fn choose_lane_side(layered: &LayeredGraph, backs: &[BackwardArrow]) -> bool {
    let blocked = |is_right| {
        let ends = backs.iter().flat_map(|back| [back.from, back.to]);
        ends.filter(|end| !is_outermost(layered, *end, is_right)).count()
    };
    // Arrows of boxes to themselves are on the left.
    let loops =
        backs.iter().flat_map(|back| [back.from, back.to]).filter(|it| layered.spots[*it].left > 0.0).count();
    blocked(true) <= blocked(false) + loops
}

fn is_outermost(layered: &LayeredGraph, at: usize, is_right: bool) -> bool {
    let layer = &layered.layers[layered.spots[at].layer];
    let outermost = if is_right { layer.last() } else { layer.first() };
    // On the left an arrow to itself stands in the way.
    outermost == Some(&at) && (is_right || layered.spots[at].left == 0.0)
}

/// Gives each layer its height, and the room above and below that arrows back need.
fn measure_layers(flow: &LayoutInput, layered: &LayeredGraph, backs: &[BackwardArrow]) -> LayerExtents {
    let count = layered.layers.len();
    let mut tracks = vec![0.0; count + 1];
    for back in backs {
        if !back.sides.0 {
            tracks[layered.spots[back.from].layer + 1] += TRACK;
        }
        if !back.sides.1 {
            tracks[layered.spots[back.to].layer] += TRACK;
        }
    }
    let mut rows = LayerExtents { top: Vec::with_capacity(count), bottom: Vec::with_capacity(count) };
    let mut y = tracks[0];
    for (at, layer) in layered.layers.iter().enumerate() {
        let boxes = layer.iter().filter_map(|it| layered.spots[*it].at);
        let height = boxes.map(|it| flow.boxes[it].height).fold(0.0, f64::max);
        rows.top.push(y);
        rows.bottom.push(y + height);
        y += height + BETWEEN + tracks[at + 1];
    }
    rows
}

/// Sorts the arrows back that meet the sides of boxes.
fn sort_side_arrows(flow: &LayoutInput, backs: &[BackwardArrow]) -> Vec<Vec<(usize, bool)>> {
    let mut sorted: Vec<&BackwardArrow> = backs.iter().collect();
    sorted.sort_by(|one, other| one.lane.abs().total_cmp(&other.lane.abs()));
    let mut beside = vec![Vec::new(); flow.boxes.len()];
    for back in sorted.iter().rev().filter(|it| it.sides.1) {
        beside[back.to].push((back.arrow, true));
    }
    for back in sorted.iter().filter(|it| it.sides.0) {
        beside[back.from].push((back.arrow, false));
    }
    beside
}

/// Where arrows leave and reach the edges of their boxes, as an offset from the middle.
struct ArrowPorts {
    out: Vec<f64>,
    into: Vec<f64>,
}

impl ArrowPorts {
    fn port_offsets(&self, arrow: usize) -> (f64, f64) {
        (self.out[arrow], self.into[arrow])
    }
}

struct ArrowRouter<'a> {
    flow: &'a LayoutInput,
    layered: &'a LayeredGraph,
    rows: LayerExtents,
    /// Whether the lanes are on the right.
    is_right: bool,
    /// How many arrows back run above each layer already, and below the last.
    tracks: Vec<usize>,
    /// The arrows back that meet the side of each box, from top to bottom: those that arrive, the outermost first, then
    /// those that leave, the innermost first. So they do not cross.
    beside: Vec<Vec<(usize, bool)>>,
}

impl ArrowRouter<'_> {
    fn layer_of_box(&self, at: usize) -> usize {
        self.layered.spots[at].layer
    }

    fn box_size(&self, at: usize) -> Dimensions {
        self.flow.boxes[at]
    }

    /// Boxes stand in the middle of their layers.
    fn box_top(&self, at: usize) -> f64 {
        let layer = self.layer_of_box(at);
        (self.rows.top[layer] + self.rows.bottom[layer] - self.box_size(at).height) / 2.0
    }

    fn box_bottom(&self, at: usize) -> f64 {
        self.box_top(at) + self.box_size(at).height
    }

    /// Returns how far the layers from one to another reach on the side of the lanes, away from the middle.
    fn reach_of_layers(&self, layers: std::ops::RangeInclusive<usize>) -> f64 {
        let spots = layers.flat_map(|layer| &self.layered.layers[layer]).map(|it| &self.layered.spots[*it]);
        let reach = spots
            .map(|it| if self.is_right { it.x + it.width / 2.0 } else { -(it.x - it.width / 2.0 - it.left) });
        reach.fold(f64::MIN, f64::max)
    }

    /// Gives each arrow back a lane, beyond the boxes that it passes and the lanes that it would run into.
    fn assign_lanes(&self, backs: &mut [BackwardArrow]) {
        let mut taken: Vec<(usize, usize, f64)> = Vec::new();
        for back in backs {
            let (upper, lower) = (self.layer_of_box(back.to), self.layer_of_box(back.from));
            let mut lane = self.reach_of_layers(upper..=lower) + LANE + 4.0;
            let overlapping = taken.iter().filter(|(from, to, _)| *from <= lower && upper <= *to);
            for (_, _, other) in overlapping {
                lane = lane.max(other + LANE);
            }
            taken.push((upper, lower, lane));
            back.lane = if self.is_right { lane } else { -lane };
        }
    }

    /// Spreads the arrows at each box, in the order of where they go and come from.
    fn assign_ports(&self, backs: &[BackwardArrow]) -> ArrowPorts {
        let mut ends: [Vec<Vec<(f64, usize)>>; 2] =
            std::array::from_fn(|_| vec![Vec::new(); self.flow.boxes.len()]);
        for (arrow, chain) in self.layered.chains.iter().enumerate() {
            let Some([from, next, ..]) = chain.as_deref() else { continue };
            ends[0][*from].push((self.layered.spots[*next].x, arrow));
            if let Some([.., before, to]) = chain.as_deref() {
                ends[1][*to].push((self.layered.spots[*before].x, arrow));
            }
        }
        for back in backs {
            if !back.sides.0 {
                ends[0][back.from].push((back.lane, back.arrow));
            }
            if !back.sides.1 {
                ends[1][back.to].push((back.lane, back.arrow));
            }
        }
        let [mut out, mut into] = [0, 1].map(|_| vec![0.0; self.flow.arrows.len()]);
        for (ends, ports) in ends.iter_mut().zip([&mut out, &mut into]) {
            for (at, ends) in ends.iter_mut().enumerate() {
                ends.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
                let room = (self.box_size(at).width - 2.0 * CORNER).max(0.0);
                let count = ends.len().saturating_sub(1).max(1) as f64;
                let gap = PORT.min(room / count);
                let first = -gap * (ends.len() as f64 - 1.0) / 2.0;
                for (place, (_, arrow)) in ends.iter().enumerate() {
                    ports[*arrow] = first + gap * place as f64;
                }
            }
        }
        ArrowPorts { out, into }
    }

    /// Leads an arrow down: within a layer straight, between layers in a curve.
    fn forward_path(&self, chain: &[usize], (out, into): (f64, f64)) -> ArrowPath {
        let (from, to) = (chain[0], chain[chain.len() - 1]);
        let mut at = Point { x: self.layered.spots[from].x + out, y: self.box_bottom(from) };
        let mut steps = vec![PathSegment::To(at)];
        for pair in chain.windows(2) {
            let (upper, lower) = (self.layer_of_box(pair[0]), self.layer_of_box(pair[1]));
            let start = Point { x: at.x, y: self.rows.bottom[upper] };
            push_line_segment(&mut steps, &mut at, start);
            let x = self.layered.spots[pair[1]].x + if pair[1] == to { into } else { 0.0 };
            let end = Point { x, y: self.rows.top[lower] };
            let bend = (end.y - start.y) * 0.5;
            let controls = (Point { y: start.y + bend, ..start }, Point { y: end.y - bend, ..end });
            if (start.x - end.x).abs() < 0.05 {
                push_line_segment(&mut steps, &mut at, end);
            } else {
                steps.push(PathSegment::Curve(controls.0, controls.1, end));
            }
            at = end;
        }
        let end = Point { x: at.x, y: self.box_top(to) };
        push_line_segment(&mut steps, &mut at, end);
        ArrowPath { steps, is_back: false }
    }

    /// Leads an arrow from a box to itself, on its left.
    fn self_loop_path(&self, at: usize) -> ArrowPath {
        let (size, middle) = (self.box_size(at), (self.box_top(at) + self.box_bottom(at)) / 2.0);
        let left = self.layered.spots[at].x - size.width / 2.0;
        let reach = (size.height * 0.3).min(11.0);
        let bulge = super::LOOP * 1.15;
        let point = |x, y| Point { x, y };
        let (lower, upper) = (middle + reach, middle - reach);
        let curve = PathSegment::Curve(
            point(left - bulge, lower + reach * 0.6),
            point(left - bulge, upper - reach * 0.6),
            point(left, upper),
        );
        ArrowPath { steps: vec![PathSegment::To(point(left, lower)), curve], is_back: true }
    }

    /// Takes a track above a layer, and returns its height.
    fn allocate_track(&mut self, layer: usize) -> f64 {
        let place = self.tracks[layer] as f64;
        self.tracks[layer] += 1;
        // Near the layer below, above the arrow heads; below the last layer near that.
        match self.rows.top.get(layer) {
            Some(top) => top - BETWEEN / 2.0 - place * TRACK,
            None => self.rows.bottom[layer - 1] + 10.0 + place * TRACK,
        }
    }

    /// Returns how high an arrow meets the side of a box.
    fn side_port_height(&self, at: usize, arrow: (usize, bool)) -> f64 {
        let meeting = &self.beside[at];
        let place = meeting.iter().position(|it| *it == arrow).unwrap_or(0) as f64;
        let height = self.box_size(at).height;
        let gap = SIDE.min((height - 2.0 * CORNER).max(0.0) / (meeting.len().max(2) - 1) as f64);
        self.box_top(at) + height / 2.0 + gap * (place - (meeting.len() as f64 - 1.0) / 2.0)
    }

    /// Leads an arrow back: out to its lane, up, and in again.
    fn backward_path(&mut self, back: &BackwardArrow, (out, into): (f64, f64)) -> ArrowPath {
        let towards = if self.is_right { 0.5 } else { -0.5 };
        let spots = &self.layered.spots;
        let mut corners = Vec::new();
        let x = spots[back.from].x;
        if back.sides.0 {
            let y = self.side_port_height(back.from, (back.arrow, false));
            corners.push(Point { x: x + self.box_size(back.from).width * towards, y });
            corners.push(Point { x: back.lane, y });
        } else {
            corners.push(Point { x: x + out, y: self.box_bottom(back.from) });
            let y = self.allocate_track(self.layered.spots[back.from].layer + 1);
            corners.push(Point { x: x + out, y });
            corners.push(Point { x: back.lane, y });
        }
        let x = self.layered.spots[back.to].x;
        if back.sides.1 {
            let y = self.side_port_height(back.to, (back.arrow, true));
            corners.push(Point { x: back.lane, y });
            corners.push(Point { x: x + self.box_size(back.to).width * towards, y });
        } else {
            let y = self.allocate_track(self.layered.spots[back.to].layer);
            corners.push(Point { x: back.lane, y });
            corners.push(Point { x: x + into, y });
            corners.push(Point { x: x + into, y: self.box_top(back.to) });
        }
        ArrowPath { steps: round_corners(&corners), is_back: true }
    }

    /// Moves everything right of and below the origin.
    fn shift_to_origin(&self, mut paths: Vec<ArrowPath>) -> GraphLayout {
        let spots = &self.layered.spots[..self.flow.boxes.len()];
        let mut corners: Vec<Point> = Vec::with_capacity(spots.len());
        for (at, spot) in spots.iter().enumerate() {
            corners.push(Point { x: spot.x - spot.width / 2.0, y: self.box_top(at) });
        }
        let (mut least, mut most) = (Point { x: f64::MAX, y: f64::MAX }, Point { x: f64::MIN, y: f64::MIN });
        let mut see = |x: f64, y: f64| {
            least = Point { x: least.x.min(x), y: least.y.min(y) };
            most = Point { x: most.x.max(x), y: most.y.max(y) };
        };
        for (at, corner) in corners.iter().enumerate() {
            see(corner.x - spots[at].left, corner.y);
            see(corner.x + self.box_size(at).width, corner.y + self.box_size(at).height);
        }
        for step in paths.iter().flat_map(|path| &path.steps) {
            let (PathSegment::To(end) | PathSegment::Curve(_, _, end)) = step;
            see(end.x, end.y);
        }
        if corners.is_empty() {
            return GraphLayout::default();
        }
        let shift = |it: &mut Point| (it.x, it.y) = (it.x - least.x, it.y - least.y);
        corners.iter_mut().for_each(shift);
        for step in paths.iter_mut().flat_map(|path| &mut path.steps) {
            match step {
                PathSegment::To(end) => shift(end),
                PathSegment::Curve(one, other, end) => [one, other, end].into_iter().for_each(shift),
            }
        }
        GraphLayout { size: Dimensions { width: most.x - least.x, height: most.y - least.y }, corners, paths }
    }
}

fn push_line_segment(steps: &mut Vec<PathSegment>, at: &mut Point, to: Point) {
    if (at.x - to.x).abs() + (at.y - to.y).abs() > 0.05 {
        steps.push(PathSegment::To(to));
        *at = to;
    }
}

/// Rounds the corners of a way.
fn round_corners(corners: &[Point]) -> Vec<PathSegment> {
    let mut steps = vec![PathSegment::To(corners[0])];
    for three in corners.windows(3) {
        let [before, corner, after] = [three[0], three[1], three[2]];
        let length = |it: Point| (it.x - corner.x).abs() + (it.y - corner.y).abs();
        let radius = CORNER.min(length(before) / 2.0).min(length(after) / 2.0);
        let towards = |it: Point| {
            let part = if length(it) > 0.0 { radius / length(it) } else { 0.0 };
            Point { x: corner.x + (it.x - corner.x) * part, y: corner.y + (it.y - corner.y) * part }
        };
        steps.push(PathSegment::To(towards(before)));
        steps.push(PathSegment::Curve(corner, corner, towards(after)));
    }
    steps.push(PathSegment::To(corners[corners.len() - 1]));
    steps
}
