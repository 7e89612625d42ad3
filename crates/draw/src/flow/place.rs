//! Where in its layer each spot stands: near its neighbours, never nearer to the next one than the gap.

use super::LayeredGraph;

/// How often all layers are pulled towards their neighbours.
const SWEEPS: usize = 32;

/// Gives each spot the centre of its column.
pub(super) fn place_slots(layered: &mut LayeredGraph) {
    for layer in layered.layers.clone() {
        let mut x = 0.0;
        for (place, at) in layer.iter().enumerate() {
            if place > 0 {
                x += layered.minimum_distance(layer[place - 1], *at);
            }
            layered.spots[*at].x = x;
        }
        let middle = x / 2.0;
        layer.iter().for_each(|at| layered.spots[*at].x -= middle);
    }
    let pulls = NeighbourPulls::from_layered_graph(layered);
    for sweep in 0..SWEEPS {
        // In the end all neighbours count, so that long arrows are straight.
        let last = sweep * 2 >= SWEEPS;
        let count = layered.layers.len();
        if sweep % 2 == 0 {
            (0..count)
                .for_each(|layer| settle_layer(layered, layer, (&pulls.above, last.then_some(&pulls.below))));
        } else {
            let down = (0..count).rev();
            down.for_each(|layer| settle_layer(layered, layer, (&pulls.below, last.then_some(&pulls.above))));
        }
    }
}

/// The neighbours of each spot on one side, with how hard they pull.
type Pull = Vec<Vec<(usize, f64)>>;

/// The neighbours of each spot on both sides.
struct NeighbourPulls {
    above: Pull,
    below: Pull,
}

impl NeighbourPulls {
    fn from_layered_graph(layered: &LayeredGraph) -> Self {
        let none = || vec![Vec::new(); layered.spots.len()];
        let (mut above, mut below) = (none(), none());
        for (from, to, weight) in &layered.pieces {
            below[*from].push((*to, *weight));
            above[*to].push((*from, *weight));
        }
        Self { above, below }
    }
}

/// Moves one layer as near to where its spots want to be as the order and the gaps allow, by least squares.
fn settle_layer(layered: &mut LayeredGraph, layer: usize, (one, other): (&Pull, Option<&Pull>)) {
    let spots = layered.layers[layer].clone();
    // Blocks of spots that touch: (sum of weighted wishes, weight, how many).
    let mut blocks: Vec<(f64, f64, usize)> = Vec::with_capacity(spots.len());
    let mut offsets = Vec::with_capacity(spots.len());
    let mut offset = 0.0;
    for (place, at) in spots.iter().enumerate() {
        if place > 0 {
            offset += layered.minimum_distance(spots[place - 1], *at);
        }
        offsets.push(offset);
        let pulls = one[*at].iter().chain(other.into_iter().flat_map(|it| &it[*at]));
        let (mut wish, mut weight) = (0.0, 0.0);
        for (neighbour, pull) in pulls {
            wish += layered.spots[*neighbour].x * pull;
            weight += pull;
        }
        if weight == 0.0 {
            (wish, weight) = (layered.spots[*at].x * 0.1, 0.1);
        }
        let mut block = (wish - offset * weight, weight, 1);
        while let Some(before) = blocks.pop_if(|blocks| blocks.0 / blocks.1 > block.0 / block.1) {
            block = (before.0 + block.0, before.1 + block.1, before.2 + block.2);
        }
        blocks.push(block);
    }
    let centres = blocks.iter().flat_map(|block| std::iter::repeat_n(block.0 / block.1, block.2));
    for ((at, offset), centre) in spots.iter().zip(offsets).zip(centres) {
        layered.spots[*at].x = centre + offset;
    }
}
