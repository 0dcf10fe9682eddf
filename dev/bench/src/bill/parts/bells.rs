//! Bare bells: both sides sleep in an epoll until a byte comes over a packet socket, as nodes do.

use rustix::event::epoll;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::{Errno, IoSliceMut, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendFlags, SocketFlags, SocketType, recvmsg,
    send, socketpair,
};
use std::mem::MaybeUninit;
use upbeat_cli::bench::control::{Control, Offer};
use upbeat_cli::bench::error::BenchError;
use upbeat_cli::bench::ground::receive;
use upbeat_cli::bench::pin;
use upbeat_cli::bench::timing::{Round, Work};
use upbeat_core::signal::BELL;

/// As many events as a node asks for.
const EVENTS: usize = 64;

/// One end of a session's socket, and the epoll in which its node sleeps.
pub(super) struct Bell {
    socket: OwnedFd,
    epoll: OwnedFd,
}

impl Bell {
    /// Returns both ends.
    pub(super) fn pair() -> Result<(Bell, Bell), BenchError> {
        let (one, other) = sockets()?;
        Ok((Bell::new(one)?, Bell::new(other)?))
    }

    /// Returns one end; the second process gets the other.
    pub(super) fn offer(control: &Control) -> Result<Bell, BenchError> {
        let (own, peer) = sockets()?;
        control.send_with(&Offer { segments: Vec::new() }, &[peer.as_fd()])?;
        Bell::new(own)
    }

    /// Takes the end that the first process offers.
    pub(super) fn accept(control: &Control) -> Result<Bell, BenchError> {
        let [socket] = receive(control)?;
        Bell::new(socket)
    }

    fn new(socket: OwnedFd) -> Result<Bell, BenchError> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(BenchError::system("epoll_create"))?;
        let flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
        epoll::add(&epoll, &socket, epoll::EventData::new_u64(0), flags)
            .map_err(BenchError::system("epoll_ctl"))?;
        Ok(Bell { socket, epoll })
    }

    /// Runs this side of a round: wakes the other side, and sleeps until it is woken.
    pub(super) fn ask(&self, work: Work) -> Result<Round, BenchError> {
        work.try_run(|| {
            self.ring()?;
            self.sleep()
        })
    }

    /// Runs the other side of a round.
    pub(super) fn answer(&self, work: Work) -> Result<(), BenchError> {
        (0..work.total()).try_for_each(|_| {
            self.sleep()?;
            self.ring()
        })
    }

    fn ring(&self) -> Result<(), BenchError> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        send(&self.socket, &[BELL], flags).map_err(BenchError::system("send"))?;
        Ok(())
    }

    /// Sleeps, and takes all packets that have come.
    fn sleep(&self) -> Result<(), BenchError> {
        let mut heard = 0;
        while heard == 0 {
            let mut events = [const { MaybeUninit::uninit() }; EVENTS];
            retry_on_intr(|| epoll::wait(&self.epoll, &mut events, None).map(|_| ()))
                .map_err(BenchError::system("epoll_wait"))?;
            while self.hear()? {
                heard += 1;
            }
        }
        Ok(())
    }

    fn hear(&self) -> Result<bool, BenchError> {
        let mut bytes = [0; 64];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        match recvmsg(&self.socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags) {
            Ok(message) if message.bytes == 0 => Err(BenchError::PeerGone),
            Ok(_) => Ok(true),
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(error) => Err(BenchError::System { act: "recvmsg", error }),
        }
    }
}

fn sockets() -> Result<(OwnedFd, OwnedFd), BenchError> {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .map_err(BenchError::system("socketpair"))
}

/// Runs a round between this thread and one on another CPU.
pub(super) fn apart(
    (own, other): (&Bell, &Bell),
    cpu: usize,
    work: Work,
) -> Result<Round, BenchError> {
    std::thread::scope(|scope| {
        let answering = scope.spawn(move || {
            pin::pin(cpu)?;
            other.answer(work)
        });
        let round = own.ask(work);
        answering.join().map_err(|_| BenchError::protocol("the bell's other side panicked"))??;
        round
    })
}

#[cfg(test)]
mod tests {
    use super::{Bell, Work};

    #[test]
    fn both_sides_sleep_and_wake() {
        let (own, other) = Bell::pair().unwrap();
        let work = Work::of(4, 5);
        let answering = std::thread::spawn(move || {
            other.answer(work).unwrap();
            // The end is kept: this side would see it closed beside the last byte.
            other
        });
        assert_eq!(own.ask(work).unwrap().batches.len(), 4);
        answering.join().unwrap();
    }
}
