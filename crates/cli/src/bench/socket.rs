//! Round trips of a few bytes over sockets, without a library.

use crate::bench::error::BenchError;
use crate::bench::timing::{Round, Work};
use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;

/// The size of a message.
const MESSAGE: usize = 8;

/// Creates both ends of a TCP connection on this host, which sends small messages without delay.
pub(crate) fn tcp_pair() -> Result<(OwnedFd, OwnedFd), BenchError> {
    let failed = |act| {
        move |error: std::io::Error| BenchError::System {
            act,
            error: Errno::from_io_error(&error).unwrap_or(Errno::IO),
        }
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed("bind"))?;
    let at = listener.local_addr().map_err(failed("getsockname"))?;
    let near = TcpStream::connect(at).map_err(failed("connect"))?;
    let (far, _) = listener.accept().map_err(failed("accept"))?;
    for end in [&near, &far] {
        end.set_nodelay(true).map_err(failed("setsockopt"))?;
    }
    Ok((near.into(), far.into()))
}

/// Measures round trips of a few bytes.
pub(crate) fn ask(socket: impl AsFd, work: Work, flags: RecvFlags) -> Result<Round, BenchError> {
    work.try_run(|| {
        send(&socket)?;
        receive(&socket, flags)
    })
}

/// Answers [`ask`].
pub(crate) fn answer(socket: impl AsFd, work: Work, flags: RecvFlags) -> Result<(), BenchError> {
    repeat(work, || {
        receive(&socket, flags)?;
        send(&socket)
    })
}

fn send(socket: impl AsFd) -> Result<(), BenchError> {
    rustix::net::send(socket, &[7; MESSAGE], SendFlags::NOSIGNAL)
        .map_err(BenchError::system("send"))?;
    Ok(())
}

/// Receives a message: blocks, or polls if the flags say so.
fn receive(socket: impl AsFd, flags: RecvFlags) -> Result<(), BenchError> {
    let mut bytes = [0; MESSAGE];
    let mut have = 0;
    while have < MESSAGE {
        match rustix::net::recv(&socket, &mut bytes[have..], flags) {
            Ok((_, 0)) => return Err(BenchError::PeerGone),
            Ok((_, more)) => have += more,
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(BenchError::System { act: "recv", error }),
        }
    }
    Ok(())
}

/// Does the other side of a round.
pub(crate) fn repeat(
    work: Work,
    mut operation: impl FnMut() -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    for _ in 0..work.total() {
        operation()?;
    }
    Ok(())
}
