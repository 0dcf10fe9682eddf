//! Translates the peers' interface files, and a program of ours over UCX, where their compilers are installed. A peer
//! whose compiler is missing is left out, and the program says so.

use std::path::Path;
use std::process::Command;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rustc-check-cfg=cfg(has_protoc, has_capnp)");
    // Cargo runs this again when one of these has changed, or when the path to the compilers has.
    for path in ["build.rs", "proto", "schema", "ucx"] {
        println!("cargo::rerun-if-changed={path}");
    }
    println!("cargo::rerun-if-env-changed=PATH");
    println!("cargo::rerun-if-env-changed=PROTOC");
    if is_there(&std::env::var("PROTOC").unwrap_or_else(|_| "protoc".into())) {
        println!("cargo::rustc-cfg=has_protoc");
        tonic_prost_build::configure()
            .bytes(".")
            .compile_protos(&["proto/echo.proto"], &["proto"])?;
    } else {
        println!(
            "cargo::warning=tonic is left out: there is no `protoc` (dev/bench/peers/prepare)"
        );
    }
    if is_there("capnp") && Path::new(STREAM).exists() {
        println!("cargo::rustc-cfg=has_capnp");
        capnpc::CompilerCommand::new()
            .src_prefix("schema")
            .default_parent_module(vec!["peers".into(), "capnp".into()])
            .file("schema/echo.capnp")
            .run()?;
    } else {
        println!("cargo::warning=capnp-rpc is left out: `capnp` or {STREAM} is missing");
    }
    if is_there("cc") && Path::new(UCX).exists() {
        let program = Path::new(&std::env::var("OUT_DIR")?).join("ucx-get");
        let mut compiler = Command::new("cc");
        compiler.args(["-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror", "-o"]);
        compiler.arg(&program).args(["ucx/get.c", "-lucp", "-lucs"]);
        if !compiler.status()?.success() {
            return Err("ucx/get.c could not be built".into());
        }
        println!("cargo::rustc-env=UPBEAT_UCX_GET={}", program.display());
    } else {
        println!("cargo::warning=the reads of UCX are left out: `cc` or {UCX} is missing");
    }
    Ok(())
}

/// The header of UCX's upper layer.
const UCX: &str = "/usr/include/ucp/api/ucp.h";

/// The file that declares streaming methods. The compiler finds it there by itself.
const STREAM: &str = "/usr/include/capnp/stream.capnp";

fn is_there(tool: &str) -> bool {
    Command::new(tool).arg("--version").output().is_ok_and(|output| output.status.success())
}
