//! The data phase of OSI's transport protocol class 4 (X.224) as a layer: numbered DT TPDUs under credit, acknowledged
//! by AK TPDUs, kept until then, with or without a checksum. Formats are the extended ones.

use std::collections::VecDeque;

use sabani_ring::{Layer, Ports, pass};

use super::{
    fletcher::Fletcher,
    pdu::{Headers, Pdu},
};

const DATA: u8 = 0xf0;
const ACKNOWLEDGEMENT: u8 = 0x60;
/// The connection at the other end, which is this one.
const REFERENCE: [u8; 2] = [0, 1];
/// Last TPDU of its SDU: each SDU fits into one.
const END: u32 = 1 << 31;
const NUMBERS: u32 = END - 1;
/// Code and length of the checksum among a header's parameters; its octets follow.
const CHECKSUM: [u8; 2] = [0xc3, 2];
const DATA_LEN: usize = 8;
const ACKNOWLEDGEMENT_LEN: usize = 10;
const CHECKSUM_LEN: usize = 4;

/// What a TP4 layer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tp4Options {
    /// DT TPDUs that may be on their way without an acknowledgement, one at least.
    pub credit: u16,
    /// Whether DT TPDUs are kept until they are acknowledged.
    pub retain: bool,
    /// Whether TPDUs have a checksum, over the user's data as well.
    pub checksum: bool,
}

/// One end of a connection of which nothing is lost below: without timers.
pub struct Tp4 {
    options: Tp4Options,
    headers: Headers,
    sender: Sender,
    receiver: Receiver,
}

/// Counts DT TPDUs, modulo 2^31 on the wire.
#[derive(Default)]
struct Sender {
    next: u32,
    acknowledged: u32,
    /// The first that may not be sent yet.
    limit: u32,
    retained: VecDeque<Pdu>,
}

#[derive(Default)]
struct Receiver {
    expected: u32,
    /// The first that has not been acknowledged yet.
    unacknowledged: u32,
}

impl Tp4 {
    /// A connection that has just been opened.
    pub fn new(options: Tp4Options) -> Self {
        Self {
            options,
            headers: Headers::new(),
            sender: Sender {
                limit: options.credit.into(),
                ..Sender::default()
            },
            receiver: Receiver::default(),
        }
    }

    /// How many more may be sent.
    fn credit(&self) -> usize {
        distance(self.sender.next, self.sender.limit) as usize
    }

    fn send(&mut self, data: Pdu) -> Pdu {
        let number = self.sender.next;
        self.sender.next = (number + 1) & NUMBERS;
        let mut header = [0; DATA_LEN + CHECKSUM_LEN];
        header[1] = DATA;
        header[2..4].copy_from_slice(&REFERENCE);
        header[4..DATA_LEN].copy_from_slice(&(number | END).to_be_bytes());
        let tpdu = self.finish(&mut header, DATA_LEN, Some(data));
        if self.options.retain {
            self.sender.retained.push_back(tpdu.clone());
        }
        tpdu
    }

    fn acknowledge(&mut self) -> Pdu {
        let number = self.receiver.expected;
        self.receiver.unacknowledged = number;
        let mut header = [0; ACKNOWLEDGEMENT_LEN + CHECKSUM_LEN];
        header[1] = ACKNOWLEDGEMENT;
        header[2..4].copy_from_slice(&REFERENCE);
        header[4..8].copy_from_slice(&number.to_be_bytes());
        header[8..ACKNOWLEDGEMENT_LEN].copy_from_slice(&self.options.credit.to_be_bytes());
        self.finish(&mut header, ACKNOWLEDGEMENT_LEN, None)
    }

    /// Adds the header's length, which does not count itself, and the checksum; `header` has room for it at its end.
    fn finish(&mut self, header: &mut [u8], len: usize, data: Option<Pdu>) -> Pdu {
        if !self.options.checksum {
            header[0] = len as u8 - 1;
            return self.headers.put(&header[..len], data);
        }
        header[0] = (len + CHECKSUM_LEN) as u8 - 1;
        header[len..len + 2].copy_from_slice(&CHECKSUM);
        let pieces = data.iter().flat_map(Pdu::pieces);
        let sums = Fletcher::over(std::iter::once(&header[..]).chain(pieces));
        let data_bytes = data.as_ref().map_or(0, |pdu| pdu.len_bytes);
        header[len + 2..].copy_from_slice(&sums.check_octets(data_bytes + 1));
        self.headers.put(header, data)
    }

    /// The data of the DT TPDU that was expected; nothing for all others, which are dealt with here.
    fn receive(&mut self, tpdu: Pdu) -> Option<Pdu> {
        let header = tpdu.header();
        let length = usize::from(*header.first()?) + 1;
        let sound = header.len() == length
            && header.get(2..4) == Some(&REFERENCE)
            && (!self.options.checksum || Fletcher::over(tpdu.pieces()).is_zero());
        sound.then_some(())?;
        let number = u32::from_be_bytes(header.get(4..8)?.try_into().ok()?) & NUMBERS;
        match header[1] {
            // Another than the expected one would be dropped and sent again.
            DATA if number == self.receiver.expected => {
                self.receiver.expected = (number + 1) & NUMBERS;
                self.headers.take_off(tpdu)
            }
            ACKNOWLEDGEMENT => {
                let credit = u16::from_be_bytes(header.get(8..10)?.try_into().ok()?);
                self.on_acknowledgement(number, credit);
                self.headers.take_off(tpdu)
            }
            _ => None,
        }
    }

