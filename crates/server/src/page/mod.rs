//! The page: a chat and an inspector, as plain files in the program's binary, and the routes that only the page uses.

mod files;
mod inside;
mod sign_in;

use tower_http::CompressionLevel;

use crate::native;
use crate::section::ProtocolSection;

/// Returns the section of the page.
pub(crate) fn build_section() -> ProtocolSection {
    let mut routes = files::file_routes();
    routes.extend(inside::inspector_routes());
    routes.extend(sign_in::sign_in_routes());
    // Its files are sent once to each browser, over slow networks too: a smaller file is worth a millisecond.
    ProtocolSection::new("page", native::render_problem, routes).with_compression(CompressionLevel::Default)
}
