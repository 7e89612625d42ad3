//! Making random graphs.

use super::dice::Dice;
use super::model;
use super::plan::{Branch, Doing, Fails, Fan, Fork, Gate, Jump, Kind, Node, Plan, When, Work, Wrap};
use super::told::Told;

/// A feature that a graph must have somewhere, so that enough graphs have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Theme {
    Any,
    TwoDeep,
    NestedFan,
    FanInBranch,
    Asks,
}

/// A graph of one seed, with the model's description of it.
pub(crate) fn graph(seed: u64) -> (Plan, Told) {
    let mut dice = Dice::new(seed);
    loop {
        let plan = Maker { dice: &mut dice, ids: 0, left: 12 }.top();
        if !is_sound(&plan) {
            continue;
        }
        let told = model::tell(&plan);
        if !told.ambiguous {
            return (plan, told);
        }
    }
}

struct Maker<'a> {
    dice: &'a mut Dice,
    ids: u32,
    /// How many nodes may still be made.
    left: u32,
}

impl Maker<'_> {
    fn id(&mut self) -> u32 {
        self.ids += 1;
        self.ids
    }

    fn top(&mut self) -> Plan {
        let mut plan = self.plan(0, 2);
        for theme in [self.theme(), self.theme()] {
            let kind = match theme {
                Theme::Any => continue,
                Theme::TwoDeep => {
                    let inner = self.plan(3, 1);
                    let middle = self.alone(Kind::Sub(inner));
                    Kind::Sub(middle)
                }
                Theme::NestedFan => {
                    let inner = self.plan(3, 1);
                    let inner = Kind::Fan(self.fan(inner));
                    let middle =
                        if self.dice.percent(35) { self.in_rounds(inner) } else { self.alone(inner) };
                    Kind::Fan(self.fan(middle))
                }
                Theme::FanInBranch => {
                    let inner = self.plan(3, 1);
                    let fan = self.fan(inner);
                    let plan = self.alone(Kind::Fan(fan));
                    let graph = self.branch(Doing::Graph(plan));
                    let work = self.work();
                    let call = self.branch(Doing::Call(work));
                    Kind::Fork(Fork { branches: vec![graph, call], collect: self.dice.percent(30) })
                }
                Theme::Asks => {
                    let needs = 1 + u8::from(self.dice.percent(25));
                    Kind::Work(Work { gate: Some(Gate::Again(needs)), ..Work::default() })
                }
            };
            let node = self.node_of(kind);
            let at = self.dice.below(plan.nodes.len() as u64 + 1);
            plan.nodes.insert(usize::try_from(at).expect("it is small"), node);
        }
        self.jumps(&mut plan);
        plan
    }

    fn theme(&mut self) -> Theme {
        match self.dice.below(100) {
            0..=9 => Theme::TwoDeep,
            10..=26 => Theme::NestedFan,
            27..=38 => Theme::FanInBranch,
            39..=46 => Theme::Asks,
            _ => Theme::Any,
        }
    }

    /// A graph around one node, perhaps with a function beside it, which may lead back.
    fn alone(&mut self, kind: Kind) -> Plan {
        let mut nodes = vec![self.node_of(kind)];
        if self.dice.percent(60) {
            let work = Kind::Work(self.work());
            let node = self.node_of(work);
            let at = usize::from(self.dice.percent(60));
            nodes.insert(at, node);
        }
        let mut plan = Plan { nodes, around: Vec::new(), items: self.small() };
        self.jumps(&mut plan);
        plan
    }

    /// A graph that goes round a node.
    fn in_rounds(&mut self, kind: Kind) -> Plan {
        let (around, last) = (self.node_of(kind), self.node_of(Kind::Work(Work::default())));
        let jump = Jump::Back { to: around.id, until: 2 };
        Plan { nodes: vec![around, Node { jump, ..last }], around: Vec::new(), items: 1 + self.small() / 2 }
    }

    fn small(&mut self) -> u8 {
        u8::try_from(1 + self.dice.below(3)).expect("it is small")
    }

    fn plan(&mut self, depth: u32, most: u64) -> Plan {
        let count = 1 + self.dice.below(most + u64::from(depth == 0));
        let nodes = (0..count).map(|_| self.node(depth)).collect();
        let around = match self.dice.below(20) {
            0 => vec![Wrap::Timing],
            1 => vec![Wrap::Retry(2)],
            _ => Vec::new(),
        };
        let items = self.small();
        let mut plan = Plan { nodes, around, items };
        if depth > 0 {
            self.jumps(&mut plan);
        }
        plan
    }

    fn node(&mut self, depth: u32) -> Node {
        self.left = self.left.saturating_sub(1);
        let deeper = depth < 3 && self.left > 2;
        let kind = match self.dice.below(100) {
            0..=14 if deeper => Kind::Sub(self.plan(depth + 1, 2)),
            15..=29 if deeper => {
                let inner = self.plan(depth + 1, 2);
                Kind::Fan(self.fan(inner))
            }
            30..=42 if deeper => Kind::Fork(self.fork(depth)),
            _ => Kind::Work(self.work()),
        };
        self.node_of(kind)
    }

    fn node_of(&mut self, kind: Kind) -> Node {
        let chain = match kind {
            Kind::Work(Work { fails: Fails::Before(_), .. }) if self.dice.percent(60) => self.chain(100),
            Kind::Work(Work { fails: Fails::Always, .. }) if self.dice.percent(60) => vec![Wrap::Isolation],
            Kind::Work(_) => self.chain(12),
            Kind::Sub(_) | Kind::Fan(_) | Kind::Fork(_) => self.chain(30),
        };
        Node { id: self.id(), kind, chain, jump: Jump::None }
    }

    /// A chain, or none but in so many of a hundred cases.
    fn chain(&mut self, share: u64) -> Vec<Wrap> {
        if !self.dice.percent(share) {
            return Vec::new();
        }
        let retry = Wrap::Retry(2 + u32::from(self.dice.percent(30)));
        match self.dice.below(7) {
            0 | 1 => vec![retry],
            2 => vec![Wrap::Isolation, retry],
            3 => vec![Wrap::Isolation],
            4 => vec![retry, Wrap::Timing],
            5 => vec![Wrap::Timing, Wrap::Isolation, retry],
            _ => vec![Wrap::Timing],
        }
    }

    fn work(&mut self) -> Work {
        let fails = match self.dice.below(100) {
            0..=17 => Fails::Before(1),
            18..=20 => Fails::Before(2),
            21..=29 => Fails::Always,
            _ => Fails::Never,
        };
        let takes = if self.dice.percent(25) { self.small() } else { 0 };
        let gate = match self.dice.below(100) {
            0..=4 => Some(Gate::Again(1 + u8::from(self.dice.percent(30)))),
            5..=9 => Some(Gate::Done),
            _ => None,
        };
        let items =
            self.dice.percent(8).then(|| self.dice.below(4)).map(|it| u8::try_from(it).expect("small"));
        Work { fails, odd: self.dice.percent(40), takes, gate, items }
    }

    fn fan(&mut self, inner: Plan) -> Fan {
        let count = match self.dice.below(10) {
            0..=3 => Some(self.small()),
            4 => Some(0),
            _ => None,
        };
        let limit = match self.dice.below(3) {
            0 => None,
            _ => Some(self.small()),
        };
        let collect = self.dice.percent(35);
        let mut inner = inner;
        if collect && self.dice.percent(60) {
            fail_in_odd(&mut inner);
        }
        Fan { inner, count, limit, collect, chain: self.chain(30) }
    }

    fn fork(&mut self, depth: u32) -> Fork {
        let count = 1 + self.dice.below(3);
        let branches = (0..count).map(|_| {
            let doing = if self.dice.percent(45) {
                Doing::Call(self.work())
            } else {
                Doing::Graph(self.plan(depth + 1, 2))
            };
            self.branch(doing)
        });
        let branches = branches.collect();
        Fork { branches, collect: self.dice.percent(35) }
    }

    fn branch(&mut self, doing: Doing) -> Branch {
        let when = match self.dice.below(10) {
            0 => When::Never,
            1 => When::Odd,
            _ => When::Always,
        };
        Branch { id: self.id(), doing, when, chain: self.chain(25) }
    }

    /// Lets functions jump.
    fn jumps(&mut self, plan: &mut Plan) {
        for at in 0..plan.nodes.len() {
            if !matches!(plan.nodes[at].kind, Kind::Work(_)) {
                continue;
            }
            let to = plan.nodes[usize::try_from(self.dice.below(at as u64 + 1)).expect("small")].id;
            plan.nodes[at].jump = match self.dice.below(100) {
                0..=21 => Jump::Back { to, until: 1 + self.small() },
                22..=31 => Jump::Skip,
                _ => continue,
            };
        }
    }
}

