//! The `upbeat` command, whose code is in the library beside this file.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    upbeat_cli::main()
}
