//! A process on a host: obeys lines on its standard input, answers on its standard output.

use std::io::{BufRead, stdin};

use anyhow::{Context, Result, bail};

use super::{
    protocol::{Command, Reply},
    receiver::Receiver,
    sender::Sender,
};
use crate::bench::workers::answer;

/// Obeys until standard input ends.
///
/// # Errors
/// If standard output is gone. What fails in between is answered.
pub fn run() -> Result<()> {
    let mut worker = Worker::Idle;
    for line in stdin().lock().lines() {
        let command = serde_json::from_str(&line?).context("not a command")?;
        answer(worker.obey(command))?;
    }
    Ok(())
}

/// What the process has become.
enum Worker {
    Idle,
    Sender(Sender),
    Receiver(Receiver),
}

impl Worker {
    fn obey(&mut self, command: Command) -> Result<Reply> {
        Ok(match (&mut *self, command) {
            (Self::Idle, Command::Answer(setup)) => {
                *self = Self::Sender(Sender::open(&setup)?);
                Reply::Ready
            }
            (Self::Idle, Command::Ask { setup, senders }) => {
                *self = Self::Receiver(Receiver::open(&setup, senders)?);
                Reply::Ready
            }
            (Self::Sender(sender), Command::Count { transport }) => {
                Reply::Counts(sender.count(transport)?)
            }
            (Self::Receiver(receiver), Command::RoundTrip) => Reply::RoundTrip {
                ns: receiver.round_trip()?.as_nanos() as u64,
            },
            (Self::Receiver(receiver), Command::Turn(turn)) => Reply::Done(receiver.turn(turn)?),
            (_, command) => bail!("not now: {command:?}"),
        })
    }
}
