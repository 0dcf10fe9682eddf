//! Tests of the shop over HTTP and over Upbeat at once, and of a node that tokio drives.

use std::cell::Cell;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use upbeat::{CallError, Node, Waiting};
use upbeat_http::{Missing, ShopClient};

/// A directory for names, which is removed when the test ends.
struct Place(PathBuf);

impl Place {
    fn new(test: &str) -> Place {
        let name = format!("upbeat-http-{test}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Place(path)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A limit that no busy machine reaches.
const SOON: Duration = Duration::from_secs(20);

/// Runs a future on a runtime of one thread, and ends the process with a message when it blocks the thread for ever.
fn run<T>(what: impl Future<Output = T>) -> T {
    let (over, is_over) = std::sync::mpsc::channel::<()>();
    let watchdog = std::thread::spawn(move || {
        if is_over.recv_timeout(2 * SOON) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            eprintln!("the runtime's thread is kept for ever");
            std::process::abort();
        }
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let limited = async { tokio::time::timeout(SOON, what).await };
    let done = runtime.block_on(limited).expect("it hangs");
    drop(over);
    watchdog.join().unwrap();
    done
}

/// Returns the response of an HTTP server.
async fn ask(to: std::net::SocketAddr, method: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(to).await.unwrap();
    let request = format!("{method} {path} HTTP/1.1\r\nHost: shop\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[test]
fn a_shop_is_open_to_both() {
    let place = Place::new("both");
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (close, closed) = tokio::sync::oneshot::channel::<()>();
        let end = async { drop(closed.await) };
        let serving = upbeat_http::serve("shop", Some(place.0.clone()), listener, 10, end);
        let other = place.0.clone();
        let customers = async move {
            let stock = ask(address, "GET", "/stock").await;
            assert!(stock.ends_with("\r\n\r\n10"), "{stock}");
            let bought = ask(address, "POST", "/buy/3").await;
            assert!(
                bought.starts_with("HTTP/1.1 200") && bought.ends_with("\r\n\r\n7"),
                "{bought}"
            );
            // Another node, on a thread of its own.
            let typed = tokio::task::spawn_blocking(move || {
                let node = Node::builder("customer").directory(other).build().unwrap();
                node.block_on(async {
                    let shop: ShopClient = node.connect("shop").await.unwrap();
                    for left in (0..7).rev() {
                        assert_eq!(shop.buy(1).await, Ok(left));
                    }
                    shop.buy(1).await
                })
            });
            assert_eq!(typed.await.unwrap(), Err(CallError::Method(Missing { left: 0 })));
            let refused = ask(address, "POST", "/buy/1").await;
            assert!(refused.starts_with("HTTP/1.1 409"), "{refused}");
            assert!(refused.ends_with("there are only 0"), "{refused}");
            close.send(()).unwrap();
        };
        let (served, ()) = tokio::join!(serving, customers);
        served.unwrap();
    });
}

/// Reads a streamed response, once to its middle and once whole.
#[test]
fn a_list_is_a_stream() {
    const GOODS: u64 = 20_000;
    let place = Place::new("list");
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (close, closed) = tokio::sync::oneshot::channel::<()>();
        let end = async { drop(closed.await) };
        let serving = upbeat_http::serve("list", Some(place.0.clone()), listener, GOODS, end);
        let readers = async move {
            let mut left = TcpStream::connect(address).await.unwrap();
            left.write_all(b"GET /list HTTP/1.1\r\nHost: shop\r\n\r\n").await.unwrap();
            let mut begin = [0; 100];
            left.read_exact(&mut begin).await.unwrap();
            assert!(begin.starts_with(b"HTTP/1.1 200"));
            drop(left);
            let list = ask(address, "GET", "/list").await;
            let lines = list.lines().filter(|line| line.starts_with("number "));
            assert!(lines.eq((1..=GOODS).map(|number| format!("number {number}"))));
            close.send(()).unwrap();
        };
        let (served, ()) = tokio::join!(serving, readers);
        served.unwrap();
    });
}

/// A node's client, its tasks, its clock and tokio's clock are awaited in one another, by a node that sleeps
/// between them.
#[test]
fn calls_tasks_and_clocks_of_both_are_awaited() {
    for waiting in [Waiting::Adaptive, Waiting::Sleeping] {
        let place = Place::new(&format!("awaits-{waiting:?}"));
        let directory = place.0.clone();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let server = std::thread::spawn(move || {
            let node = Node::builder("far").directory(directory).build().unwrap();
            node.serve(upbeat_http::ShopServer::new(upbeat_http::Shelf::of(1000))).unwrap();
            ready.send(()).unwrap();
            while ended.try_recv() != Err(std::sync::mpsc::TryRecvError::Disconnected) {
                node.block_on(upbeat::sleep(Duration::from_millis(5)));
            }
        });
        is_ready.recv().unwrap();
        run(async {
            let builder = Node::builder("near").directory(&place.0).waiting(waiting);
            let node = builder.build().unwrap();
            let driven = upbeat::tokio_runtime::drive(&node, async {
                let shop: ShopClient = node.connect("far").await.unwrap();
                for left in (900..1000).rev() {
                    assert_eq!(shop.buy(1).await, Ok(left));
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
                upbeat::sleep(Duration::from_millis(20)).await;
                let done = Rc::new(Cell::new(0));
                let tasks: Vec<_> = (0..10)
                    .map(|_| {
                        let (shop, done) = (shop.clone(), Rc::clone(&done));
                        node.spawn(async move {
                            shop.buy(1).await.unwrap();
                            tokio::time::sleep(Duration::from_millis(5)).await;
                            shop.buy(1).await.unwrap();
                            done.set(done.get() + 1);
                        })
                    })
                    .collect();
                for task in tasks {
                    task.await.unwrap();
                }
                assert_eq!((done.get(), shop.stock().await), (10, Ok(880)));
                "done"
            });
            // The node does not hold up other tasks of the runtime.
            let mut ticks = 0;
            let beside = async {
                for _ in 0..50 {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    ticks += 1;
                }
            };
            let (driven, ()) = tokio::join!(driven, beside);
            assert_eq!((driven.unwrap(), ticks), ("done", 50));
        });
        drop(end);
        server.join().unwrap();
    }
}

/// A node with more work than it does in one turn goes on, and gives the runtime its turns meanwhile.
#[test]
fn one_that_is_never_done_goes_on_and_keeps_nobody_waiting() {
    run(async {
        let node = Node::builder("busy").local_only().build().unwrap();
        let turns = Rc::new(Cell::new(0));
        let counted = Rc::clone(&turns);
        let long = node.spawn(async move {
            for _ in 0..1000 {
                counted.set(counted.get() + 1);
                upbeat::yield_now().await;
            }
        });
        // No other task wakes the node.
        upbeat::tokio_runtime::drive(&node, long).await.unwrap().unwrap();
        assert_eq!(turns.get(), 1000);
        let endless = node.spawn(async {
            loop {
                upbeat::yield_now().await;
            }
        });
        let ticks = async {
            for _ in 0..50 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            endless.cancel();
        };
        upbeat::tokio_runtime::drive(&node, ticks).await.unwrap();
    });
}

/// A message that comes while the node registers its wakeup with the runtime is not overlooked.
#[test]
fn a_node_that_sleeps_hears_each_of_many_messages() {
    let place = Place::new("hears");
    let directory = place.0.clone();
    let (ready, is_ready) = std::sync::mpsc::channel();
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let server = std::thread::spawn(move || {
        let node = Node::builder("told").directory(directory).build().unwrap();
        node.serve(upbeat_http::ShopServer::new(upbeat_http::Shelf::of(1 << 40))).unwrap();
        ready.send(()).unwrap();
        drop(node.block_on(ended));
    });
    is_ready.recv().unwrap();
    run(async {
        let builder = Node::builder("hearer").directory(&place.0).waiting(Waiting::Sleeping);
        let node = builder.build().unwrap();
        let driven = upbeat::tokio_runtime::drive(&node, async {
            let shop: ShopClient = node.connect("told").await.unwrap();
            for _ in 0..3000 {
                shop.buy(1).await.unwrap();
            }
        });
        driven.await.unwrap();
    });
    drop(end);
    server.join().unwrap();
}

/// Driving a node without a runtime is an error, and no panic.
#[test]
fn outside_of_a_runtime_it_is_refused() {
    let node = Node::builder("alone").local_only().build().unwrap();
    let driven = node.block_on(async {
        let other = Node::builder("other").local_only().build().unwrap();
        upbeat::tokio_runtime::drive(&other, async {}).await
    });
    assert_eq!(driven.map_err(|error| error.kind()), Err(io::ErrorKind::Unsupported));
}
