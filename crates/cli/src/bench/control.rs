//! The socket between the two processes of a benchmark: small messages in JSON, with descriptors.
//!
//! Measured data does not use this socket. A message is one packet, so it arrives as a whole or not at all.

use crate::bench::error::BenchError;
use crate::bench::timing::Work;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

/// The largest size of a message, in bytes.
const BYTES_MAX: usize = 16_384;
/// The largest number of descriptors in a message.
const DESCRIPTORS_MAX: usize = 16;

/// A request of the first process to the second.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Do the second process's side of a round.
    Round {
        /// The work of the round.
        job: Job,
        /// The amount of work.
        work: Work,
    },
    /// End the process.
    End,
}

/// The work of a round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Job {
    /// Round trips of two lines.
    Lines {
        /// The number of pauses between two polls.
        pauses: u32,
    },
    /// Round trips of two eventfds, with both sides sleeping.
    Eventfds,
    /// Writing lines that the other side then loads.
    Dirty,
    /// Arithmetic until the other side ends the round.
    Arithmetic,
    /// A case of the benchmark, by its name.
    Case(String),
}

/// The second process has finished its side of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done;

/// A message that brings segments and other descriptors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// The bytes of each segment. The first descriptors are those of the segments.
    pub segments: Vec<usize>,
}

/// One end of the socket.
pub struct Control {
    socket: OwnedFd,
}

impl Control {
    /// Creates both ends.
    pub fn pair() -> Result<(Control, OwnedFd), BenchError> {
        let (one, other) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .map_err(BenchError::system("socketpair"))?;
        Ok((Control::from(one), other))
    }

    /// Returns the end that the second process has as its standard input.
    pub(crate) fn inherited() -> Result<Control, BenchError> {
        let socket = rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), 3)
            .map_err(BenchError::system("dup of the control socket"))?;
        Ok(Control::from(socket))
    }

    /// Sends a message.
    pub fn send(&self, message: &impl Serialize) -> Result<(), BenchError> {
        self.send_with(message, &[])
    }

    /// Sends a message with descriptors.
    pub fn send_with(
        &self,
        message: &impl Serialize,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), BenchError> {
        let bytes = serde_json::to_vec(message).map_err(|error| {
            BenchError::protocol(format!("a message cannot be written: {error}"))
        })?;
        if bytes.len() > BYTES_MAX || descriptors.len() > DESCRIPTORS_MAX {
            return Err(BenchError::protocol(format!("a message of {} bytes", bytes.len())));
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors))
        {
            return Err(BenchError::protocol("descriptors do not fit a message"));
        }
        let mut send =
            || sendmsg(&self.socket, &[IoSlice::new(&bytes)], &mut ancillary, SendFlags::NOSIGNAL);
        match rustix::io::retry_on_intr(&mut send) {
            Ok(_) => Ok(()),
            Err(Errno::PIPE | Errno::CONNRESET) => Err(BenchError::PeerGone),
            Err(error) => Err(BenchError::System { act: "sendmsg", error }),
        }
    }

    /// Waits for a message.
    pub fn receive<T: DeserializeOwned>(&self) -> Result<T, BenchError> {
        Ok(self.receive_with()?.0)
    }

    /// Waits for a message with descriptors.
    pub fn receive_with<T: DeserializeOwned>(&self) -> Result<(T, Vec<OwnedFd>), BenchError> {
        let mut bytes = [0; BYTES_MAX];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut receive = || {
            let mut to = [IoSliceMut::new(&mut bytes)];
            recvmsg(&self.socket, &mut to, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
        };
        let length = match rustix::io::retry_on_intr(&mut receive) {
            Ok(received) if received.bytes > 0 => received.bytes,
            Ok(_) | Err(Errno::CONNRESET) => return Err(BenchError::PeerGone),
            Err(error) => return Err(BenchError::System { act: "recvmsg", error }),
        };
        let mut descriptors = Vec::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(more) = message {
                descriptors.extend(more);
            }
        }
        let message = serde_json::from_slice(&bytes[..length])
            .map_err(|error| BenchError::protocol(format!("a message cannot be read: {error}")))?;
        Ok((message, descriptors))
    }
}

impl From<OwnedFd> for Control {
    fn from(socket: OwnedFd) -> Control {
        Control { socket }
    }
}

#[cfg(test)]
mod tests {
    use super::{BenchError, Control, Job, Offer, Order, Work};
    use std::os::fd::AsFd;

    #[test]
    fn messages_arrive_as_they_were_sent() {
        let (one, socket) = Control::pair().unwrap();
        let other = Control::from(socket);
        let order = Order::Round { job: Job::Case("tcp/polling".into()), work: Work::of(3, 4) };
        one.send(&order).unwrap();
        one.send(&Order::End).unwrap();
        assert_eq!(other.receive::<Order>().unwrap(), order);
        assert_eq!(other.receive::<Order>().unwrap(), Order::End);
    }

    #[test]
    fn descriptors_arrive_in_their_order() {
        let (one, socket) = Control::pair().unwrap();
        let other = Control::from(socket);
        let null = std::fs::File::open("/dev/null").unwrap();
        let zero = std::fs::File::open("/dev/zero").unwrap();
        one.send_with(&Offer { segments: vec![] }, &[null.as_fd(), zero.as_fd()]).unwrap();
        let (_, descriptors) = other.receive_with::<Offer>().unwrap();
        let device = |fd: &dyn AsFd| rustix::fs::fstat(fd.as_fd()).unwrap().st_rdev;
        assert_eq!(descriptors.len(), 2);
        assert_eq!(device(&descriptors[0]), device(&null));
        assert_eq!(device(&descriptors[1]), device(&zero));
    }

    #[test]
    fn a_closed_end_and_an_invalid_message_are_different_errors() {
        let (one, socket) = Control::pair().unwrap();
        let other = Control::from(socket);
        one.send(&"nonsense").unwrap();
        assert!(matches!(other.receive::<Order>(), Err(BenchError::Protocol { .. })));
        drop(one);
        assert!(matches!(other.receive::<Order>(), Err(BenchError::PeerGone)));
        assert!(matches!(other.send(&Order::End), Err(BenchError::PeerGone)));
    }
}
