//! Which arrows go back, and on which layer each box lies.

use super::{LOOP, LayerSlot, LayeredGraph, LayoutInput};

/// How far a search has come at a box.
#[derive(Clone, Copy, PartialEq)]
enum VisitState {
    New,
    Open,
    Done,
}

/// Layers a graph by longest paths from its first box.
pub(super) fn build_layered_graph(flow: &LayoutInput) -> LayeredGraph {
    let (forward, sorted) = find_forward_arrows(flow);
    let layer = longest_path_layers(flow, &forward, &sorted);
    let mut layered = LayeredGraph {
        layers: vec![Vec::new(); layer.iter().max().map_or(0, |layer| layer + 1)],
        ..LayeredGraph::default()
    };
    for (at, size) in flow.boxes.iter().enumerate() {
        let left = if flow.arrows.contains(&(at, at)) { LOOP } else { 0.0 };
        let spot = LayerSlot { at: Some(at), layer: layer[at], width: size.width, left, x: 0.0 };
        layered.spots.push(spot);
    }
    // In the order in which the search found them: related boxes begin side by side.
    for at in &sorted {
        layered.layers[layer[*at]].push(*at);
    }
    for (at, (from, to)) in flow.arrows.iter().enumerate() {
        let chain = forward[at].then(|| insert_chain(&mut layered, *from, *to));
        layered.chains.push(chain);
    }
    layered
}

/// Returns for each arrow, then for each hint, whether it goes forward; and the boxes, each before its successors.
fn find_forward_arrows(flow: &LayoutInput) -> (Vec<bool>, Vec<usize>) {
    let count = flow.boxes.len();
    let mut out: Vec<Vec<(usize, usize)>> = vec![Vec::new(); count];
    for (at, (from, to)) in flow.arrows.iter().chain(&flow.hints).enumerate() {
        out[*from].push((at, *to));
    }
    let mut marks = vec![VisitState::New; count];
    let mut forward = vec![false; flow.arrows.len() + flow.hints.len()];
    let mut sorted = Vec::with_capacity(count);
    for root in 0..count {
        if marks[root] != VisitState::New {
            continue;
        }
        marks[root] = VisitState::Open;
        let mut stack = vec![(root, 0)];
        while let Some((at, next)) = stack.last_mut() {
            let Some((arrow, to)) = out[*at].get(*next).copied() else {
                marks[*at] = VisitState::Done;
                sorted.push(*at);
                stack.pop();
                continue;
            };
            *next += 1;
            forward[arrow] = marks[to] != VisitState::Open;
            if marks[to] == VisitState::New {
                marks[to] = VisitState::Open;
                stack.push((to, 0));
            }
        }
    }
    sorted.reverse();
    (forward, sorted)
}

fn longest_path_layers(flow: &LayoutInput, forward: &[bool], sorted: &[usize]) -> Vec<usize> {
    let mut out: Vec<Vec<usize>> = vec![Vec::new(); flow.boxes.len()];
    for ((from, to), _) in flow.arrows.iter().chain(&flow.hints).zip(forward).filter(|(_, it)| **it) {
        out[*from].push(*to);
    }
    let mut layer = vec![0; flow.boxes.len()];
    for from in sorted {
        for to in &out[*from] {
            layer[*to] = layer[*to].max(layer[*from] + 1);
        }
    }
    if let Some(last) = flow.last {
        layer[last] = layer.iter().copied().max().unwrap_or(0);
    }
    layer
}

/// Leads an arrow through the layers between its ends.
fn insert_chain(layered: &mut LayeredGraph, from: usize, to: usize) -> Vec<usize> {
    let mut chain = vec![from];
    for layer in layered.spots[from].layer + 1..layered.spots[to].layer {
        let at = layered.spots.len();
        layered.spots.push(LayerSlot { at: None, layer, width: 0.0, left: 0.0, x: 0.0 });
        layered.layers[layer].push(at);
        chain.push(at);
    }
    chain.push(to);
    for pair in chain.windows(2) {
        let passing = pair.iter().filter(|it| layered.spots[**it].at.is_none()).count();
        layered.pieces.push((pair[0], pair[1], [1.0, 2.0, 8.0][passing]));
    }
    chain
}
