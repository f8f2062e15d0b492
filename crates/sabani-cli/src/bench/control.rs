//! What the process that reports tells the two that are measured, and what they answer.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::{
    task::Task,
    transport::{Key, Role, Transport},
};

/// Changes whenever commands or replies do: both ends must have the same.
pub const VERSION: u32 = 3;

/// What a process is told to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// Comes first. Answered by `Hello`.
    Hello { version: u32 },
    /// Open an endpoint. The key is the same for both, and new in every run. Answered by `Opened`.
    Open {
        transport: Transport,
        role: Role,
        bind: IpAddr,
        key: Key,
    },
    /// Meet the other end. Answered by `Joined`.
    Join {
        transport: Transport,
        peer: SocketAddr,
    },
    /// Begin to answer (echo, count) until `Stop`. Answered by `Serving`, and at the end by `Finished`.
    Serve { transport: Transport, task: Task },
    /// Do a turn's work. Answered by `Finished`.
    Run { transport: Transport, task: Task },
    /// The other end has finished, having sent so many messages.
    Stop { messages: u64 },
}

/// What a process answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// It is there.
    Hello,
    /// The endpoint is open here.
    Opened { addr: SocketAddr },
    /// The ends have met.
    Joined,
    /// It has begun to serve.
    Serving,
    /// The turn is over.
    Finished(Outcome),
}

/// What came of a turn, at one end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// A server has nothing to tell.
    Served,
    /// A burst's sender tells how much it sent.
    Sent { messages: u64 },
    /// Whole round trips: (ns, how many of them), ascending.
    Ping {
        round_trips_ns: Vec<(u64, u64)>,
        lost: u64,
    },
    /// What arrived after warm-up, how long it took, and how many messages arrived in all.
    Burst {
        bytes: u64,
        elapsed: Duration,
        messages: u64,
    },
    /// How long all transactions took together.
    Transactions { elapsed: Duration },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::measure::Limit;

    #[test]
    fn commands_survive_the_way() {
        for command in [
            Command::Open {
                transport: Transport::Sabani,
                role: Role::Client,
                bind: "127.0.0.1".parse().unwrap(),
                key: Key::random().unwrap(),
            },
            Command::Join {
                transport: Transport::RawUdp,
                peer: "[::1]:7".parse().unwrap(),
            },
            Command::Run {
                transport: Transport::TcpBbr,
                task: Task::Burst {
                    size: 4,
                    limit: Limit::Time(Duration::from_millis(200)),
                },
            },
            Command::Stop { messages: u64::MAX },
        ] {
            let line = serde_json::to_string(&command).unwrap();
            assert_eq!(serde_json::from_str::<Command>(&line).unwrap(), command);
        }
    }
}
