//! Pictures of graphs and of turns, as text that other tools read and as SVG that people look at.
//!
//! [`GraphPicture`] draws the outline of a compiled graph, [`TimelinePicture`] the stored records of a turn. Nothing
//! here runs or reads anything: equal data give equal pictures, byte by byte.
//!
//! [`visible_text`] and [`visible_value`] make text of others fit to be read: nothing in it hides.
//!
//! An SVG stands alone: no script, no link, no font of its own. It follows the reader's choice of light or dark, and
//! whatever a name contains is text in it, never markup.

mod flow;
mod graph;
mod label;
mod svg;
mod timeline;

pub use graph::GraphPicture;
pub use singletree_narration::{visible_json, visible_text, visible_value};
pub use timeline::{TextLine, TextTone, TimelinePicture, WaterfallPicture, WaterfallRow, WaterfallRowKind};
