//! Making a graph smaller that fails.

use super::generate::is_sound;
use super::model;
use super::plan::{Branch, Doing, Fails, Fan, Fork, Jump, Kind, Node, Plan, When, Work, Wrap};
use super::told::Told;

/// Looks for a smaller graph that fails, too: takes the first of the next smaller ones that does, again and again.
/// `fails` says why a graph fails, if it does, and is asked a bounded number of times.
pub(crate) fn reduce(
    plan: Plan,
    why: String,
    mut fails: impl FnMut(&Plan, &Told) -> Option<String>,
) -> (Plan, String) {
    let (mut plan, mut why, mut left) = (plan, why, 600);
    'smaller: loop {
        for smaller in smaller(&plan) {
            if left == 0 {
                return (plan, why);
            }
            if !is_sound(&smaller) {
                continue;
            }
            let told = model::tell(&smaller);
            if told.ambiguous {
                continue;
            }
            left -= 1;
            if let Some(its) = fails(&smaller, &told) {
                (plan, why) = (smaller, its);
                continue 'smaller;
            }
        }
        return (plan, why);
    }
}

/// The graphs that have one thing less, those that lose most first.
fn smaller(plan: &Plan) -> Vec<Plan> {
    let mut all = Vec::new();
    for at in 0..plan.nodes.len() {
        let mut less = plan.clone();
        less.nodes.remove(at);
        all.push(less);
    }
    for (at, node) in plan.nodes.iter().enumerate() {
        for inner in node.plans() {
            // The nodes of the inner graph replace the node that contains it.
            let mut less = plan.clone();
            less.nodes.splice(at..=at, inner.nodes.iter().cloned());
            all.push(less);
        }
        for lesser in smaller_node(node) {
            let mut less = plan.clone();
            less.nodes[at] = lesser;
            all.push(less);
        }
    }
    if !plan.around.is_empty() {
        all.push(Plan { around: Vec::new(), ..plan.clone() });
    }
    if plan.items > 1 {
        all.push(Plan { items: plan.items - 1, ..plan.clone() });
    }
    all
}

fn without(chain: &[Wrap]) -> impl Iterator<Item = Vec<Wrap>> {
    (0..chain.len()).map(|at| {
        let mut less = chain.to_vec();
        less.remove(at);
        less
    })
}

fn smaller_node(node: &Node) -> Vec<Node> {
    let kind = |kind| Node { kind, ..node.clone() };
    let mut all: Vec<Node> = match &node.kind {
        Kind::Work(work) => smaller_work(*work).into_iter().map(|it| kind(Kind::Work(it))).collect(),
        Kind::Sub(plan) => smaller(plan).into_iter().map(|it| kind(Kind::Sub(it))).collect(),
        Kind::Fan(fan) => {
            let mut all: Vec<_> =
                smaller(&fan.inner).into_iter().map(|inner| Fan { inner, ..fan.clone() }).collect();
            if let Some(count) = fan.count.filter(|it| *it > 1) {
                all.push(Fan { count: Some(count - 1), ..fan.clone() });
            }
            if fan.limit != Some(1) {
                all.push(Fan { limit: Some(1), ..fan.clone() });
            }
            if fan.collect {
                all.push(Fan { collect: false, ..fan.clone() });
            }
            all.extend(without(&fan.chain).map(|chain| Fan { chain, ..fan.clone() }));
            all.into_iter().map(|it| kind(Kind::Fan(it))).collect()
        }
        Kind::Fork(fork) => {
            let with = |branches| kind(Kind::Fork(Fork { branches, ..fork.clone() }));
            let mut all = Vec::new();
            for (at, branch) in fork.branches.iter().enumerate() {
                let mut less = fork.branches.clone();
                less.remove(at);
                if !less.is_empty() {
                    all.push(with(less));
                }
                for lesser in smaller_branch(branch) {
                    let mut less = fork.branches.clone();
                    less[at] = lesser;
                    all.push(with(less));
                }
            }
            if fork.collect {
                all.push(kind(Kind::Fork(Fork { collect: false, ..fork.clone() })));
            }
            all
        }
    };
    all.extend(without(&node.chain).map(|chain| Node { chain, ..node.clone() }));
    if node.jump != Jump::None {
        all.push(Node { jump: Jump::None, ..node.clone() });
    }
    all
}

fn smaller_branch(branch: &Branch) -> Vec<Branch> {
    let doing = |doing| Branch { doing, ..branch.clone() };
    let mut all: Vec<Branch> = match &branch.doing {
        Doing::Call(work) => smaller_work(*work).into_iter().map(|it| doing(Doing::Call(it))).collect(),
        Doing::Graph(plan) => smaller(plan).into_iter().map(|it| doing(Doing::Graph(it))).collect(),
    };
    all.extend(without(&branch.chain).map(|chain| Branch { chain, ..branch.clone() }));
    if branch.when != When::Always {
        all.push(Branch { when: When::Always, ..branch.clone() });
    }
    all
}

fn smaller_work(work: Work) -> Vec<Work> {
    let all = [
        Work { fails: Fails::Never, ..work },
        Work { takes: 0, ..work },
        Work { gate: None, ..work },
        Work { items: None, ..work },
        Work { odd: false, ..work },
    ];
    all.into_iter().filter(|it| *it != work).collect()
}
