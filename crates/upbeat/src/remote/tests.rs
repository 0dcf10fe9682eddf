//! Connections between hosts that pass through the process of a test, which can break them.

use std::io::copy;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

/// Passes one connection on. Returns the socket of its caller, and the other one.
pub(crate) fn relay(listener: &TcpListener, to: SocketAddr) -> [TcpStream; 2] {
    let sockets = [listener.accept().unwrap().0, TcpStream::connect(to).unwrap()];
    for [from, to] in [[0, 1], [1, 0]] {
        let [mut from, mut to] = [from, to].map(|side| sockets[side].try_clone().unwrap());
        thread::spawn(move || copy(&mut from, &mut to));
    }
    sockets
}
