//! Calls that are slow for four reasons, to be found with `upbeat bill`. In two terminals:
//!
//! ```text
//! cargo run --release -p upbeat --example slow_calls
//! cargo run --release -- bill --html page.html
//! ```
//!
//! Node `teller` calls four others, all of them threads of this process: `bank`, whose accounts are
//! locked now and then; `sums`, whose handler does not pause; `sleeper`, which has to be woken; and
//! `slowpoke`, which does not look for its messages for so long that there is no room for more.
#![forbid(unsafe_code)]

#[path = "slow_calls/servers.rs"]
mod servers;

use servers::{BankClient, DiaryClient, EchoClient, Servers, SumsClient};
use std::error::Error;
use std::time::{Duration, Instant};
use upbeat::{CallError, Node, Waiting};

const HELP: &str = "\
Calls that are slow for four reasons, to be found with `upbeat bill`.

Usage: slow_calls [--seconds N]

  --seconds N  call for so long (60)
  --help       print this

While it runs, in another terminal:

  cargo run --release -- bill --html page.html
";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let ended = match seconds(&arguments) {
        Ok(Some(seconds)) => call_for(Duration::from_secs(seconds)),
        Ok(None) => return print!("{HELP}"),
        Err(error) => Err(error.into()),
    };
    if let Err(error) = ended {
        eprintln!("slow_calls: {error}");
        std::process::exit(1);
    }
}

/// For how long to call; None if help is asked for.
fn seconds(arguments: &[String]) -> Result<Option<u64>, String> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [] => Ok(Some(60)),
        ["--help" | "-h"] => Ok(None),
        ["--seconds", number] => match number.parse() {
            Ok(seconds) => Ok(Some(seconds)),
            Err(_) => Err(format!("`{number}` is no number of seconds")),
        },
        _ => Err(format!("`{}` is not understood; try --help", arguments.join(" "))),
    }
}

/// Calls slowly for so long.
pub(crate) fn call_for(lasts: Duration) -> Result<(), Box<dyn Error>> {
    let began = Instant::now();
    let _servers = Servers::start()?;
    let teller = Node::builder("teller").waiting(Waiting::Polling).build()?;
    teller.block_on(async {
        let clients = Clients {
            bank: teller.connect("bank").await?,
            sums: teller.connect("sums").await?,
            echo: teller.connect("sleeper").await?,
            diary: teller.connect("slowpoke").await?,
        };
        println!(
            "ready: calls of process {} are slow until {} s have passed",
            std::process::id(),
            lasts.as_secs()
        );
        while began.elapsed() < lasts {
            clients.round(&teller).await?;
        }
        Ok(())
    })
}

struct Clients {
    bank: BankClient,
    sums: SumsClient,
    echo: EchoClient,
    diary: DiaryClient,
}

impl Clients {
    /// All kinds of calls.
    async fn round(&self, teller: &Node) -> Result<(), CallError> {
        // There are many of these, so one in three is enough.
        teller.set_sampling(3);
        for number in 0..2_000 {
            self.bank.transfer(number, number + 1, 5).await?;
        }
        // And few of the others.
        teller.set_sampling(1);
        for _ in 0..20 {
            self.sums.sum(vec![1, 2, 3]).await?;
        }
        for _ in 0..20 {
            upbeat::sleep(Duration::from_micros(200)).await;
            self.echo.ping().await?;
        }
        for _ in 0..200 {
            self.diary.note("dear diary, ".repeat(2_000)).await?;
        }
        Ok(())
    }
}
