//! A process on a host, as the one that reports sees it.

use std::{
    io::{BufRead, BufReader, Read, Write},
    os::unix::process::CommandExt,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use super::protocol::{self, Reply};
use crate::{
    exit::Interrupted,
    interrupt::{self, TICK},
};

/// A process, killed when dropped.
pub struct Process {
    name: String,
    child: Child,
    input: ChildStdin,
    replies: Receiver<Result<Reply>>,
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    /// Starts a process, out of reach of the terminal's Ctrl-C: ending it is this one's affair.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start(name: String, mut command: Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        let input = child.stdin.take().context("no way to talk to a process")?;
        let output = child.stdout.take().context("no way to hear a process")?;
        Ok(Self {
            name,
            child,
            input,
            replies: listen(output),
        })
    }

    /// Tells it something, and waits for the answer.
    ///
    /// # Errors
    /// If it fails, is gone, needs longer than `patience`, or if the user interrupts.
    pub fn ask(&mut self, command: &protocol::Command, patience: Duration) -> Result<Reply> {
        // If it is gone, there is no answer either.
        let _ = writeln!(self.input, "{}", serde_json::to_string(command)?);
        let start = Instant::now();
        while start.elapsed() < patience {
            if interrupt::requested() {
                return Err(Interrupted("interrupted".into()).into());
            }
            match self.replies.recv_timeout(TICK) {
                Ok(Ok(Reply::Failed { error })) => bail!("{}: {error}", self.name),
                Ok(reply) => return reply.with_context(|| self.name.clone()),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => bail!("{} has ended", self.name),
            }
        }
        bail!("{}: no answer for {patience:?}", self.name)
    }
}

/// Reads replies in a thread that ends with the process.
fn listen(output: impl Read + Send + 'static) -> Receiver<Result<Reply>> {
    let (sender, replies) = channel();
    thread::spawn(move || {
        for line in BufReader::new(output).lines() {
            let reply = line
                .map_err(anyhow::Error::from)
                .and_then(|line| serde_json::from_str(&line).context("not an answer"));
            if sender.send(reply).is_err() {
                return;
            }
        }
    });
    replies
}
