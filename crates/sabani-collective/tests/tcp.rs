//! The same schedules over plain TCP: a thread for each rank, a connection for each pair.

mod data;

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use data::{Buffers, operation};
use sabani_collective::execute::{Exchange, Handled, Header};
use sabani_collective::{ALGORITHMS, Collective, Context, Counts, Hosts, Mode, Parameters};

const RANKS: usize = 6;

/// A frame and its sender.
type Frame = (usize, Vec<u8>);

/// One rank's connections.
struct Mesh {
    /// To each rank; none to itself.
    streams: Vec<Option<TcpStream>>,
    arrived: Receiver<Frame>,
    /// What has come before its turn.
    early: VecDeque<Frame>,
}

impl Mesh {
    /// Connects `rank` with all others: it calls those below, and is called by those above.
    fn join(rank: usize, listeners: &[TcpListener]) -> io::Result<Self> {
        let (sender, arrived) = mpsc::channel();
        let mut streams: Vec<_> = listeners.iter().map(|_| None).collect();
        for below in 0..rank {
            let mut stream = TcpStream::connect(listeners[below].local_addr()?)?;
            stream.write_all(&[rank as u8])?;
            streams[below] = Some(stream);
        }
        for _ in rank + 1..listeners.len() {
            let (mut stream, _) = listeners[rank].accept()?;
            let mut above = [0];
            stream.read_exact(&mut above)?;
            streams[usize::from(above[0])] = Some(stream);
        }
        for (peer, stream) in streams.iter().enumerate() {
            if let Some(stream) = stream {
                stream.set_nodelay(true)?;
                let (stream, sender) = (stream.try_clone()?, sender.clone());
                thread::spawn(move || read_frames(peer, stream, sender));
            }
        }
        Ok(Mesh {
            streams,
            arrived,
            early: VecDeque::new(),
        })
    }

    fn send(&mut self, to: usize, header: &Header, payload: &[u8]) -> io::Result<()> {
        let header = header.encode();
        let len = (header.len() + payload.len()) as u32;
        let frame = [&len.to_le_bytes()[..], &header, payload].concat();
        let stream = self.streams[to].as_mut().expect("nobody sends to itself");
        stream.write_all(&frame)
    }

    /// Runs this rank's part of a collective.
    fn run(&mut self, mut exchange: Exchange) -> io::Result<()> {
        loop {
            while let Some(outgoing) = exchange.poll() {
                let in_step = outgoing.in_step;
                self.send(outgoing.to, &outgoing.header, outgoing.payload)?;
                in_step.into_iter().for_each(|step| exchange.arrived(step));
            }
            if exchange.is_complete() {
                return Ok(());
            }
            if !self.take_early(&mut exchange) {
                let frame = self.arrived.recv().expect("the others are there");
                self.take(&mut exchange, frame);
            }
        }
    }

    fn take_early(&mut self, exchange: &mut Exchange) -> bool {
        let mut took = false;
        for frame in std::mem::take(&mut self.early) {
            took |= self.take(exchange, frame);
        }
        took
    }

    fn take(&mut self, exchange: &mut Exchange, (peer, bytes): Frame) -> bool {
        let (header, payload) = Header::decode(&bytes).expect("ranks send headers");
        let taken = exchange.handle(peer, &header, payload).unwrap() == Handled::Taken;
        if !taken {
            self.early.push_back((peer, bytes));
        }
        taken
    }
}

impl Drop for Mesh {
    /// Ends the readers.
    fn drop(&mut self) {
        for stream in self.streams.iter().flatten() {
            let _ = stream.shutdown(std::net::Shutdown::Write);
        }
    }
}

/// Reads until the peer has no more to say.
fn read_frames(peer: usize, mut stream: TcpStream, sender: Sender<Frame>) -> io::Result<()> {
    loop {
        let mut len = [0; 4];
        stream.read_exact(&mut len)?;
        let mut frame = vec![0; u32::from_le_bytes(len) as usize];
        stream.read_exact(&mut frame)?;
        let _ = sender.send((peer, frame));
    }
}

/// As many elements for each as suits a collective.
fn counts(collective: Collective) -> Counts<'static> {
    match collective {
        Collective::Barrier => Counts::Vector(0),
        Collective::Gather
        | Collective::Scatter
        | Collective::Allgather
        | Collective::ReduceScatter
        | Collective::Alltoall => Counts::Each(2_000),
        _ => Counts::Vector(9_000),
    }
}

/// One after the other, without a barrier: ranks may be ahead of each other.
fn run_all(rank: usize, mesh: &mut Mesh, cx: Context) {
    for (sequence, algorithm) in (0..).zip(ALGORITHMS) {
        let counts = counts(algorithm.collective);
        let contexts = [Context { counts, ..cx }; RANKS];
        if algorithm.schedule.fits(&contexts[rank]) {
            let mut buffers = Buffers::new(algorithm, &contexts, rank);
            let operation = operation(cx.commutative);
            let exchange = buffers.enter(algorithm, contexts[rank], rank, sequence, &operation);
            let ran = mesh.run(exchange);
            ran.unwrap_or_else(|error| panic!("{algorithm:?}: {error}"));
            assert!(buffers.are_right(), "{algorithm:?} at rank {rank}");
        }
    }
}

#[test]
fn every_algorithm_runs_over_tcp() {
    let hosts = Hosts::new(&[0, 0, 0, 1, 1, 2]);
    for (commutative, mode) in [(true, Mode::Eager), (false, Mode::Rendezvous)] {
        let parameters = Parameters {
            segment_bytes: 4096,
            mode,
            ..Parameters::default()
        };
        let cx = Context {
            commutative,
            parameters,
            hosts: Some(&hosts),
            element_bytes: data::ELEMENT,
            ..Context::new(RANKS, Counts::Vector(0))
        };
        let bind = |_| TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let listeners: Vec<_> = (0..RANKS).map(bind).collect();
        thread::scope(|scope| {
            for rank in 0..RANKS {
                let listeners = &listeners;
                scope.spawn(move || {
                    let mut mesh = Mesh::join(rank, listeners).expect("all listen");
                    run_all(rank, &mut mesh, cx);
                });
            }
        });
    }
}
