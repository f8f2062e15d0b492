//! A whole run as a value: hosts, network, settings, faults, mishaps and traffic, readable as TOML.
//!
//! [`Plan::run`] makes a network of it and says what came of it; [`Plan::from_seed`] draws one;
//! [`shrink()`] makes one that fails smaller. The same plan and the same commit give the same run.
//!
//! | module | what it holds |
//! |---|---|
//! | [`settings`] | what a plan may say, field by field |
//! | `draw` | plans out of seeds |
//! | `run` | a plan's network, and its course |
//! | [`outcome`] | what came of it, in figures |
//! | [`shrink`](mod@shrink) | the smallest plan that still fails |
//! | `text` | reading and writing TOML, and what may be wrong in it |

mod draw;
pub mod outcome;
mod run;
pub mod settings;
pub mod shrink;
mod text;

use serde::{Deserialize, Serialize};

pub use outcome::{Outcome, Round, StreamOutcome};
pub use settings::{
    Credit, Fault, Hosts, Medium, Mishap, PathSettings, ProgramSettings, Recovery, Seal, Settings,
    Shape, Traffic, What,
};
pub use shrink::{Shrunk, shrink};
pub use text::PlanError;

use crate::{Bug, Time};

/// A whole run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Plan {
    /// Where all chance comes from.
    pub seed: u64,
    /// Hosts, from number 0 on. All know each other.
    pub hosts: u32,
    /// How packets are protected.
    pub seal: Seal,
    /// How long after the last thing that happens by itself everything must be settled. By default
    /// what faults, mishaps, rates and delays allow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patience: Option<Time>,
    /// A bug to plant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary: Option<Bug>,
    /// What joins the hosts.
    pub network: Medium,
    /// What differs from the defaults of a node.
    #[serde(skip_serializing_if = "Settings::is_default")]
    pub settings: Settings,
    /// Ways between hosts that differ from the network.
    #[serde(rename = "path", skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<PathSettings>,
    /// Hosts and programs that differ from the others.
    #[serde(rename = "program", skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<ProgramSettings>,
    /// What the network does to datagrams, and when.
    #[serde(rename = "fault", skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Fault>,
    /// What happens to hosts.
    #[serde(rename = "mishap", skip_serializing_if = "Vec::is_empty")]
    pub mishaps: Vec<Mishap>,
    /// What programs send.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub traffic: Vec<Traffic>,
}

impl Plan {
    /// The bytes of all messages that programs are to send.
    pub fn bytes(&self) -> u64 {
        let streams = self.traffic.iter();
        let bytes = streams.map(|stream| stream.messages(self.hosts) * stream.bytes.0);
        bytes.sum()
    }

    /// When the last thing happens that the plan gives a time for.
    pub fn last_ns(&self) -> u64 {
        let faults = self.faults.iter().filter_map(|fault| fault.until);
        let mishaps = self.mishaps.iter().map(|mishap| mishap.ends());
        let traffic = self.traffic.iter().map(Traffic::last_start);
        let times = faults.chain(mishaps).chain(traffic);
        times.map(|time| time.0).max().unwrap_or(0)
    }

    /// How long the transport may take once nothing goes wrong any more.
    pub fn patience_ns(&self) -> u64 {
        if let Some(Time(patience_ns)) = self.patience {
            return patience_ns;
        }
        let paths = self.paths.iter();
        let rates = paths.clone().filter_map(|path| path.rate);
        let rates = rates.chain([self.network.rate]).map(|rate| rate.0);
        let slowest = rates.filter(|&rate| rate > 0).min().unwrap_or(u64::MAX);
        let transfer_ns = u128::from(self.bytes()) * 8_000_000_000 / u128::from(slowest);
        let delays = paths.filter_map(|path| path.delay);
        let slowness = self
            .faults
            .iter()
            .map(|fault| fault.jitter.0 + fault.late.0);
        let delays = delays.chain([self.network.delay]).map(|delay| delay.0);
        let delay_ns = delays.max().unwrap_or(0) + slowness.max().unwrap_or(0);
        let lasting = |fault: &&Fault| fault.until.is_none();
        let loss = self.faults.iter().filter(lasting).map(Fault::harm);
        let slower = 8.0 + 200.0 * loss.fold(0.0, f64::max);
        let queues = self.paths.iter().filter_map(|path| path.queue);
        let queues = queues.chain(self.network.queue).chain(self.network.buffer);
        let window = self.settings.least_window(self.hosts);
        let window = queues.map(|queue| queue.0).fold(window, u64::min);
        let trips = 400 + self.bytes() / (window / 4).max(1);
        let program_ns = self.programs.iter().map(ProgramSettings::trip_ns).max();
        let trip_ns = 2 * delay_ns + program_ns.unwrap_or(0);
        let work_ns = transfer_ns as f64 * slower + (trips * trip_ns) as f64;
        let mishaps = !self.mishaps.is_empty() || self.faults.iter().any(Fault::is_severe);
        let grief_ns = u64::from(mishaps) * self.settings.grief_ns();
        let apart = self.disconnects();
        let apart_ns = u64::from(apart) * self.settings.disconnected_max_ns();
        let vain_ns = self.messages_in_vain() * self.settings.connect_timeout_ns();
        3 * crate::SEC + work_ns as u64 + grief_ns + apart_ns + vain_ns
    }

    /// Whether a program disconnects: should it die then, its peers wait for it longer than for others.
    fn disconnects(&self) -> bool {
        let mut mishaps = self.mishaps.iter();
        mishaps.any(|mishap| mishap.what == What::Disconnect)
    }

    /// Messages to hosts that go and may not come back, or be where nobody knows: a program with a
    /// short queue may find out for each of them that there is nobody.
    fn messages_in_vain(&self) -> u64 {
        let goes = |mishap: &&Mishap| matches!(mishap.what, What::Crash | What::Close | What::Move);
        let gone: Vec<_> = self.mishaps.iter().filter(goes).collect();
        let to_gone = |stream: &Traffic| {
            let pairs = stream.pairs(self.hosts);
            let vain = pairs.filter(|&(_, to)| gone.iter().any(|mishap| mishap.host == to));
            vain.count() as u64 * u64::from(stream.messages) * u64::from(stream.rounds)
        };
        self.traffic.iter().map(to_gone).sum()
    }
}
