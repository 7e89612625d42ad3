//! The order in the layers: barycentre sweeps, of which the best one counts.

use super::LayeredGraph;

/// How often the order is improved from one end to the other.
const SWEEPS: usize = 16;

/// Orders each layer so that few arrows cross.
pub(super) fn order_layers(layered: &mut LayeredGraph) {
    let (above, below) = layered.slot_neighbours();
    let mut best = (count_crossings(layered), layered.layers.clone());
    for sweep in 0..SWEEPS {
        let count = layered.layers.len();
        if sweep % 2 == 0 {
            (1..count).for_each(|layer| sort_by_barycentre(layered, layer, &above));
        } else {
            (0..count.saturating_sub(1)).rev().for_each(|layer| sort_by_barycentre(layered, layer, &below));
        }
        let now = count_crossings(layered);
        if now < best.0 {
            best = (now, layered.layers.clone());
        }
    }
    layered.layers = best.1;
}

/// Orders one layer by the mean place of each spot's neighbours; a spot without neighbours keeps its place.
fn sort_by_barycentre(layered: &mut LayeredGraph, layer: usize, neighbours: &[Vec<usize>]) {
    let places = slot_positions(layered);
    let mut keyed: Vec<(f64, usize)> = Vec::with_capacity(layered.layers[layer].len());
    for at in &layered.layers[layer] {
        let around = &neighbours[*at];
        let sum: usize = around.iter().map(|it| places[*it]).sum();
        let key = if around.is_empty() { places[*at] as f64 } else { sum as f64 / around.len() as f64 };
        keyed.push((key, *at));
    }
    keyed.sort_by(|one, other| one.0.total_cmp(&other.0));
    layered.layers[layer] = keyed.into_iter().map(|(_, at)| at).collect();
}

fn slot_positions(layered: &LayeredGraph) -> Vec<usize> {
    let mut places = vec![0; layered.spots.len()];
    for layer in &layered.layers {
        for (place, at) in layer.iter().enumerate() {
            places[*at] = place;
        }
    }
    places
}

/// Counts how often pieces cross.
fn count_crossings(layered: &LayeredGraph) -> usize {
    let places = slot_positions(layered);
    let mut between: Vec<Vec<(usize, usize)>> = vec![Vec::new(); layered.layers.len()];
    for (from, to, _) in &layered.pieces {
        between[layered.spots[*from].layer].push((places[*from], places[*to]));
    }
    between.into_iter().map(count_inversions).sum()
}

/// Counts the pairs of which the ends stand the other way round than the beginnings.
fn count_inversions(mut pieces: Vec<(usize, usize)>) -> usize {
    pieces.sort_unstable();
    let width = pieces.iter().map(|piece| piece.1 + 1).max().unwrap_or(0);
    // A Fenwick tree of how many ends were seen up to each place.
    let (mut tree, mut count) = (vec![0_usize; width + 1], 0);
    for (seen, (_, end)) in pieces.into_iter().enumerate() {
        let (mut at, mut up_to) = (end + 1, 0);
        while at > 0 {
            up_to += tree[at];
            at &= at - 1;
        }
        count += seen - up_to;
        at = end + 1;
        while at <= width {
            tree[at] += 1;
            at += at & at.wrapping_neg();
        }
    }
    count
}
