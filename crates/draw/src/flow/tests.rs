//! Properties of every layout.

use proptest::prelude::*;

use super::{ArrowPath, Dimensions, GraphLayout, LayoutInput, PathSegment, Point};

fn flows() -> impl Strategy<Value = LayoutInput> {
    let boxes = proptest::collection::vec((20.0..260.0_f64, 14.0..220.0_f64), 1..14);
    boxes.prop_flat_map(|boxes| {
        let count = boxes.len();
        let arrows = proptest::collection::btree_set((0..count, 0..count), 0..count * 3);
        let last = proptest::option::of(0..count);
        (Just(boxes), arrows, last).prop_map(|(boxes, arrows, last)| LayoutInput {
            boxes: boxes.into_iter().map(|(width, height)| Dimensions { width, height }).collect(),
            // Nothing comes out of the last box, and nothing leads into the first.
            arrows: arrows.into_iter().filter(|(from, to)| Some(*from) != last && *to != 0).collect(),
            hints: Vec::new(),
            last: last.filter(|it| *it != 0),
        })
    })
}

/// Returns points along a way, close to each other.
fn along(path: &ArrowPath) -> Vec<Point> {
    let mut points = Vec::new();
    let mut at = Point::default();
    for (index, step) in path.steps.iter().enumerate() {
        let (one, other, end) = match step {
            PathSegment::To(end) if index == 0 => (*end, *end, *end),
            PathSegment::To(end) => (at, *end, *end),
            PathSegment::Curve(one, other, end) => (*one, *other, *end),
        };
        for part in 0..=24 {
            let t = f64::from(part) / 24.0;
            let mix = |a: f64, b: f64, c: f64, d: f64| {
                let u = 1.0 - t;
                a * u * u * u + 3.0 * b * u * u * t + 3.0 * c * u * t * t + d * t * t * t
            };
            let begin = if index == 0 { end } else { at };
            points.push(Point {
                x: mix(begin.x, one.x, other.x, end.x),
                y: mix(begin.y, one.y, other.y, end.y),
            });
        }
        at = end;
    }
    points
}

fn inside(it: Point, corner: Point, size: Dimensions, by: f64) -> bool {
    it.x > corner.x + by
        && it.x < corner.x + size.width - by
        && it.y > corner.y + by
        && it.y < corner.y + size.height - by
}

fn on_edge(it: Point, corner: Point, size: Dimensions) -> bool {
    inside(it, corner, size, -0.5) && !inside(it, corner, size, 0.5)
}

fn check(flow: &LayoutInput, arranged: &GraphLayout) -> Result<(), TestCaseError> {
    prop_assert_eq!(arranged.corners.len(), flow.boxes.len());
    prop_assert_eq!(arranged.paths.len(), flow.arrows.len());
    let whole = arranged.size;
    for (at, (corner, size)) in arranged.corners.iter().zip(&flow.boxes).enumerate() {
        let fits = corner.x >= -0.1
            && corner.y >= -0.1
            && corner.x + size.width <= whole.width + 0.1
            && corner.y + size.height <= whole.height + 0.1;
        prop_assert!(fits, "box {} is outside", at);
        for (other, (corner2, size2)) in arranged.corners.iter().zip(&flow.boxes).enumerate().skip(at + 1) {
            let apart = corner.x + size.width + 10.0 <= corner2.x
                || corner2.x + size2.width + 10.0 <= corner.x
                || corner.y + size.height + 10.0 <= corner2.y
                || corner2.y + size2.height + 10.0 <= corner.y;
            prop_assert!(apart, "boxes {} and {} are too near", at, other);
        }
    }
    for ((from, to), path) in flow.arrows.iter().zip(&arranged.paths) {
        let points = along(path);
        let (first, last) = (points[0], points[points.len() - 1]);
        prop_assert!(
            on_edge(first, arranged.corners[*from], flow.boxes[*from]),
            "{}->{} begins elsewhere",
            from,
            to
        );
        prop_assert!(
            on_edge(last, arranged.corners[*to], flow.boxes[*to]),
            "{}->{} ends elsewhere",
            from,
            to
        );
        for (at, (corner, size)) in arranged.corners.iter().zip(&flow.boxes).enumerate() {
            let crossed = points.iter().any(|it| inside(*it, *corner, *size, 0.5));
            prop_assert!(!crossed, "{}->{} runs through box {}", from, to, at);
        }
        for it in points {
            let fits =
                it.x >= -0.1 && it.x <= whole.width + 0.1 && it.y >= -0.1 && it.y <= whole.height + 0.1;
            prop_assert!(fits, "{}->{} runs out of the picture", from, to);
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn boxes_keep_apart_and_arrows_run_from_box_to_box_around_the_others(flow in flows()) {
        let arranged = flow.compute_layout();
        check(&flow, &arranged)?;
        let again = flow.compute_layout();
        prop_assert_eq!((arranged.corners, arranged.paths), (again.corners, again.paths));
    }
}

fn flow(count: usize, arrows: &[(usize, usize)]) -> LayoutInput {
    LayoutInput {
        boxes: vec![Dimensions { width: 80.0, height: 36.0 }; count],
        arrows: arrows.to_vec(),
        ..LayoutInput::default()
    }
}

#[test]
fn a_line_is_a_straight_line() {
    let arranged = flow(4, &[(0, 1), (1, 2), (2, 3)]).compute_layout();
    assert!(arranged.corners.iter().all(|it| it.x == 0.0), "{:?}", arranged.corners);
    assert!(arranged.paths.iter().all(|it| it.steps.len() == 2 && !it.is_back), "{:?}", arranged.paths);
}

#[test]
fn what_closes_a_cycle_goes_back_and_nothing_else_does() {
    let arranged = flow(4, &[(0, 1), (1, 2), (2, 1), (1, 1), (2, 3), (1, 3)]).compute_layout();
    let back: Vec<bool> = arranged.paths.iter().map(|it| it.is_back).collect();
    assert_eq!(back, [false, false, true, true, false, false]);
    let y: Vec<f64> = arranged.corners.iter().map(|it| it.y).collect();
    assert!(y.is_sorted() && y[0] < y[1], "{y:?}");
}

#[test]
fn arrows_that_need_not_cross_do_not() {
    // Drawn as declared, each would cross the other.
    let arranged = flow(5, &[(0, 1), (0, 2), (1, 4), (2, 3)]).compute_layout();
    let x = |at: usize| arranged.corners[at].x;
    assert_eq!(x(1) < x(2), x(4) < x(3));
}
