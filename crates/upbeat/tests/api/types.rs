//! Types of the standard library and of other crates, as arguments, results and fields of calls.

mod any;
mod defaults;
mod forms;
mod linear;
mod matrix;
mod variants;

use crate::common::{Directory, Watchdog, node};
use bytes::Bytes;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZero;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use upbeat::wire::{Json, Serde};
use uuid::Uuid;

/// A crate that knows serde and nothing of Upbeat.
mod foreign {
    #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
    pub(crate) struct Point {
        pub(crate) x: f64,
        pub(crate) label: String,
    }
}

use foreign::Point;

/// Each type in a field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, upbeat::Wire)]
struct Host {
    address: IpAddr,
    at: SocketAddr,
    root: PathBuf,
    seen: SystemTime,
    queue: VecDeque<NonZero<u32>>,
    shared: Arc<[u8]>,
    name: Cow<'static, str>,
    range: Range<usize>,
    body: Bytes,
    id: Uuid,
    started: DateTime<Utc>,
    place: Serde<Point>,
    labels: Json<Value>,
}

#[upbeat::service]
trait Hosts {
    async fn echo(&self, host: Host) -> Host;
    async fn by_reference(&self, root: &Path, name: &OsStr, host: &Host) -> (PathBuf, OsString);
    async fn network(&self, address: IpAddr, at: SocketAddr) -> Vec<SocketAddr>;
    async fn count(&self, number: usize, of: Arc<[usize]>) -> Result<usize, Box<str>>;
    async fn later(&self, time: SystemTime, by: Duration) -> SystemTime;
    async fn moved(&self, place: Serde<Point>, by: &Serde<Point>) -> Option<Serde<Point>>;
    async fn document(&self, key: String, document: &Json<Value>) -> Json<Value>;
    async fn body(&self, body: Bytes, id: Uuid) -> (Bytes, Uuid, DateTime<Utc>);
}

struct Here;

impl Hosts for Here {
    async fn echo(&self, host: Host) -> Host {
        host
    }

    async fn by_reference(&self, root: &Path, name: &OsStr, host: &Host) -> (PathBuf, OsString) {
        (root.join(&host.root), name.to_owned())
    }

    async fn network(&self, address: IpAddr, at: SocketAddr) -> Vec<SocketAddr> {
        vec![at, SocketAddr::new(address, 1)]
    }

    async fn count(&self, number: usize, of: Arc<[usize]>) -> Result<usize, Box<str>> {
        of.get(number).copied().ok_or_else(|| "no such number".into())
    }

    async fn later(&self, time: SystemTime, by: Duration) -> SystemTime {
        time + by
    }

    async fn moved(&self, place: Serde<Point>, by: &Serde<Point>) -> Option<Serde<Point>> {
        Some(Serde(Point { x: place.x + by.x, label: place.into_inner().label }))
    }

    async fn document(&self, key: String, document: &Json<Value>) -> Json<Value> {
        Json(document[&key].clone())
    }

    async fn body(&self, body: Bytes, id: Uuid) -> (Bytes, Uuid, DateTime<Utc>) {
        (body.slice(1..), id, DateTime::UNIX_EPOCH)
    }
}

fn host() -> Host {
    Host {
        address: [127, 0, 0, 1].into(),
        at: "[::1]:80".parse().unwrap(),
        root: "srv/data".into(),
        seen: SystemTime::UNIX_EPOCH + Duration::new(5, 6),
        queue: (1..9).filter_map(NonZero::new).collect(),
        shared: Arc::from([1, 2, 3]),
        name: "north".into(),
        range: 3..70_000,
        body: Bytes::from_static(b"body"),
        id: Uuid::from_u128(0x1234_5678),
        started: DateTime::UNIX_EPOCH,
        place: Serde(Point { x: 1.5, label: "here".into() }),
        labels: Json(json!({"colour": ["green", 7, null]})),
    }
}

#[test]
fn every_type_is_an_argument_a_result_and_a_field() {
    let _watchdog = Watchdog::new("types in calls");
    let directory = Directory::new();
    let node = node("hosts", &directory.path(), upbeat::Waiting::Sleeping);
    node.serve(HostsServer::new(Here)).unwrap();
    let no_text = OsStr::from_bytes(b"\xff\xfe");
    node.block_on(async {
        let hosts: HostsClient = node.connect("hosts").await.unwrap();
        assert_eq!(hosts.echo(host()).await, Ok(host()));
        let both = hosts.by_reference(Path::new(no_text), no_text, &host()).await.unwrap();
        assert_eq!(both, (Path::new(no_text).join("srv/data"), no_text.to_owned()));
        let (address, at) = ([10, 0, 0, 1].into(), "[fe80::1%3]:7".parse().unwrap());
        let network = hosts.network(address, at).await.unwrap();
        assert_eq!(network, [at, SocketAddr::new(address, 1)]);
        assert_eq!(hosts.count(1, Arc::from([5, usize::MAX])).await, Ok(usize::MAX));
        let none = Err(upbeat::CallError::Method("no such number".into()));
        assert_eq!(hosts.count(2, Arc::from([])).await, none);
        let (before, hour) =
            (SystemTime::UNIX_EPOCH - Duration::new(9, 1), Duration::from_secs(3600));
        assert_eq!(hosts.later(before, hour).await, Ok(before + hour));
        let (place, by) = (host().place, Serde(Point { x: 1.0, label: String::new() }));
        assert_eq!(hosts.moved(place, &by).await.unwrap().unwrap().x, 2.5);
        let colour = hosts.document("colour".into(), &host().labels).await;
        assert_eq!(colour, Ok(Json(json!(["green", 7, null]))));
        let long = Bytes::from(vec![7; 100_000]);
        let (body, id, _) = hosts.body(long.clone(), host().id).await.unwrap();
        assert_eq!((body, id), (long.slice(1..), host().id));
    });
}
