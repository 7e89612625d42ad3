//! The spans of an invocation that have begun and not ended, by their place.

use std::collections::HashMap;
use std::sync::Arc;

use singletree_engine::LineageBoundary;
use singletree_env::Timestamp;

use crate::attribute::Attributes;
use crate::span::{SpanStatus, TraceSpan};

/// A place in a run: the path to a node, and the boundaries to it. With one boundary less than the path has names it is
/// the node; with as many it is the inner run that was entered there. There is at most one open span at a place, since
/// attempts follow each other.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SpanPlace {
    pub(crate) namespace: Vec<Arc<str>>,
    pub(crate) lineage: Vec<LineageBoundary>,
}

impl SpanPlace {
    pub(crate) fn new(namespace: &[Arc<str>], lineage: &[LineageBoundary]) -> Self {
        Self { namespace: namespace.to_vec(), lineage: lineage.to_vec() }
    }

    /// Returns the inner runs around this place, innermost first; for an inner run without itself.
    fn enclosing_units(&self) -> impl Iterator<Item = Self> {
        let around = self.namespace.len() - 1;
        (1..=around).rev().map(|depth| Self::new(&self.namespace[..depth], &self.lineage[..depth]))
    }

    /// Returns the inner run that was entered here, where this is one.
    fn own_unit(&self) -> Option<Self> {
        (self.lineage.len() == self.namespace.len()).then(|| self.clone())
    }

    /// Tells whether another place is inside of this node.
    fn contains(&self, other: &Self) -> bool {
        other.lineage.len() >= self.namespace.len()
            && other.namespace.starts_with(&self.namespace)
            && other.lineage.starts_with(&self.lineage)
    }

    /// Tells whether a fan-out or branches are on the way to this place.
    pub(crate) fn is_concurrent(&self) -> bool {
        self.lineage.iter().any(|boundary| *boundary != LineageBoundary::Subgraph)
    }
}

/// A span that has not ended.
#[derive(Debug)]
pub(crate) struct OpenSpan {
    pub(crate) span: TraceSpan,
    /// The spans that begin and end with it, from the inside out: of a detached unit, the root of its trace, and the
    /// span of its dispatch in the trace around it.
    pub(crate) companions: Vec<TraceSpan>,
    /// Whether it is of a branch that is a function: its node has no span of its own.
    pub(crate) is_function: bool,
    /// Whether it was told how it ended: spans of branches end with the span of their node.
    pub(crate) is_settled: bool,
}

impl OpenSpan {
    pub(crate) fn new(span: TraceSpan) -> Self {
        Self { span, companions: Vec::new(), is_function: false, is_settled: false }
    }

    pub(crate) fn spans_mut(&mut self) -> impl Iterator<Item = &mut TraceSpan> {
        std::iter::once(&mut self.span).chain(&mut self.companions)
    }

    fn end(mut self, at: Timestamp) -> impl Iterator<Item = TraceSpan> {
        self.spans_mut().for_each(|span| span.ended_at = at);
        std::iter::once(self.span).chain(self.companions)
    }
}

/// The open spans of an invocation, and those that ended.
#[derive(Debug, Default)]
pub(crate) struct OpenSpans {
    places: HashMap<SpanPlace, OpenSpan>,
    pub(crate) invocation: Option<OpenSpan>,
    pub(crate) ended: Vec<TraceSpan>,
    next_order: u64,
}

impl OpenSpans {
    /// Numbers a span that begins.
    pub(crate) fn take_order(&mut self) -> u64 {
        self.next_order += 1;
        self.next_order - 1
    }

    pub(crate) fn open(&mut self, place: SpanPlace, span: OpenSpan, at: Timestamp) {
        if let Some(forgotten) = self.places.insert(place, span) {
            // Its end was not reported, because it was dropped.
            self.ended.extend(forgotten.end(at));
        }
    }

    pub(crate) fn get_mut(&mut self, place: &SpanPlace) -> Option<&mut OpenSpan> {
        self.places.get_mut(place)
    }

    /// Ends the span of a place, after those inside of it: branches in the order of their declaration, others in the
    /// order in which they began, the inner ones first.
    pub(crate) fn close(&mut self, place: &SpanPlace, at: Timestamp, branches: &[Arc<str>]) {
        let mut inside: Vec<_> = self.places.keys().filter(|other| place.contains(other)).cloned().collect();
        let declared = |other: &SpanPlace| match other.lineage.get(place.lineage.len()) {
            Some(LineageBoundary::Branch(name)) => branches.iter().position(|branch| branch == name),
            _ => None,
        };
        inside.sort_by_key(|other| {
            let depth = other.namespace.len() + other.lineage.len();
            (declared(other), std::cmp::Reverse(depth), self.places[other].span.order)
        });
        inside.retain(|other| other != place);
        for place in inside.iter().chain([place]) {
            if let Some(span) = self.places.remove(place) {
                self.ended.extend(span.end(at));
            }
        }
    }