    /// All before `number` have arrived, and `credit` from there on may be sent.
    fn on_acknowledgement(&mut self, number: u32, credit: u16) {
        let sender = &mut self.sender;
        let arrived = distance(sender.acknowledged, number);
        if arrived > distance(sender.acknowledged, sender.next) {
            return;
        }
        sender.acknowledged = number;
        sender.limit = (number + u32::from(credit)) & NUMBERS;
        let retained = sender.retained.len().min(arrived as usize);
        for tpdu in sender.retained.drain(..retained) {
            self.headers.give(tpdu);
        }
    }

    /// After half of the credit.
    fn owes_acknowledgement(&self) -> bool {
        let received = distance(self.receiver.unacknowledged, self.receiver.expected);
        received >= u32::from(self.options.credit / 2).max(1)
    }

    /// An acknowledgement that has no room stays due, and then tells of more.
    fn acknowledge_if_due(&mut self, ports: &mut Ports<Pdu>) -> usize {
        if !self.owes_acknowledgement() || ports.below.outlet.room(1) == 0 {
            return 0;
        }
        let tpdu = self.acknowledge();
        ports.below.outlet.fill(1, [tpdu])
    }
}

impl Layer<Pdu> for Tp4 {
    fn step(&mut self, ports: &mut Ports<Pdu>) -> usize {
        let Ports {
            above,
            below,
            batch,
        } = ports;
        let up = pass(&mut below.inlet, &mut above.outlet, *batch, |tpdu| {
            self.receive(tpdu)
        });
        let acknowledged = self.acknowledge_if_due(ports);
        let Ports {
            above,
            below,
            batch,
        } = ports;
        let limit = self.credit().min(*batch);
        let down = pass(&mut above.inlet, &mut below.outlet, limit, |data| {
            Some(self.send(data))
        });
        up + acknowledged + down
    }
}

/// From one number on to a later one.
fn distance(from: u32, to: u32) -> u32 {
    to.wrapping_sub(from) & NUMBERS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::layers::pdu::tests::user_data;

    const OPTIONS: Tp4Options = Tp4Options {
        credit: 4,
        retain: true,
        checksum: true,
    };

    #[test]
    fn data_come_back_and_credit_with_an_acknowledgement() {
        for checksum in [false, true] {
            let mut tp4 = Tp4::new(Tp4Options {
                checksum,
                ..OPTIONS
            });
            // Numbers wrap.
            tp4.sender.next = NUMBERS;
            (tp4.sender.acknowledged, tp4.sender.limit) = (NUMBERS, 3);
            (tp4.receiver.expected, tp4.receiver.unacknowledged) = (NUMBERS, NUMBERS);
            for count in 1..=2 {
                assert_eq!(tp4.credit(), 5 - count);
                assert!(!tp4.owes_acknowledgement());
                let tpdu = tp4.send(user_data(b"data"));
                assert_eq!(tp4.sender.retained.len(), count);
                let data = tp4.receive(tpdu).unwrap();
                assert_eq!(data.pieces().collect::<Vec<_>>(), [b"data"]);
            }
            assert!(tp4.owes_acknowledgement());
            let tpdu = tp4.acknowledge();
            assert!(!tp4.owes_acknowledgement());
            assert!(tp4.receive(tpdu).is_none());
            assert_eq!((tp4.credit(), tp4.sender.retained.len()), (4, 0));
        }
    }

    #[test]
    fn what_was_not_expected_is_dropped() {
        let mut tp4 = Tp4::new(OPTIONS);
        let [first, second] = [b"one", b"two"].map(|data| tp4.send(user_data(data)));
        assert!(tp4.receive(second.clone()).is_none());
        assert!(tp4.receive(first.clone()).is_some());
        assert!(tp4.receive(first).is_none());
        assert!(tp4.receive(second).is_some());
        // An acknowledgement of what was never sent.
        tp4.on_acknowledgement(3, 100);
        assert_eq!((tp4.credit(), tp4.sender.retained.len()), (2, 2));
    }

    #[test]
    fn damage_is_found() {
        let mut tp4 = Tp4::new(OPTIONS);
        let sound = tp4.send(user_data(b"data"));
        let header = sound.header().to_vec();
        for at in 0..header.len() {
            let mut damaged = header.clone();
            damaged[at] ^= 1;
            let tpdu = tp4.headers.put(&damaged, Some(user_data(b"data")));
            assert!(tp4.receive(tpdu).is_none(), "octet {at}");
        }
        let tpdu = tp4.headers.put(&header, Some(user_data(b"dada")));
        assert!(tp4.receive(tpdu).is_none());
        assert!(tp4.receive(sound).is_some());
    }
}
