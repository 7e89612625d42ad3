//! Random graphs as data: built by the engine, interpreted by the model, and made smaller after a failure.

/// A graph: nodes in a line, each of which leads to the next one, but for jumps.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    pub(crate) nodes: Vec<Node>,
    /// Around every node of the graph, outside of the node's own middleware.
    pub(crate) around: Vec<Wrap>,
    /// How many items the graph begins with.
    pub(crate) items: u8,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    /// Its own among all nodes and branches of the whole.
    pub(crate) id: u32,
    pub(crate) kind: Kind,
    /// The middleware around it, outermost first.
    pub(crate) chain: Vec<Wrap>,
    pub(crate) jump: Jump,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    Work(Work),
    Sub(Plan),
    Fan(Fan),
    Fork(Fork),
}

/// A function: it notes its effect, takes its time, fails or asks, and changes the state.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Work {
    pub(crate) fails: Fails,
    /// Whether it fails where `n` is odd only.
    pub(crate) odd: bool,
    /// In milliseconds of a clock that is set forward.
    pub(crate) takes: u8,
    pub(crate) gate: Option<Gate>,
    /// How many items it leaves behind.
    pub(crate) items: Option<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) enum Fails {
    #[default]
    Never,
    /// In attempts before this one: a retry gets over it.
    Before(u32),
    Always,
}

/// A suspension.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Gate {
    /// Asks once, and is done by it.
    Done,
    /// Asks until there were so many answers, and runs again after each (`mark_node_completed(false)`).
    Again(u8),
}

/// Where a function leads, other than to the next node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Jump {
    None,
    /// Back to the node with this id, until the graph has turned so often: a cycle.
    Back {
        to: u32,
        until: u8,
    },
    /// Over the next node, where the state is even.
    Skip,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fan {
    pub(crate) inner: Plan,
    /// A number of instances, or one for each item.
    pub(crate) count: Option<u8>,
    pub(crate) limit: Option<u8>,
    pub(crate) collect: bool,
    /// Around each instance.
    pub(crate) chain: Vec<Wrap>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fork {
    pub(crate) branches: Vec<Branch>,
    pub(crate) collect: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Branch {
    pub(crate) id: u32,
    pub(crate) doing: Doing,
    pub(crate) when: When,
    pub(crate) chain: Vec<Wrap>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Doing {
    Call(Work),
    Graph(Plan),
}

/// The condition of a branch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum When {
    Always,
    Never,
    /// Where the state is odd.
    Odd,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Wrap {
    /// With so many attempts in all.
    Retry(u32),
    Isolation,
    Timing,
}

impl Node {
    pub(crate) fn name(&self) -> String {
        let letter = match self.kind {
            Kind::Work(_) => 'w',
            Kind::Sub(_) => 's',
            Kind::Fan(_) => 'f',
            Kind::Fork(_) => 'k',
        };
        format!("{letter}{}", self.id)
    }

    pub(crate) fn turns(&self) -> bool {
        matches!(self.jump, Jump::Back { .. })
    }

    /// The graphs directly inside.
    pub(crate) fn plans(&self) -> Vec<&Plan> {
        match &self.kind {
            Kind::Work(_) => Vec::new(),
            Kind::Sub(plan) => vec![plan],
            Kind::Fan(fan) => vec![&fan.inner],
            Kind::Fork(fork) => fork.branches.iter().filter_map(Branch::plan).collect(),
        }
    }
}

impl Branch {
    pub(crate) fn name(&self) -> String {
        match self.doing {
            Doing::Call(_) => format!("c{}", self.id),
            Doing::Graph(_) => format!("b{}", self.id),
        }
    }

    pub(crate) fn plan(&self) -> Option<&Plan> {
        match &self.doing {
            Doing::Call(_) => None,
            Doing::Graph(plan) => Some(plan),
        }
    }
}

impl Plan {
    /// Every function in it, however deep.
    pub(crate) fn works(&self) -> Vec<Work> {
        let mut found = Vec::new();
        for node in &self.nodes {
            match &node.kind {
                Kind::Work(work) => found.push(*work),
                Kind::Fork(fork) => found.extend(fork.branches.iter().filter_map(|it| match it.doing {
                    Doing::Call(work) => Some(work),
                    Doing::Graph(_) => None,
                })),
                Kind::Sub(_) | Kind::Fan(_) => {}
            }
            found.extend(node.plans().iter().flat_map(|it| it.works()));
        }
        found
    }

    /// The chain around a node, outermost first.
    pub(crate) fn chain(&self, node: &Node) -> Vec<Wrap> {
        self.around.iter().chain(&node.chain).copied().collect()
    }
}
