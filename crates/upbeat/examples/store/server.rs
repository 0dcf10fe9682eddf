//! The service, and the server that keeps its data in a file.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;
use upbeat::sync::{Condvar, Mutex};
use upbeat::{Node, Stream, Wire};

/// A store of values under keys.
#[upbeat::service]
pub(crate) trait Store {
    /// Returns the value of a key.
    async fn get(&self, key: &str) -> Option<String>;

    /// Sets the value of a key. A call that changes nothing is no change, so the call may be repeated.
    async fn put(&self, key: &str, value: &str) -> Result<(), String>;

    /// Deletes a key. This call may be repeated as well.
    async fn delete(&self, key: &str) -> Result<(), String>;

    /// Returns the keys of a range with their values, in order.
    async fn range(&self, keys: Range<String>) -> Stream<(String, String)>;

    /// Returns all changes from this one on: those of the past, then each new one when it is made.
    async fn watch(&self, from: usize) -> Stream<Change>;
}

/// A key with its new value, or with none if the key was deleted.
#[derive(Clone, Debug, Serialize, Deserialize, Wire)]
pub(crate) struct Change {
    pub(crate) key: String,
    pub(crate) value: Option<String>,
}

pub(crate) type Values = BTreeMap<String, String>;

/// Makes a change to the values.
pub(crate) fn apply(values: &mut Values, Change { key, value }: Change) {
    match value {
        Some(value) => values.insert(key, value),
        None => values.remove(&key),
    };
}

struct Data {
    file: File,
    values: Values,
    changes: Vec<Change>,
}

struct Shelf {
    data: Mutex<Data>,
    changed: Condvar,
}

impl Shelf {
    /// Opens the store of a file, which has a line for each change.
    fn open(path: &str) -> std::io::Result<Shelf> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let mut data = Data { file, values: Values::new(), changes: Vec::new() };
        for line in std::fs::read_to_string(path)?.lines() {
            let (key, value) = line
                .split_once('=')
                .map_or((line, None), |(key, value)| (key, Some(value.to_owned())));
            data.changes.push(Change { key: key.to_owned(), value });
        }
        data.changes.iter().for_each(|change| apply(&mut data.values, change.clone()));
        Ok(Shelf { data: Mutex::new(data), changed: Condvar::new() })
    }

    async fn change(&self, key: &str, value: Option<&str>) -> Result<(), String> {
        let mut data = self.data.lock().await;
        if data.values.get(key).map(String::as_str) == value {
            return Ok(());
        }
        let line = value.map_or(format!("{key}\n"), |value| format!("{key}={value}\n"));
        data.file.write_all(line.as_bytes()).map_err(|error| error.to_string())?;
        let change = Change { key: key.to_owned(), value: value.map(str::to_owned) };
        data.changes.push(change.clone());
        apply(&mut data.values, change);
        self.changed.notify_all();
        Ok(())
    }
}

impl Store for Rc<Shelf> {
    async fn get(&self, key: &str) -> Option<String> {
        self.data.lock().await.values.get(key).cloned()
    }

    async fn put(&self, key: &str, value: &str) -> Result<(), String> {
        self.change(key, Some(value)).await
    }

    async fn delete(&self, key: &str) -> Result<(), String> {
        self.change(key, None).await
    }

    async fn range(&self, keys: Range<String>) -> Stream<(String, String)> {
        let data = self.data.lock().await;
        let found: Vec<_> =
            data.values.range(keys).map(|(key, value)| (key.clone(), value.clone())).collect();
        Stream::of(found)
    }

    async fn watch(&self, from: usize) -> Stream<Change> {
        let shelf = Rc::clone(self);
        upbeat::stream(async move |sink| {
            for number in from.. {
                let data = shelf.data.lock().await;
                let data =
                    shelf.changed.wait_while(data, |data| data.changes.len() <= number).await;
                let change = data.changes[number].clone();
                drop(data); // a slow reader holds up this stream, and nobody else
                sink.send(change).await;
            }
        })
    }
}

/// Serves until ctrl-c or SIGTERM.
pub(crate) fn serve(path: &str) -> Result<(), crate::Error> {
    let node = Node::new("store")?;
    node.serve(StoreServer::new(Rc::new(Shelf::open(path)?)))?;
    node.block_on(upbeat::ctrl_c())?;
    node.shut_down(Duration::from_secs(1));
    Ok(())
}
