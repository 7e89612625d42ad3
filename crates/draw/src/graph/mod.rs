//! Pictures of compiled graphs.

mod board;
mod dot;
mod legend;
mod mermaid;
mod scene;
mod script;
mod svg;

use singletree_engine::GraphOutline;

/// A picture of a compiled graph: nodes by their kind, edges, entry and end, and nested graphs as boxes in boxes.
///
/// ```
/// use singletree_draw::GraphPicture;
/// # use singletree_engine::{END, FieldSpec, Graph, StateSchema, FieldShape, FieldContent, StateUpdate};
/// # let schema = StateSchema::new("s", vec![FieldSpec::new("n", FieldShape::Int, FieldContent::from_json(0.into()))]);
/// # let graph = Graph::builder_with(schema)
/// #     .node("ask", |_| async { Ok(StateUpdate::new()) })
/// #     .edge("ask", END)
/// #     .entry("ask")
/// #     .compile()?;
/// let outline = graph.outline();
/// let picture = GraphPicture::new("my agent", &outline);
/// assert!(picture.render_mermaid().starts_with("flowchart TD\n"));
/// assert!(picture.render_svg().starts_with("<svg "));
/// # Ok::<(), singletree_engine::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct GraphPicture<'a> {
    title: &'a str,
    outline: &'a GraphOutline,
    live: Option<&'a str>,
}

impl<'a> GraphPicture<'a> {
    /// Begins a picture under a title.
    #[must_use]
    pub fn new(title: &'a str, outline: &'a GraphOutline) -> Self {
        Self { title, outline, live: None }
    }

    /// Lights one of the graph's own nodes in the SVG: the one that works now.
    #[must_use]
    pub fn with_live_node(mut self, node: Option<&'a str>) -> Self {
        self.live = node;
        self
    }

    /// Draws it as a flowchart for Mermaid.
    #[must_use]
    pub fn render_mermaid(&self) -> String {
        mermaid::draw_outline(self.outline)
    }

    /// Draws it as a directed graph in the language of Graphviz.
    #[must_use]
    pub fn render_dot(&self) -> String {
        dot::draw_outline(self.title, self.outline)
    }

    /// Draws it as an SVG that stands alone.
    #[must_use]
    pub fn render_svg(&self) -> String {
        svg::draw_outline(self.title, self.outline, self.live)
    }
}
