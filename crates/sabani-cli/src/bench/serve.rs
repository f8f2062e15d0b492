//! The other half of a measurement between two machines.

use std::{
    collections::VecDeque,
    io::{self, ErrorKind, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    os::{
        fd::{AsFd, OwnedFd},
        unix::process::{CommandExt, ExitStatusExt},
    },
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Error, Result};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};
use socket2::{SockRef, TcpKeepalive};

use super::{args::ServeArgs, control::Reply, cores};
use crate::{
    exit::{Interrupted, Usage},
    interrupt::{self, TICK},
    tell::note,
    threads::{Started, told},
};

/// Starts a process for each machine that comes to measure, one after the other: two at a time
/// would measure each other.
///
/// # Errors
/// [`Usage`] if the core or the address cannot be had; after Ctrl-C.
pub fn run(args: &ServeArgs) -> Result<()> {
    cores::expect(args.pin)?;
    args.layers.schedule()?;
    let listener = TcpListener::bind(args.listen).map_err(|error| unheard(args.listen, &error))?;
    listener.set_nonblocking(true)?;
    interrupt::install()?;
    note(format_args!(
        "waiting on {} for `sabani bench --to`",
        listener.local_addr()?
    ));
    let mut arrivals = Arrivals {
        listener,
        silent: VecDeque::new(),
    };
    loop {
        let stream = arrivals.next()?;
        if let Err(error) = stream.map_err(Error::from).and_then(|s| attend(s, args)) {
            if error.is::<Interrupted>() {
                return Err(error);
            }
            note(format_args!("sabani: {}", told(&error)));
        }
    }
}

/// How long who has connected may take to say its first line, which a bench does at once.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// How many may be silent at a time; for one more the first of them is turned away.
const SILENT_MAX: usize = 64;
/// What a first line is seen within, though it may be longer.
const FIRST_LINE: usize = 256;

/// Those who come, of whom nobody who says nothing keeps others waiting.
struct Arrivals {
    listener: TcpListener,
    /// Who has connected and not said its first line yet, and when it came.
    silent: VecDeque<(TcpStream, Instant)>,
}

impl Arrivals {
    /// Whoever is next to have said a line.
    ///
    /// # Errors
    /// [`Interrupted`], or if the system can't wait.
    fn next(&mut self) -> Result<io::Result<TcpStream>> {
        let tick = PollTimeout::try_from(TICK)?;
        while !interrupt::requested() {
            match self.listener.accept() {
                Ok((stream, _)) => self.admit(stream),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Ok(Err(error)),
            }
            if let Some(ready) = self.ready() {
                return Ok(Ok(ready));
            }
            let mut fds = [PollFd::new(self.listener.as_fd(), PollFlags::POLLIN)];
            match poll(&mut fds, tick) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error).context("waiting for somebody to measure"),
            }
        }
        Err(Interrupted("stopped while nobody measured".into()).into())
    }

    fn admit(&mut self, stream: TcpStream) {
        if self.silent.len() == SILENT_MAX {
            self.silent.pop_front();
        }
        self.silent.push_back((stream, Instant::now()));
    }

    /// The first one that has said a line, or has ended; who has been silent for too long is turned away.
    fn ready(&mut self) -> Option<TcpStream> {
        self.silent
            .retain(|(_, since)| since.elapsed() < SILENCE_MAX);
        let spoken = self.silent.iter().position(|(one, _)| has_spoken(one))?;
        self.silent.remove(spoken).map(|(stream, _)| stream)
    }
}

/// Whether a line has come, or will never come.
fn has_spoken(stream: &TcpStream) -> bool {
    let mut start = [0; FIRST_LINE];
    let peeked = stream
        .set_nonblocking(true)
        .and_then(|()| stream.peek(&mut start));
    // What is read from it later waits.
    let waits = stream.set_nonblocking(false);
    match peeked {
        Ok(FIRST_LINE | 0) => true,
        Ok(len) => start[..len].contains(&b'\n'),
        Err(error) => error.kind() != ErrorKind::WouldBlock || waits.is_err(),
    }
}

/// Why nobody can be listened to, and what helps.
fn unheard(addr: SocketAddr, error: &io::Error) -> Usage {
    let port = addr.port();
    let cure = match error.kind() {
        ErrorKind::AddrInUse => format!(
            ": another process has the port: `ss -tlpn 'sport = :{port}'` names it, `--listen` takes another one"
        ),
        ErrorKind::AddrNotAvailable => {
            ": this machine has no such address: `ip address` lists those it has, [::] is all of them".into()
        }
        ErrorKind::PermissionDenied if port < 1_024 => {
            ": ports below 1,024 are for root: take a larger one".into()
        }
        _ => String::new(),
    };
    Usage(format!("cannot listen on {addr}: {error}{cure}"))
}

/// Lets a worker talk to the connection as its standard input and output. It ends with the
/// connection, and sends to nobody else.
///
/// # Errors
/// If it can't be started; [`Interrupted`].
fn attend(stream: TcpStream, args: &ServeArgs) -> Result<()> {
    let peer = stream.peer_addr()?.ip().to_canonical();
    stream.set_nodelay(true)?;
    // A machine that is gone without a word ends its turn.
    let keepalive = TcpKeepalive::new()
        .with_time(SILENCE_MAX)
        .with_interval(SILENCE_MAX / 2);
    SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["bench-worker", "--only", &peer.to_string()]);
    if let Some(core) = args.pin {
        command.args(["--core", &core.to_string()]);
    }
    args.layers.pass(&mut command);
    note(format_args!("{peer} measures"));
    let input = OwnedFd::from(stream.try_clone()?);
    let output = OwnedFd::from(stream.try_clone()?);
    let mut worker = command
        .process_group(0)
        .stdin(Stdio::from(input))
        .stdout(Stdio::from(output))
        .spawn()
        .started("a process to measure")?;
    // It has them now, and nobody else but this process.
    drop(command);
    loop {
        if let Some(status) = worker.try_wait()? {
            if status.signal().is_some() {
                let why = format!("the process that served was ended there ({status})");
                tell_why(&stream, &why);
                note(format_args!("{why}: {peer} can't go on"));
            }
            return Ok(());
        }
        if interrupt::requested() {
            // The other machine hears of it, and the worker ends by itself.
            tell_why(
                &stream,
                "`sabani bench serve` was stopped there: start it again",
            );
            stream.shutdown(Shutdown::Both)?;
            worker.wait()?;
            return Err(Interrupted(format!("stopped while {peer} measured")).into());
        }
        thread::sleep(TICK);
    }
}

/// Tells the other machine why no more answers come, in place of one. It may be gone as well.
fn tell_why(stream: &TcpStream, why: &str) {
    let line: Result<Reply, &str> = Err(why);
    if let Ok(line) = serde_json::to_string(&line) {
        // It would wait where nothing is read there any more.
        let _ = stream.set_write_timeout(Some(TICK));
        let _ = (&*stream).write_all((line + "\n").as_bytes());
    }
}
