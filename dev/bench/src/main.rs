//! Measurement for the developers of Upbeat: what it does is in the library beside it.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    bench::main()
}
