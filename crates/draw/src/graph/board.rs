//! Where everything in a picture of a graph stands: each graph is laid out by itself, and is a box in the one around
//! it.

use singletree_engine::{BranchOutline, GraphOutline, NodeKind, NodeOutline};

use super::scene::{self, ArrowTarget, GraphArrow, NodeContent};
use crate::flow::{Dimensions, GraphLayout, LayoutInput, Point};
use crate::label::{monospace_width, sans_serif_width, to_visible_line, truncate_to_columns};

/// How many columns of a name are shown; pointing at it shows all of it.
const NAME_MAX: usize = 40;
/// How many columns of a note are shown.
const NOTE_MAX: usize = 64;
/// The sizes of letters.
pub(super) const NAME: f64 = 13.0;
pub(super) const NOTE: f64 = 10.5;
/// The height of a line of notes.
pub(super) const NOTE_LINE: f64 = 15.0;
/// The free space between a box and its content.
const INSET: f64 = 18.0;
/// How far the cards under a fan-out look out.
pub(super) const CARDS: f64 = 10.0;
/// From where on branches go on in another row.
const ROW_MAX: f64 = 1_100.0;
/// The free space between branches.
const APART: f64 = 22.0;

/// A graph, laid out.
pub(super) struct PlacedGraph {
    pub(super) arranged: GraphLayout,
    /// The faces at the corners of the layout.
    pub(super) faces: Vec<GraphElement>,
    /// The arrows, in the order of the paths.
    pub(super) arrows: Vec<GraphArrow>,
}

/// Something that arrows lead to.
pub(super) enum GraphElement {
    Start,
    End,
    Mark(&'static str),
    Node(LabelledBox),
    Cluster(LabelledBox, ClusterKind, ClusterContent),
}

/// The texts of a node or a branch.
pub(super) struct LabelledBox {
    /// As it is shown.
    pub(super) name: String,
    /// The whole name.
    pub(super) title: String,
    pub(super) notes: Vec<String>,
    pub(super) size: Dimensions,
}

/// The kind of a box.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClusterKind {
    Subgraph,
    FanOut,
    Branches,
    Branch,
    /// A branch that may be left out.
    Maybe,
}

/// The content of a box, below its head.
pub(super) enum ClusterContent {
    Graph(Box<PlacedGraph>),
    Row(Vec<(Point, GraphElement)>),
}

impl LabelledBox {
    fn new(name: &str, notes: Vec<String>) -> Self {
        let title = to_visible_line(name).into_owned();
        let name = truncate_to_columns(&title, NAME_MAX).into_owned();
        let notes: Vec<String> = notes
            .iter()
            .map(|note| truncate_to_columns(&to_visible_line(note), NOTE_MAX).into_owned())
            .collect();
        let widest = notes
            .iter()
            .map(|note| sans_serif_width(note, NOTE))
            .fold(monospace_width(&name, NAME), f64::max);
        let height = 36.0 + notes.len() as f64 * NOTE_LINE;
        Self { size: Dimensions { width: (widest + 34.0).max(84.0), height }, name, title, notes }
    }

    /// Returns the height of the head of a box.
    pub(super) fn head_height(&self) -> f64 {
        36.0 + self.notes.len() as f64 * NOTE_LINE
    }

    /// Makes room for the content of the box.
    fn enlarge_around(mut self, inside: Dimensions, more: f64) -> Self {
        let width = inside.width.max(self.size.width - INSET) + 2.0 * INSET;
        self.size = Dimensions { width, height: self.head_height() + 4.0 + inside.height + INSET + more };
        self
    }
}

impl GraphElement {
    /// Returns the whole name of the node or branch.
    pub(super) fn title(&self) -> Option<&str> {
        match self {
            Self::Start | Self::End | Self::Mark(_) => None,
            Self::Node(tile) | Self::Cluster(tile, ..) => Some(&tile.title),
        }
    }

    pub(super) fn size(&self) -> Dimensions {
        match self {
            Self::Start => Dimensions { width: 14.0, height: 14.0 },
            Self::End => Dimensions { width: 46.0, height: 22.0 },
            Self::Mark(text) => Dimensions { width: sans_serif_width(text, NOTE) + 20.0, height: 22.0 },
            Self::Node(tile) | Self::Cluster(tile, ..) => tile.size,
        }
    }

    fn from_node(node: &NodeOutline) -> Self {
        let tile = LabelledBox::new(
            &node.name,
            scene::join_notes([scene::node_caption(node), scene::middleware_note(&node.middleware)]),
        );
        let kind = match &node.kind {
            NodeKind::Function | NodeKind::Subgraph { .. } => ClusterKind::Subgraph,
            NodeKind::FanOut { .. } => ClusterKind::FanOut,
            NodeKind::Branches { .. } => ClusterKind::Branches,
        };
        match scene::node_content(node) {
            NodeContent::Nothing => Self::Node(tile),
            NodeContent::Graph(graph) => Self::cluster_around(tile, kind, graph),
            NodeContent::Branches(branches) => {
                let (row, size) = arrange_branches(branches);
                Self::Cluster(tile.enlarge_around(size, 0.0), kind, ClusterContent::Row(row))
            }
        }
    }

