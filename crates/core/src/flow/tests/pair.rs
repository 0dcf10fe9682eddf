//! A sender and a receiver, with the messages on their way between them.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::super::*;
use super::budgets;
use crate::limits::{MEDIUM_BYTES_MAX, SHORT_BYTES};

/// A message from the sender to the receiver. These messages arrive in order.
#[derive(Clone, Copy, Debug)]
pub(super) enum ToReceiver {
    Request { id: u64, bytes: usize },
    Reserve { bytes: usize },
    Transfer { number: u64, id: u64 },
    Withdraw(u64),
}

/// A message from the receiver to the sender. These messages arrive in order.
#[derive(Clone, Copy, Debug)]
pub(super) enum ToSender {
    Nack(u64),
    Grant(u64),
    Progress(u64),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    Send(usize),
    Withdraw(usize),
    Hear,
    Tell,
    Step,
    Finish,
    Progress,
    Cancel(u64),
}

pub(super) fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => prop_oneof![Just(8), Just(1000), Just(MEDIUM_BYTES_MAX + 1)].prop_map(Act::Send),
        1 => any::<usize>().prop_map(Act::Withdraw),
        6 => Just(Act::Hear),
        4 => Just(Act::Tell),
        4 => Just(Act::Step),
        2 => Just(Act::Finish),
        1 => Just(Act::Progress),
        1 => any::<u64>().prop_map(Act::Cancel),
    ]
}

/// The two sides and the messages between them.
pub(super) struct Pair {
    pub(super) sender: Sender,
    pub(super) receiver: Receiver<u64>,
    pub(super) node: Budget,
    pub(super) share: Share,
    pub(super) to_receiver: VecDeque<ToReceiver>,
    pub(super) to_sender: VecDeque<ToSender>,
    pub(super) next: u64,
    /// The requests that were sent or reserved: the number, the identity, and whether the request was not sent
    /// yet.
    pub(super) kept: Vec<(u64, u64, bool)>,
    pub(super) withdrawn: Vec<u64>,
    pub(super) accepted: Vec<u64>,
    /// Whether progress is seen before earlier frames.
    pub(super) ahead: bool,
    pub(super) running: VecDeque<u64>,
    pub(super) optimistic: usize,
    pub(super) places: usize,
}

impl Pair {
    pub(super) fn new(ahead: bool, window: (usize, usize), limit: (u64, u64)) -> Pair {
        let (node, share) = budgets(limit.0, limit.1);
        Pair {
            sender: Sender::with_window(window.0, window.1),
            receiver: Receiver::with_places(window.0 + window.1),
            node,
            share,
            to_receiver: VecDeque::new(),
            to_sender: VecDeque::new(),
            next: 0,
            kept: Vec::new(),
            withdrawn: Vec::new(),
            accepted: Vec::new(),
            ahead,
            running: VecDeque::new(),
            optimistic: window.0,
            places: window.0 + window.1,
        }
    }

    pub(super) fn send(&mut self, bytes: usize) {
        let id = self.next;
        let open = self.sender.open();
        match self.sender.way(bytes) {
            SendMode::Wait => {
                assert!(open >= self.places as u64);
                return;
            }
            SendMode::Reserve => {
                let number = self.sender.reserved();
                self.kept.push((number, id, true));
                self.to_receiver.push_back(ToReceiver::Reserve { bytes });
            }
            SendMode::Go => {
                assert!(open < self.optimistic as u64 || bytes <= SHORT_BYTES);
                let number = self.sender.sent();
                self.kept.push((number, id, false));
                self.to_receiver.push_back(ToReceiver::Request { id, bytes });
            }
        }
        self.next += 1;
    }

    pub(super) fn withdraw(&mut self, at: usize) {
        let Some(&(number, id, waits)) = self.kept.get(at % self.kept.len().max(1)) else { return };
        let told = self.sender.withdraw(number);
        assert!(!told || waits, "a sent request cannot be withdrawn");
        if told {
            self.withdrawn.push(id);
            self.kept.retain(|&(other, ..)| other != number);
            self.to_receiver.push_back(ToReceiver::Withdraw(number));
        }
    }

