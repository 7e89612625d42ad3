//! The page: a chat and an inspector, as plain files in the program's binary, and the routes that only the page uses.

mod files;
mod inside;
mod sign_in;

use crate::native;
use crate::section::ProtocolSection;

/// Returns the section of the page.
pub(crate) fn section() -> ProtocolSection {
    let mut routes = files::routes();
    routes.extend(inside::routes());
    routes.extend(sign_in::routes());
    ProtocolSection::new("page", native::render, routes)
}
