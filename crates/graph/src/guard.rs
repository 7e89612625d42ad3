//! Panics of the application's functions become messages.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Returns the message of a panic.
fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text =
        panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("panicked: {}", text.unwrap_or("without a message"))
}

/// Runs a function of the application's; a panic becomes a message.
///
/// # Errors
/// The message of the panic.
///
/// Data that the function touched is not used again after a panic: the run ends, or the value is refused.
pub fn catch_panic<T>(function: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(function)).map_err(|error| panic_message(&*error))
}