    /// Ends everything that is open, the inner spans first and the invocation last.
    pub(crate) fn close_all(&mut self, at: Timestamp) {
        let mut left: Vec<_> = std::mem::take(&mut self.places).into_iter().collect();
        let depth = |place: &SpanPlace| place.namespace.len() + place.lineage.len();
        left.sort_by_key(|(place, span)| (std::cmp::Reverse(depth(place)), span.span.order));
        self.ended.extend(left.into_iter().flat_map(|(_, span)| span.end(at)));
        self.ended.extend(self.invocation.take().into_iter().flat_map(|span| span.end(at)));
    }

    /// Returns the span of the invocation that a call is part of; none for one in a detached unit, which has a trace of its own.
    pub(crate) fn invocation_around(&mut self, place: &SpanPlace) -> Option<&mut OpenSpan> {
        let trace_id = self.enclosing(place)?.span.trace_id;
        self.invocation.as_mut().filter(|invocation| invocation.span.trace_id == trace_id)
    }

    /// Returns the span around a node or an inner run: of the innermost inner run that it is part of, or of the
    /// invocation (§4.3).
    pub(crate) fn enclosing(&self, place: &SpanPlace) -> Option<&OpenSpan> {
        let unit = place.enclosing_units().find_map(|unit| self.places.get(&unit));
        unit.or(self.invocation.as_ref())
    }

    /// Returns the span of an inner run's node, or what is around it: containers have spans, plain subgraphs have none
    /// beside the inner run's own.
    pub(crate) fn dispatcher(&self, unit: &SpanPlace) -> Option<&OpenSpan> {
        self.places.get(&Self::node_of(unit)).or_else(|| self.enclosing(unit))
    }

    /// Returns the place of the node at which an inner run was entered.
    pub(crate) fn node_of(unit: &SpanPlace) -> SpanPlace {
        SpanPlace::new(&unit.namespace, &unit.lineage[..unit.namespace.len() - 1])
    }

    /// Returns the span under which a call is: that of the calling node, or, where it is not open, of the innermost
    /// inner run around it, never of a node that dispatches several (§5.5).
    pub(crate) fn caller(&self, place: &SpanPlace) -> Option<&OpenSpan> {
        if let Some(unit) = place.own_unit() {
            return self.places.get(&unit).or_else(|| self.enclosing(place));
        }
        self.places.get(place).or_else(|| self.enclosing(place))
    }

    /// Sets attributes on the open spans that see an addition made at a place: its own span, and those of the inner runs
    /// around it; the invocation's only where no siblings would see it there (§3.4).
    pub(crate) fn augment(&mut self, place: &SpanPlace, entries: &Attributes) {
        let own = place.own_unit().unwrap_or_else(|| place.clone());
        let places: Vec<_> = std::iter::once(own).chain(place.enclosing_units()).collect();
        for place in places {
            if let Some(span) = self.places.get_mut(&place).filter(|span| !span.is_settled) {
                span.spans_mut().for_each(|span| set_all(&mut span.attributes, entries));
            }
        }
        if let Some(invocation) = self.invocation.as_mut().filter(|_| !place.is_concurrent()) {
            set_all(&mut invocation.span.attributes, entries);
        }
    }

    /// Notes which node of the outermost graph of a trace ended last.
    pub(crate) fn note_final_node(&mut self, place: &SpanPlace) {
        use crate::span::SpanSubject;
        let Some(name) = place.namespace.last() else { return };
        let owner = match place.enclosing_units().next() {
            None => self.invocation.as_mut().map(|span| &mut span.span),
            Some(unit) => {
                let detached = |span: &&mut TraceSpan| matches!(span.subject, SpanSubject::Invocation { .. });
                self.places.get_mut(&unit).and_then(|open| open.companions.iter_mut().find(detached))
            }
        };
        if let Some(SpanSubject::Invocation { final_node, .. }) = owner.map(|span| &mut span.subject) {
            *final_node = Some(name.clone());
        }
    }
}

fn set_all(attributes: &mut Attributes, entries: &Attributes) {
    attributes.extend(entries.iter().map(|(name, value)| (name.clone(), value.clone())));
}

/// Sets a span to have failed. Its description is the category of graph-engine §4; its attribute is the most precise
/// category, as §5.2 has it for a node whose own error has one.
pub(crate) fn set_failed(span: &mut TraceSpan, category: &str, precise_category: &str, message: &str) {
    use crate::attribute::SetAttribute;
    span.status = SpanStatus::Error { description: Some(category.to_owned()) };
    span.attributes.set("openarmature.error.category", precise_category);
    span.exception = Some(crate::span::SpanException {
        exception_type: precise_category.to_owned(),
        message: message.to_owned(),
    });
}