/// Lets the first function of a graph fail where the item is odd, so that some instances fail and others do not.
fn fail_in_odd(plan: &mut Plan) {
    let first = plan.nodes.iter_mut().find_map(|it| match &mut it.kind {
        Kind::Work(work) => Some(work),
        Kind::Sub(_) | Kind::Fan(_) | Kind::Fork(_) => None,
    });
    if let Some(work) = first {
        *work = Work { fails: Fails::Always, odd: true, gate: None, ..*work };
    }
}

/// How the attempts of a function are numbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attempts {
    /// By nobody: there is only one.
    Single,
    /// By a retry that hears of every failure.
    Heard,
    /// By a retry from which something further in keeps failures.
    Kept,
}

impl Attempts {
    fn inside(self, wrap: Wrap) -> Self {
        match (wrap, self) {
            (Wrap::Retry(_), _) => Self::Heard,
            (Wrap::Isolation, Self::Heard) => Self::Kept,
            (Wrap::Isolation | Wrap::Timing, it) => it,
        }
    }

    fn through(self, chain: &[Wrap]) -> Self {
        chain.iter().fold(self, |it, wrap| it.inside(*wrap))
    }

    fn collected(self, collect: bool) -> Self {
        if collect { self.inside(Wrap::Isolation) } else { self }
    }
}