    fn from_branch(branch: &BranchOutline) -> Self {
        let notes =
            scene::join_notes([scene::branch_caption(branch), scene::middleware_note(&branch.middleware)]);
        let tile = LabelledBox::new(&branch.name, notes);
        let kind = if branch.conditional { ClusterKind::Maybe } else { ClusterKind::Branch };
        match &branch.graph {
            Some(graph) => Self::cluster_around(tile, kind, graph),
            None if branch.conditional => Self::Cluster(tile, kind, ClusterContent::Row(Vec::new())),
            None => Self::Node(tile),
        }
    }

    fn cluster_around(tile: LabelledBox, kind: ClusterKind, graph: &GraphOutline) -> Self {
        let board = PlacedGraph::from_outline(graph);
        let more = if kind == ClusterKind::FanOut { CARDS } else { 0.0 };
        let tile = tile.enlarge_around(board.arranged.size, more);
        Self::Cluster(tile, kind, ClusterContent::Graph(Box::new(board)))
    }
}

/// Puts branches side by side, in as many rows as they need.
fn arrange_branches(branches: &[BranchOutline]) -> (Vec<(Point, GraphElement)>, Dimensions) {
    let (mut at, mut size, mut lowest) = (Point::default(), Dimensions::default(), 0.0_f64);
    let mut row = Vec::with_capacity(branches.len());
    for branch in branches {
        let face = GraphElement::from_branch(branch);
        let takes = face.size();
        if at.x > 0.0 && at.x + takes.width > ROW_MAX {
            at = Point { x: 0.0, y: lowest + APART };
        }
        size.width = size.width.max(at.x + takes.width);
        lowest = lowest.max(at.y + takes.height);
        row.push((at, face));
        at.x += takes.width + APART;
    }
    size.height = lowest;
    (row, size)
}

impl PlacedGraph {
    /// Lays a graph out.
    pub(super) fn from_outline(outline: &GraphOutline) -> Self {
        let arrows = scene::collect_arrows(outline);
        let mut faces = vec![GraphElement::Start];
        faces.extend(outline.nodes.iter().map(GraphElement::from_node));
        let mut flow = LayoutInput::default();
        if scene::has_arrow_to(&arrows, ArrowTarget::End) {
            flow.last = Some(faces.len());
            faces.push(GraphElement::End);
        }
        for arrow in &arrows {
            let from = arrow.from.map_or(0, |it| it + 1);
            let to = match arrow.to {
                ArrowTarget::Node(node) => node + 1,
                ArrowTarget::End => flow.last.unwrap_or(0),
                ArrowTarget::Unknown => {
                    faces.push(GraphElement::Mark("by function"));
                    faces.len() - 1
                }
                ArrowTarget::Nowhere => {
                    faces.push(GraphElement::Mark("no edge"));
                    faces.len() - 1
                }
            };
            flow.arrows.push((from, to));
        }
        flow.hints = find_layout_hints(outline, &arrows);
        flow.boxes = faces.iter().map(GraphElement::size).collect();
        Self { arranged: flow.compute_layout(), faces, arrows }
    }
}

/// Where nothing is known to lead to a node, a function does: it stands below the first one that chooses freely.
fn find_layout_hints(outline: &GraphOutline, arrows: &[GraphArrow]) -> Vec<(usize, usize)> {
    let Some(free) =
        arrows.iter().find(|arrow| arrow.to == ArrowTarget::Unknown).and_then(|arrow| arrow.from)
    else {
        return Vec::new();
    };
    let mut seen = vec![false; outline.nodes.len()];
    let mut hints = Vec::new();
    let mut visit = |from: usize| {
        let mut stack = vec![from];
        while let Some(at) = stack.pop() {
            if !std::mem::replace(&mut seen[at], true) {
                let next = arrows.iter().filter(|arrow| arrow.from == Some(at));
                stack.extend(next.filter_map(|it| match it.to {
                    ArrowTarget::Node(to) => Some(to),
                    ArrowTarget::End | ArrowTarget::Unknown | ArrowTarget::Nowhere => None,
                }));
            }
        }
        seen.clone()
    };
    let entry = arrows.first().and_then(|arrow| match arrow.to {
        ArrowTarget::Node(to) => Some(to),
        ArrowTarget::End | ArrowTarget::Unknown | ArrowTarget::Nowhere => None,
    });
    let mut reached = entry.map(&mut visit).unwrap_or_else(|| vec![true; outline.nodes.len()]);
    for node in 0..outline.nodes.len() {
        if !reached[node] {
            hints.push((free + 1, node + 1));
            reached = visit(node);
        }
    }
    hints
}
