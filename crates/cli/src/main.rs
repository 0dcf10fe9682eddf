//! The `upbeat` command: what it does is in the library beside it.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    upbeat_cli::main()
}
