//! An export that is not kept ends at once, and a lock that is not kept is given back at once.

#![deny(unused_must_use)]

use upbeat::Node;
use upbeat::export::{Export, ExportError, ExportGuard, GuardedExport};

fn export(node: &Node) -> Result<(), ExportError> {
    node.export("limit", 7_u64)?;
    node.export_guarded("rows", [0_u64; 16])?;
    Ok(())
}

fn pass(export: Export<u64>) -> Export<u64> {
    export
}

fn pass_guarded(export: GuardedExport<u64>) -> GuardedExport<u64> {
    export
}

fn pass_guard(guard: ExportGuard<'_, u64>) -> ExportGuard<'_, u64> {
    guard
}

async fn drops(export: Export<u64>, guarded: GuardedExport<u64>, guard: ExportGuard<'_, u64>) {
    pass(export);
    guarded.lock().await;
    pass_guarded(guarded);
    pass_guard(guard);
}

fn main() {}
