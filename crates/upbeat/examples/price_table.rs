//! A table of 10,000 rows that one process writes and others read, in shared memory. In two terminals:
//!
//! ```text
//! cargo run --release -p upbeat --example price_table -- writer
//! cargo run --release -p upbeat --example price_table -- reader
//! ```
//!
//! The writer does nothing for its readers. `upbeat read default 'prices/table.rows[7]'` shows a row of it too.
#![forbid(unsafe_code)]

use std::error::Error;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};
use upbeat::export::Export;
use upbeat::{Import, Node, Shared};

const ROWS: usize = 10_000;
/// The difference of ask and bid, which a reader checks: a mixture of two updates has another one.
const SPREAD: f64 = 0.02;
/// The rows that the writer updates before it pauses.
const BATCH: usize = 200;
const PAUSE: Duration = Duration::from_millis(1);
/// The time between two frames of the reader.
const FRAME: Duration = Duration::from_millis(250);

const HELP: &str = "\
A table of prices that one process writes and others read, in shared memory.

Usage: price_table writer [--seconds N]
       price_table reader [--seconds N] [--rows N]

  --seconds N  end after so many seconds (writer and reader end at ctrl-c otherwise)
  --rows N     show so many of the 10,000 rows (12)
  --help       print this
";

/// The exported value.
#[derive(Shared)]
struct Table {
    /// The updates since the beginning.
    updates: u64,
    rows: [Row; ROWS],
}

#[derive(Clone, Copy, Shared)]
struct Row {
    bid: f64,
    ask: f64,
    updates: u32,
}

impl Row {
    /// Returns a row with a price.
    fn new(price: f64, updates: u32) -> Row {
        Row { bid: price, ask: price + SPREAD, updates }
    }
}

struct Options {
    is_writer: bool,
    lasts: Duration,
    rows: usize,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let ended = match options(&arguments) {
        Ok(Some(options)) if options.is_writer => write(&options),
        Ok(Some(options)) => read(&options),
        Ok(None) => return print!("{HELP}"),
        Err(error) => Err(error.into()),
    };
    if let Err(error) = ended {
        eprintln!("price_table: {error}");
        std::process::exit(1);
    }
}

/// Returns what the user wants, or `None` if the user asks for help.
fn options(arguments: &[String]) -> Result<Option<Options>, String> {
    let mut options = Options { is_writer: false, lasts: Duration::MAX, rows: 12 };
    let mut rest = arguments.iter().map(String::as_str);
    match rest.next() {
        Some("writer") => options.is_writer = true,
        Some("reader") => {}
        Some("--help" | "-h") => return Ok(None),
        _ => return Err("say `writer` or `reader`; try --help".to_owned()),
    }
    while let Some(option) = rest.next() {
        let mut number = || {
            let text = rest.next().ok_or_else(|| format!("`{option}` needs a number"))?;
            text.parse().map_err(|_| format!("`{text}` is no number"))
        };
        match option {
            "--seconds" => options.lasts = Duration::from_secs(number()?),
            "--rows" if !options.is_writer => options.rows = (number()? as usize).clamp(1, ROWS),
            "--help" | "-h" => return Ok(None),
            other => return Err(format!("`{other}` is not understood; try --help")),
        }
    }
    Ok(Some(options))
}

/// Exports the table, and updates random rows.
fn write(options: &Options) -> Result<(), Box<dyn Error>> {
    let node = Node::new("prices")?;
    let rows = std::array::from_fn(|index| Row::new(index as f64, 0));
    let table = node.export("table", Table { updates: 0, rows })?;
    println!("ready: `prices/table` has {ROWS} rows; ctrl-c ends it");
    node.block_on(until_ctrl_c(options.lasts, async {
        let mut random = 1;
        loop {
            update(&table, &mut random);
            upbeat::sleep(PAUSE).await;
        }
    }))?;
    node.shut_down(Duration::from_secs(1));
    Ok(())
}

fn update(table: &Export<Table>, random: &mut u64) {
    for _ in 0..BATCH {
        *random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let index = (*random >> 33) as usize % ROWS;
        let price = (*random >> 44) as f64 / 100.0;
        // A reader finds the old row or the new one.
        table.rows().index(index).update(|row| {
            let new = Row::new(price, row.updates().get() + 1);
            row.bid().set(new.bid);
            row.ask().set(new.ask);
            row.updates().set(new.updates);
        });
    }
    table.updates().set(table.updates().get() + BATCH as u64);
}

/// Shows some rows again and again.
fn read(options: &Options) -> Result<(), Box<dyn Error>> {
    // Several readers may run at once.
    let node = Node::client()?;
    let mut reads = 0;
    let ended = node.block_on(async {
        let table = node.import::<Table>("prices/table").await?;
        until_ctrl_c(options.lasts, async {
            loop {
                show(&table, options.rows, &mut reads).await?;
                upbeat::sleep(FRAME).await;
            }
        })
        .await
    });
    ended?;
    println!("{reads} rows were read, and each was whole");
    Ok(())
}

/// Reads the whole table row by row, checks each row, and draws some of them.
async fn show(table: &Import<Table>, shown: usize, reads: &mut u64) -> Result<(), Box<dyn Error>> {
    let began = Instant::now();
    let mut text = String::from("   row         bid         ask   updates\n");
    for index in 0..ROWS {
        let row = whole_row(table, index).await?;
        *reads += 1;
        if index.is_multiple_of(ROWS.div_ceil(shown)) {
            text +=
                &format!("{index:>6}  {:>10.2}  {:>10.2}  {:>8}\n", row.bid, row.ask, row.updates);
        }
    }
    let (took, updates) = (began.elapsed(), table.updates().read().await?);
    let each = took.as_nanos() / ROWS as u128;
    text += &format!("{updates} updates; {ROWS} rows read in {took:.0?}, {each} ns each\n");
    let mut to = std::io::stdout();
    if to.is_terminal() && *reads > ROWS as u64 {
        // The frame is drawn over the last one.
        write!(to, "\x1b[{}A", text.lines().count())?;
    }
    to.write_all(text.as_bytes())?;
    Ok(to.flush()?)
}

/// Reads a row, and checks that it is as one update has left it. The read takes no message, unless the writer is on
/// another host, or updates this row at each attempt.
async fn whole_row(table: &Import<Table>, index: usize) -> Result<Row, Box<dyn Error>> {
    let row = table.rows().index(index).read().await?;
    match (row.ask - row.bid - SPREAD).abs() < SPREAD / 4.0 {
        true => Ok(row),
        false => Err(format!("row {index} is torn: {} to {}", row.bid, row.ask).into()),
    }
}

/// Runs a future for so long, or until ctrl-c.
async fn until_ctrl_c(
    lasts: Duration,
    work: impl Future<Output = Result<(), Box<dyn Error>>>,
) -> Result<(), Box<dyn Error>> {
    let work: std::pin::Pin<Box<dyn Future<Output = _>>> = Box::pin(async {
        match upbeat::within(lasts, work).await {
            Ok(done) => done,
            Err(_) => Ok(()),
        }
    });
    upbeat::race([work, Box::pin(async { Ok(upbeat::ctrl_c().await?) })]).await
}
