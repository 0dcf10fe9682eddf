//! Handles: calls from any thread and any runtime, and what is left when a handle is gone.

mod common;

use common::work::WorkHandle;

/// A handle may go to any thread, and be in several at once.
#[test]
fn goes_anywhere() {
    const fn anywhere<T: Send + Sync + Clone + 'static>() {}
    const { anywhere::<WorkHandle>() }
}