    pub(super) fn hear(&mut self) -> Result<(), Rule> {
        match self.to_receiver.pop_front() {
            None => {}
            Some(ToReceiver::Request { id, bytes }) => {
                let price = Budget::price(bytes);
                if self.receiver.waiting() == 0 && self.node.admits(&self.share, price) {
                    self.receiver.accept(1);
                    self.accept(id, price);
                } else {
                    let number = self.receiver.keep(id, price)?;
                    if bytes > SHORT_BYTES {
                        self.to_sender.push_back(ToSender::Nack(number));
                    }
                }
            }
            Some(ToReceiver::Reserve { bytes }) => {
                self.receiver.await_grant(Budget::price(bytes))?;
            }
            Some(ToReceiver::Transfer { number, id }) => self.receiver.fill(number, id, 1)?,
            Some(ToReceiver::Withdraw(number)) => {
                let left = self.receiver.void(number, &mut self.node, &mut self.share)?;
                assert_eq!(left, None);
            }
        }
        Ok(())
    }

    pub(super) fn accept(&mut self, id: u64, bytes: u64) {
        self.accepted.push(id);
        self.node.charge(&mut self.share, bytes);
        self.running.push_back(bytes);
    }

    pub(super) fn tell(&mut self) -> Result<(), Rule> {
        match self.to_sender.pop_front() {
            None => {}
            Some(ToSender::Nack(number)) => self.sender.refused(number)?,
            Some(ToSender::Progress(accepted)) => {
                self.sender.handle_progress(accepted)?;
            }
            Some(ToSender::Grant(number)) => {
                if !self.sender.granted(number)? {
                    return Ok(());
                }
                let kept = self.kept.iter_mut().find(|(other, ..)| *other == number);
                let (_, id, waits) = kept.expect("a grant of a reserved request");
                assert!(std::mem::take(waits), "a sent request was granted");
                self.sender.transferred(number);
                self.to_receiver.push_back(ToReceiver::Transfer { number, id: *id });
            }
        }
        Ok(())
    }

    pub(super) fn step(&mut self) -> bool {
        match self.receiver.step(&mut self.node, &mut self.share) {
            None => return false,
            Some(ReceiverAction::Grant(number)) => {
                self.to_sender.push_back(ToSender::Grant(number))
            }
            Some(ReceiverAction::Accept { request, bytes }) => self.accept(request, bytes),
        }
        true
    }

    pub(super) fn finish(&mut self) {
        if let Some(bytes) = self.running.pop_front() {
            self.node.release(&mut self.share, bytes);
        }
    }

    pub(super) fn act(&mut self, act: Act) -> Result<(), Rule> {
        match act {
            Act::Send(bytes) => self.send(bytes),
            Act::Withdraw(at) => self.withdraw(at),
            Act::Hear => self.hear()?,
            Act::Tell => self.tell()?,
            Act::Step => {
                self.step();
            }
            Act::Finish => self.finish(),
            // In memory the progress may be seen at once, before messages that are under way.
            Act::Progress if self.to_sender.is_empty() || self.ahead => {
                self.sender.handle_progress(self.receiver.accepted())?;
            }
            Act::Progress => self.to_sender.push_back(ToSender::Progress(self.receiver.accepted())),
            Act::Cancel(id) => {
                if let Some(number) = self.receiver.find(|&other| other == id) {
                    let left = self.receiver.void(number, &mut self.node, &mut self.share)?;
                    assert_eq!(left, Some(id));
                    self.withdrawn.push(id);
                }
            }
        }
        Ok(())
    }

    /// Delivers messages and takes steps until nothing is left to do.
    pub(super) fn settle(&mut self) -> Result<(), Rule> {
        while !self.to_receiver.is_empty()
            || !self.to_sender.is_empty()
            || self.receiver.waiting() > 0
        {
            let mut busy = !self.to_receiver.is_empty() || !self.to_sender.is_empty();
            self.hear()?;
            self.tell()?;
            while self.step() {
                busy = true;
            }
            let idle = self.running.is_empty() && self.receiver.waiting() > 0;
            assert!(busy || !idle, "no request runs although some wait");
            self.finish();
        }
        while !self.running.is_empty() {
            self.finish();
        }
        self.sender.handle_progress(self.receiver.accepted())?;
        Ok(())
    }
}
