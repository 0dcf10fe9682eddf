//! Measurement for the developers of Upbeat: the library beside it has everything.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    bench::main()
}
