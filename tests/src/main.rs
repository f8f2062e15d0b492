//! A node under remote control: reads commands from standard input and answers on standard output,
//! one JSON object a line. It ends with its input.

use std::io::{BufRead, stdin};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use sabani::{Checksum, Error, JobKey, LinkState, Match, Message, Node, PeerId};
use sabani_tests::{Arrival, Command, PATIENCE, Reply, Setup, Snapshot, fill, is_intact};

/// What all actors know.
const KEY: [u8; 32] = [7; 32];

fn main() -> Result<()> {
    let (sender, commands) = channel();
    thread::spawn(move || {
        for line in stdin().lock().lines().map_while(Result::ok) {
            let command: Command = serde_json::from_str(&line).expect("directors speak it");
            let _ = sender.send(command);
        }
        // Whatever is under way, nobody waits for it any more.
        std::process::exit(0);
    });
    let mut node = None;
    for command in commands {
        let reply =
            act(&mut node, command).unwrap_or_else(|error| Reply::Failed(format!("{error:#}")));
        println!("{}", serde_json::to_string(&reply)?);
    }
    Ok(())
}

fn act(place: &mut Option<Node>, command: Command) -> Result<Reply> {
    if let Command::Open(setup) = &command {
        let node = place.insert(open(setup)?);
        return Ok(Reply::Opened(node.local_addr()));
    }
    let node = place.as_ref().context("no node is open")?;
    match command {
        Command::Open(_) => {}
        Command::Know { peer, addr } => node.add_peer(PeerId(peer), addr)?,
        Command::Send {
            peer,
            first_tag,
            sizes,
        } => {
            for (tag, len) in (first_tag..).zip(sizes) {
                node.send_owned(PeerId(peer), tag, fill(tag, len))?;
            }
        }
        Command::Track {
            peer,
            first_tag,
            sizes,
        } => {
            for (tag, len) in (first_tag..).zip(sizes) {
                let mut sent = node.send_tracked(PeerId(peer), tag, fill(tag, len))?;
                anyhow::ensure!(
                    sent.wait(Some(PATIENCE / 2))?,
                    "message {tag} was not acknowledged"
                );
            }
        }
        Command::Receive { count, timeout_ms } => {
            return receive(node, count, Duration::from_millis(timeout_ms));
        }
        Command::Echo { count } => echo(node, count)?,
        Command::Compute { ms } => compute(Duration::from_millis(ms)),
        Command::Sleep { ms } => thread::sleep(Duration::from_millis(ms)),
        Command::Cpu => return cpu(),
        Command::Look { peer } => return look(node, PeerId(peer)),
        Command::Events => return Ok(events(node)),
        Command::Close { linger_ms } => node.close(Duration::from_millis(linger_ms))?,
    }
    Ok(Reply::Done)
}

fn open(setup: &Setup) -> Result<Node, Error> {
    let mut builder = Node::builder(PeerId(setup.id))
        .bind(setup.bind)
        .offload(setup.offload);
    builder = if setup.sealed {
        builder.job_key(JobKey::from_bytes(KEY))
    } else {
        builder.plain(Checksum::Crc32c)
    };
    if let Some(bytes) = setup.max_datagram {
        builder = builder.max_datagram(bytes);
    }
    if let Some(ms) = setup.dead_after_ms {
        builder = builder.dead_after(Duration::from_millis(ms));
    }
    builder.open()
}

fn receive(node: &Node, count: usize, timeout: Duration) -> Result<Reply> {
    let mut arrivals = Vec::new();
    while arrivals.len() < count {
        let Some(message) = node.recv_timeout(Match::any(), timeout)? else {
            break;
        };
        arrivals.push(arrival(&message));
    }
    Ok(Reply::Received(arrivals))
}

fn arrival(message: &Message) -> Arrival {
    Arrival {
        source: message.source.0,
        tag: message.tag,
        len: message.body().len(),
        intact: is_intact(message.tag, message.body()),
    }
}

fn echo(node: &Node, count: usize) -> Result<()> {
    for _ in 0..count {
        let message = node
            .recv_timeout(Match::any(), PATIENCE / 2)?
            .context("nothing came")?;
        let (source, tag) = (message.source, message.tag);
        node.send_owned(source, tag, message.into_vec())?;
    }
    Ok(())
}

fn compute(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

fn cpu() -> Result<Reply> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let time = usage.user_time() + usage.system_time();
    Ok(Reply::Cpu(time.num_microseconds() as u64))
}

fn look(node: &Node, peer: PeerId) -> Result<Reply> {
    let stats = node.peer_stats(peer).context("the peer is not known")?;
    Ok(Reply::Flow(Snapshot {
        datagram_bytes: stats.datagram_bytes,
        queued_messages: stats.queued_messages,
        packets_lost: stats.counters.packets_lost,
        open: stats.state == LinkState::Open,
    }))
}

fn events(node: &Node) -> Reply {
    let events = std::iter::from_fn(|| node.next_event());
    Reply::Events(events.map(|event| format!("{event:?}")).collect())
}
