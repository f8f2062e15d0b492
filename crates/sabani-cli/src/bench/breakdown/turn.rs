//! Two nodes that throw a message to and fro, one of which times itself.

use std::{
    hint::black_box,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use sabani::{Match, Message, Node, PeerId, Schedule, SocketCounters, Stage, Timings};
use sabani_ring::{cores, pin};

use crate::bench::transport::{Key, sabani::builder};

const HERE: PeerId = PeerId(0);
const THERE: PeerId = PeerId(1);
/// Tags of messages to be sent back, and of the last one.
const ECHO: u64 = 1;
const END: u64 = 2;
/// Longer than any round trip, so that neither end sleeps in the kernel while it is its turn, and shorter than the
/// warm-up, so that it soon does when it is another's.
const SPIN: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(100);
/// Bytes of a message in a full packet.
const PIECE_BYTES: usize = 1_400;
/// Bytes to copy before the time that it takes is told.
const COPIED_BYTES: usize = 4 << 20;

/// Nanoseconds for one message there and its answer back.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    pub messages_out: f64,
    pub channel_out: f64,
    pub call_out: f64,
    pub waiting: f64,
    pub call_in: f64,
    pub channel_in: f64,
    pub messages_in: f64,
    /// Datagrams, acknowledgements included.
    pub packets_out: f64,
    pub packets_in: f64,
}

/// Two nodes in this process.
pub struct Couple {
    node: Node,
    echo: Option<JoinHandle<Result<()>>>,
}

impl Couple {
    /// Opens both, sealed if there is a key.
    ///
    /// # Errors
    /// If the system refuses a socket.
    pub fn open(key: Option<Key>) -> Result<Self> {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let open = |id, timed| {
            let builder = builder(id, any, key).layers(Schedule::Inline);
            builder.spin(SPIN).timed(timed).open()
        };
        let (node, other) = (open(HERE, true)?, open(THERE, false)?);
        node.add_peer(THERE, other.local_addr())?;
        let echo = thread::spawn(move || echo(&other));
        let couple = Couple {
            node,
            echo: Some(echo),
        };
        couple.node.connect(THERE, PATIENCE)?;
        Ok(couple)
    }

    /// Throws messages of `size` bytes to and fro for that long.
    ///
    /// # Errors
    /// If nothing comes back.
    pub fn turn(&self, size: usize, time: Duration) -> Result<Sample> {
        let body = Arc::new(vec![1; size]);
        self.throw(&body, time / 10)?;
        let before = self.look()?;
        let count = self.throw(&body, time)?;
        let after = self.look()?;
        Ok(Sample::between(&before, &after, count))
    }

    fn throw(&self, body: &Arc<Vec<u8>>, time: Duration) -> Result<u64> {
        let begun = Instant::now();
        let mut count = 0;
        while count == 0 || begun.elapsed() < time {
            self.node.send_owned(THERE, ECHO, Arc::clone(body))?;
            black_box(self.answer()?);
            count += 1;
        }
        Ok(count)
    }

    /// Where this program is stopped for longer, that counts as one look.
    fn answer(&self) -> Result<Message> {
        for _ in 0..PATIENCE.as_millis() / LOOK.as_millis() {
            if let Some(answer) = self.node.recv_timeout(Match::any().from(THERE), LOOK)? {
                return Ok(answer);
            }
        }
        bail!("no answer came")
    }

    fn look(&self) -> Result<(Timings, SocketCounters)> {
        let timings = self.node.timings().context("the node is timed")?;
        Ok((timings, self.node.socket_counters()))
    }
}

impl Drop for Couple {
    fn drop(&mut self) {
        // If it has failed, its own error has been seen as a message that did not come back.
        let _ = self.node.send(THERE, END, b"");
        if let Some(echo) = self.echo.take() {
            let _ = self.node.wait_acknowledged(PATIENCE);
            let _ = echo.join();
        }
    }
}

/// Sends back what comes, on the second core if there is one.
fn echo(node: &Node) -> Result<()> {
    if let [_, second] = cores(2)[..] {
        pin(second);
    }
    loop {
        let message = node.recv(Match::any())?;
        if message.tag == END {
            return Ok(());
        }
        node.send_owned(HERE, ECHO, message.into_vec())?;
    }
}

type Look = (Timings, SocketCounters);

impl Sample {
    fn between(before: &Look, after: &Look, count: u64) -> Self {
        let reading_ns = clock_ns();
        let each = |total: f64| total / count as f64;
        let of = |stage| {
            let (before, after) = (before.0.of(stage), after.0.of(stage));
            let readings = (after.times - before.times) as f64 * reading_ns;
            each(((after.ns - before.ns) as f64 - readings).max(0.0))
        };
        let (sent, received) = (
            after.1.datagrams_sent - before.1.datagrams_sent,
            after.1.datagrams_received - before.1.datagrams_received,
        );
        Sample {
            messages_out: of(Stage::MessagesOut),
            channel_out: of(Stage::ChannelOut),
            call_out: of(Stage::CallOut),
            waiting: of(Stage::Waiting),
            call_in: of(Stage::CallIn),
            channel_in: of(Stage::ChannelIn),
            messages_in: of(Stage::MessagesIn),
            packets_out: each(sent as f64),
            packets_in: each(received as f64),
        }
    }
}

/// What a reading of the clock takes, in nanoseconds.
fn clock_ns() -> f64 {
    const READINGS: u32 = 1_000;
    let begun = Instant::now();
    for _ in 0..READINGS {
        black_box(Instant::now());
    }
    begun.elapsed().as_nanos() as f64 / f64::from(READINGS)
}

/// What copying `size` bytes in pieces of a packet takes, in nanoseconds.
pub fn copy_ns(size: usize) -> f64 {
    let (source, mut copy) = (vec![1u8; size], vec![0u8; size]);
    let times = COPIED_BYTES.div_ceil(size).min(100_000);
    let begun = Instant::now();
    for _ in 0..times {
        let pieces = copy.chunks_mut(PIECE_BYTES);
        for (to, from) in pieces.zip(source.chunks(PIECE_BYTES)) {
            to.copy_from_slice(black_box(from));
        }
        black_box(&mut copy);
    }
    begun.elapsed().as_nanos() as f64 / times as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_many_packets_is_timed_in_all_its_parts() {
        let couple = Couple::open(None).unwrap();
        let sample = couple.turn(64 << 10, Duration::from_millis(5)).unwrap();
        assert!(
            sample.packets_out >= 45.0 && sample.packets_in >= 45.0,
            "{sample:?}"
        );
        let parts = [
            sample.channel_out,
            sample.call_out,
            sample.channel_in,
            sample.call_in,
        ];
        assert!(parts.iter().all(|&ns| ns > 0.0), "{sample:?}");
    }
}
