//! Serves the shop over HTTP and as the node `shop`: `cargo run --release -p upbeat-http [ADDRESS]`, then
//! `curl localhost:8080/stock`, `curl localhost:8080/list` and `curl -X POST localhost:8080/buy/3`.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use tokio::net::TcpListener;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let listener = match TcpListener::bind(&address).await {
        Ok(listener) => listener,
        Err(error) => {
            eprintln!("http: nobody can listen at {address}: {error}");
            return ExitCode::FAILURE;
        }
    };
    println!("http://{address}/stock");
    let end = async {
        // The server runs until it is killed if the signal cannot be waited for.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    match upbeat_http::serve("shop", None, listener, 100, end).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("http: {error}");
            ExitCode::FAILURE
        }
    }
}