/// Checks whether the end of a graph is the same wherever it is resumed, by the rules of the specification.
///
/// - Attempts begin anew on a resume (pipeline-utilities §10.6). A function that fails in the first attempts of
///   something around it, and whose failure does not reach that, would end otherwise: such a node is not deterministic.
/// - Two retries in a chain, and a cycle whose function is done by a suspension, are left out: the former tests nothing
///   new, the latter has no end.
pub(crate) fn is_sound(plan: &Plan) -> bool {
    is_sound_in(plan, Attempts::Single)
}

fn is_sound_in(plan: &Plan, attempts: Attempts) -> bool {
    let retries = |chain: &[Wrap]| chain.iter().filter(|it| matches!(it, Wrap::Retry(_))).count();
    let work = |work: &Work, attempts: Attempts| {
        !matches!((work.fails, attempts), (Fails::Before(_), Attempts::Kept))
    };
    !plan.nodes.is_empty()
        && plan.nodes.iter().all(|node| {
            let chain = plan.chain(node);
            let attempts = attempts.through(&chain);
            let inside = match &node.kind {
                Kind::Work(it) => work(it, attempts) && !(node.turns() && it.gate == Some(Gate::Done)),
                Kind::Sub(inner) => is_sound_in(inner, attempts),
                Kind::Fan(fan) => {
                    let attempts = attempts.collected(fan.collect).through(&fan.chain);
                    retries(&fan.chain) < 2 && is_sound_in(&fan.inner, attempts)
                }
                Kind::Fork(fork) => fork.branches.iter().all(|it| {
                    let attempts = attempts.collected(fork.collect).through(&it.chain);
                    retries(&it.chain) < 2
                        && match &it.doing {
                            Doing::Call(it) => work(it, attempts),
                            Doing::Graph(plan) => is_sound_in(plan, attempts),
                        }
                }),
            };
            retries(&chain) < 2 && inside
        })
}
