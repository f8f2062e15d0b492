//! IP version 4 as a layer: a header in front of what comes from above, and checked and taken off what comes from below.

use sabani_ring::{Layer, Ports, pass};

use super::pdu::{HEADER_LEN, Headers, Pdu};

const VERSION_AND_LENGTH: u8 = 0x45;
const DO_NOT_FRAGMENT: u8 = 0x40;
const HOPS: u8 = 64;
/// IP in IP.
const PROTOCOL: u8 = 4;
const SOURCE: [u8; 4] = [192, 0, 2, 1];
const DESTINATION: [u8; 4] = [192, 0, 2, 2];

/// A layer of IP between two fixed addresses, without fragmentation.
pub struct Ip {
    headers: Headers,
}

impl Ip {
    pub fn new() -> Self {
        Self {
            headers: Headers::new(),
        }
    }

    fn send(&mut self, data: Pdu) -> Pdu {
        let total = data.len_bytes + HEADER_LEN as u32;
        let total = u16::try_from(total).expect("sizes leave room for all headers");
        self.headers.put(&header(total), Some(data))
    }

    /// The datagram's data; nothing, if its header is damaged.
    fn receive(&mut self, datagram: Pdu) -> Option<Pdu> {
        let header: &[u8; HEADER_LEN] = datagram.header().try_into().ok()?;
        let total = u16::from_be_bytes([header[2], header[3]]);
        let sound = header[0] == VERSION_AND_LENGTH
            && u32::from(total) == datagram.len_bytes
            && checksum(header) == 0;
        sound.then_some(())?;
        self.headers.take_off(datagram)
    }
}

impl Layer<Pdu> for Ip {
    fn step(&mut self, ports: &mut Ports<Pdu>) -> usize {
        let Ports {
            above,
            below,
            batch,
        } = ports;
        let down = pass(&mut above.inlet, &mut below.outlet, *batch, |data| {
            Some(self.send(data))
        });
        let up = pass(&mut below.inlet, &mut above.outlet, *batch, |datagram| {
            self.receive(datagram)
        });
        down + up
    }
}

fn header(total_bytes: u16) -> [u8; HEADER_LEN] {
    let mut header = [0; HEADER_LEN];
    header[0] = VERSION_AND_LENGTH;
    header[2..4].copy_from_slice(&total_bytes.to_be_bytes());
    header[6] = DO_NOT_FRAGMENT;
    header[8] = HOPS;
    header[9] = PROTOCOL;
    header[12..16].copy_from_slice(&SOURCE);
    header[16..].copy_from_slice(&DESTINATION);
    let sum = checksum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    header
}

/// The Internet checksum (RFC 1071). 0 over a header that holds its own.
fn checksum(header: &[u8; HEADER_LEN]) -> u16 {
    let (words, _) = header.as_chunks::<2>();
    let sum: u32 = words
        .iter()
        .map(|word| u32::from(u16::from_be_bytes(*word)))
        .sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::layers::pdu::tests::user_data;

    #[test]
    fn the_checksum_is_that_of_the_standard() {
        // The example that text books use.
        let header = [
            0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0, 0, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0,
            0xc7,
        ];
        assert_eq!(checksum(&header), 0xb861);
    }

    #[test]
    fn what_is_sent_is_received_whole() {
        let mut ip = Ip::new();
        let datagram = ip.send(user_data(b"data"));
        assert_eq!((datagram.len_bytes, datagram.header()[3]), (24, 24));
        let data = ip.receive(datagram).unwrap();
        assert_eq!(data.pieces().collect::<Vec<_>>(), [b"data"]);
    }

    #[test]
    fn damage_is_found() {
        let mut ip = Ip::new();
        for at in 0..HEADER_LEN {
            let mut damaged = header(24);
            damaged[at] ^= 0x10;
            let datagram = ip.headers.put(&damaged, Some(user_data(b"data")));
            assert!(ip.receive(datagram).is_none(), "octet {at}");
        }
        let datagram = ip.headers.put(&header(25), Some(user_data(b"data")));
        assert!(ip.receive(datagram).is_none());
        assert!(ip.receive(user_data(b"data")).is_none());
    }
}
