//! A service with layers around it: authentication by a token that travels with each call, a log of what becomes of
//! the calls, and a limit on how many run at once. Run it with `cargo run --example layers`.

use serde::{Deserialize, Serialize};
use std::time::Duration;
use upbeat::{CallInfo, Layer, Next, Node, Outcome, Refusal};

/// The name of the caller, which travels with each of its calls.
#[derive(Serialize, Deserialize, upbeat::Wire)]
struct Token(String);

impl upbeat::Context for Token {
    const KEY: &'static str = "token";
}

#[upbeat::service]
trait Vault {
    async fn open(&self, door: u32) -> Result<String, String>;
}

struct Doors;

impl Vault for Doors {
    async fn open(&self, door: u32) -> Result<String, String> {
        // The context of the call is here as well.
        let Token(who) = upbeat::context().ok_or("nobody has asked")?;
        upbeat::sleep(Duration::from_millis(10)).await;
        if door > 3 {
            Err(format!("there is no door {door}"))
        } else {
            Ok(format!("gold for {who}"))
        }
    }
}

/// Lets those through who have a token.
struct Auth;

impl Layer for Auth {
    async fn around(&self, call: &CallInfo, next: Next<'_>) -> Result<(), Refusal> {
        match call.context::<Token>() {
            Some(Token(who)) if who == "alice" || who == "bob" => next.run().await,
            Some(Token(who)) => Err(Refusal::new(format!("{who} has no key"))),
            None => Err(Refusal::new("a token is needed")),
        }
    }
}

/// Prints what became of each call, and how long it took.
struct Log;

impl Layer for Log {
    fn ended(&self, call: &CallInfo, outcome: Outcome, took: Duration) {
        let peer = call.peer().unwrap_or("a handle");
        println!("{}.{} from {peer}: {outcome} after {took:.1?}", call.service(), call.method());
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let node = Node::builder("vault").local_only().build()?;
    // The first layer is the outermost one: the log sees what the authentication refuses.
    node.serve(VaultServer::new(Doors).layer(Log).layer(Auth).max_concurrent(2))?;
    node.block_on(async {
        let vault: VaultClient = node.connect("vault").await?;
        println!("{}", vault.open(1).with(&Token("alice".into())).await?);
        for token in ["bob", "mallory"] {
            if let Err(error) = vault.open(4).with(&Token(token.into())).await {
                println!("{token}: {error}");
            }
        }
        // Six calls, two at a time.
        let begun = std::time::Instant::now();
        let calls = (0..6).map(|door| vault.open(door).with(&Token("bob".into())));
        let opened = upbeat::all(calls).await.into_iter().filter(Result::is_ok).count();
        println!("{opened} doors in {:.0?}", begun.elapsed());
        Ok::<_, Box<dyn std::error::Error>>(())
    })
}
