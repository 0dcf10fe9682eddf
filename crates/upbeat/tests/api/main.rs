//! The public interface: services in every form, types that travel, documents and examples that are true.

#[path = "../common/mod.rs"]
mod common;

mod glob;
mod programs;
mod readme;
pub mod service_forms;
mod types;
mod ui;
mod wire_doc;

use upbeat_memory::allocator::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator::new();
