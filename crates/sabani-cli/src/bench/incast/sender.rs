//! A sender: answers requests by all transports, each in a thread that sleeps between them.

use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, UdpSocket},
    process,
    sync::Arc,
    thread,
};

use anyhow::{Context, Result, ensure};
use sabani::{Match, Node, PeerId};

use super::{
    protocol::{Counts, ECHO_PORT, Setup, address},
    requester::TAG,
};
use crate::{
    bench::{
        task::MAX_SIZE_BYTES,
        transport::{Transport, sabani::builder, tcp},
    },
    counters::Counters,
    tell::note,
};

/// All that a sender has open.
pub struct Sender {
    nodes: Vec<(Transport, Node)>,
}

impl Sender {
    /// Begins to answer.
    ///
    /// # Errors
    /// If a socket can't be had.
    pub fn open(setup: &Setup) -> Result<Self> {
        let echo = UdpSocket::bind((setup.host, ECHO_PORT))?;
        serve("round trips", move || answer_packets(&echo));
        let mut nodes = Vec::new();
        for &transport in &setup.transports {
            let own = address(setup.host, transport);
            match transport.congestion() {
                Some(congestion) => {
                    let listener = tcp::socket(own, congestion)?;
                    listener.listen(1)?;
                    serve(transport.label(), move || {
                        answer_stream(listener.accept()?.0.into())
                    });
                }
                None => {
                    let node = open_node(transport, setup, own)?;
                    nodes.push((transport, node.clone()));
                    serve(transport.label(), move || answer_messages(&node));
                }
            }
        }
        Ok(Self { nodes })
    }

    /// What one transport has sent so far.
    ///
    /// # Errors
    /// If the system does not tell.
    pub fn count(&self, transport: Transport) -> Result<Counts> {
        let node = self.nodes.iter().find(|(other, _)| *other == transport);
        let Some((_, node)) = node else {
            return tcp_counts();
        };
        let counters = node.stats().counters;
        Ok(Counts {
            packets: counters.packets_sent,
            resent: counters.packets_lost + counters.polls,
        })
    }
}

/// Its id follows from its address: the receiver, 0, has the first one.
fn open_node(transport: Transport, setup: &Setup, own: SocketAddr) -> Result<Node> {
    let key = transport.is_sealed().then_some(setup.key);
    let id = PeerId(u32::from(setup.host.octets()[3]) - 1);
    let node = builder(id, own, key).spin(std::time::Duration::ZERO);
    Ok(node.open()?)
}

/// Nothing can be measured any more when one of them fails.
fn serve(what: &'static str, answer: impl FnOnce() -> Result<()> + Send + 'static) {
    thread::spawn(move || {
        if let Err(error) = answer() {
            note(format_args!("sabani bench, a sender of {what}: {error:#}"));
            process::exit(1);
        }
    });
}

fn answer_packets(echo: &UdpSocket) -> Result<()> {
    let mut packet = [0; 64];
    loop {
        let (len, from) = echo.recv_from(&mut packet)?;
        echo.send_to(&packet[..len], from)?;
    }
}

fn answer_messages(node: &Node) -> Result<()> {
    let mut source = Source::default();
    loop {
        let request = node.recv(Match::any())?;
        let bytes = source.get(request.body())?;
        node.send_owned(request.source, TAG, bytes)?;
    }
}

fn answer_stream(mut stream: std::net::TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut source = Source::default();
    let mut request = [0; 8];
    loop {
        match stream.read_exact(&mut request) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
            read => read?,
        }
        let bytes = source.get(&request)?;
        stream.write_all(&bytes)?;
    }
}

/// What is sent: written once for each size.
#[derive(Default)]
struct Source(Arc<Vec<u8>>);

impl Source {
    fn get(&mut self, request: &[u8]) -> Result<Arc<Vec<u8>>> {
        let request: [u8; 8] = request.try_into().context("that is no request")?;
        let size = u64::from_le_bytes(request);
        ensure!(size <= MAX_SIZE_BYTES as u64, "{size} bytes are too many");
        if self.0.len() as u64 != size {
            self.0 = Arc::new(vec![1; size as usize]);
        }
        Ok(Arc::clone(&self.0))
    }
}

/// What the system counts for all TCP connections of this host.
fn tcp_counts() -> Result<Counts> {
    let counters = Counters::snmp()?;
    let resent = counters.figure("Tcp", "RetransSegs")?;
    // Those that go again are counted apart.
    Ok(Counts {
        packets: counters.figure("Tcp", "OutSegs")? + resent,
        resent,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_checked() {
        let mut source = Source::default();
        assert_eq!(source.get(&5u64.to_le_bytes()).unwrap().len(), 5);
        assert!(source.get(&u64::MAX.to_le_bytes()).is_err());
        assert!(source.get(&[1, 2]).is_err());
    }
}
