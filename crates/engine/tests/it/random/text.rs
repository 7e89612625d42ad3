//! Graphs as text, short enough to read after a failure.

use std::fmt::{self, Display};

use super::plan::{Branch, Doing, Fails, Gate, Jump, Kind, Node, Plan, When, Work, Wrap};

impl Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(f, self, 0)
    }
}

fn write(f: &mut fmt::Formatter<'_>, plan: &Plan, depth: usize) -> fmt::Result {
    let indent = "  ".repeat(depth);
    writeln!(f, "{indent}graph of {} items{}", plan.items, Chain(&plan.around))?;
    plan.nodes.iter().try_for_each(|node| write_node(f, node, depth + 1))
}

fn write_node(f: &mut fmt::Formatter<'_>, node: &Node, depth: usize) -> fmt::Result {
    let indent = "  ".repeat(depth);
    write!(f, "{indent}{}", node.name())?;
    match &node.kind {
        Kind::Work(work) => write!(f, "{work}")?,
        Kind::Sub(_) => {}
        Kind::Fan(fan) => {
            match fan.count {
                Some(count) => write!(f, " {count} times")?,
                None => f.write_str(" over items")?,
            }
            if let Some(limit) = fan.limit {
                write!(f, ", {limit} at once")?;
            }
            f.write_str(if fan.collect { ", collects" } else { "" })?;
            write!(f, ", each{}", Chain(&fan.chain))?;
        }
        Kind::Fork(fork) => f.write_str(if fork.collect { " collects" } else { "" })?,
    }
    write!(f, "{}", Chain(&node.chain))?;
    match node.jump {
        Jump::None => writeln!(f)?,
        Jump::Back { to, until } => writeln!(f, " -> back to {to} until {until}")?,
        Jump::Skip => writeln!(f, " -> skips")?,
    }
    match &node.kind {
        Kind::Work(_) => Ok(()),
        Kind::Sub(plan) => write(f, plan, depth + 1),
        Kind::Fan(fan) => write(f, &fan.inner, depth + 1),
        Kind::Fork(fork) => fork.branches.iter().try_for_each(|it| write_branch(f, it, depth + 1)),
    }
}

fn write_branch(f: &mut fmt::Formatter<'_>, branch: &Branch, depth: usize) -> fmt::Result {
    let when = match branch.when {
        When::Always => "",
        When::Never => " never",
        When::Odd => " when odd",
    };
    write!(f, "{}branch {}{when}", "  ".repeat(depth), branch.name())?;
    match &branch.doing {
        Doing::Call(work) => writeln!(f, "{work}{}", Chain(&branch.chain)),
        Doing::Graph(plan) => {
            writeln!(f, "{}", Chain(&branch.chain))?;
            write(f, plan, depth + 1)
        }
    }
}

impl Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let odd = if self.odd { " where odd" } else { "" };
        match self.fails {
            Fails::Never => {}
            Fails::Before(attempt) => write!(f, " fails before attempt {attempt}{odd}")?,
            Fails::Always => write!(f, " fails always{odd}")?,
        }
        if self.takes > 0 {
            write!(f, " takes {} ms", self.takes)?;
        }
        match self.gate {
            None => {}
            Some(Gate::Done) => f.write_str(" asks and is done")?,
            Some(Gate::Again(needs)) => write!(f, " asks and runs again, {needs} answers")?,
        }
        self.items.map_or(Ok(()), |items| write!(f, " sets {items} items"))
    }
}

/// Middleware, outermost first.
struct Chain<'a>(&'a [Wrap]);

impl Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|it| match it {
            Wrap::Retry(attempts) => write!(f, " [retry {attempts}]"),
            Wrap::Isolation => f.write_str(" [isolation]"),
            Wrap::Timing => f.write_str(" [timing]"),
        })
    }
}
