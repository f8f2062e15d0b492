//! A whole run as a value: hosts, network, settings, faults, mishaps and traffic, readable as TOML.
//!
//! [`Plan::run`] makes a network of it and says what came of it; [`Plan::from_seed`] draws one;
//! [`shrink()`] makes one that fails smaller. The same plan and the same commit give the same run.
//!
//! | module | what it holds |
//! |---|---|
//! | [`settings`] | what a plan may say, field by field |
//! | `draw` | plans out of seeds |
//! | `patience` | how long a plan may take |
//! | `run` | a plan's network, and its course |
//! | [`outcome`] | what came of it, in figures |
//! | [`shrink`](mod@shrink) | the smallest plan that still fails |
//! | `sound` | what a plan must say to be run |
//! | `text` | reading and writing TOML, and what may be wrong in it |

mod draw;
pub mod outcome;
mod patience;
mod run;
pub mod settings;
pub mod shrink;
mod sound;
mod text;

use serde::{Deserialize, Serialize};

pub use outcome::{Outcome, Round, StreamOutcome, TcpOutcome};
pub use settings::{
    Congestion, Credit, Fault, Hosts, Medium, Mishap, PathSettings, ProgramSettings, Recovery,
    Seal, Setting, Settings, Shape, TcpFlows, Traffic, What,
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
    /// Hosts, from number 0 on. Those that send to each other know each other.
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
    /// Others that share the network.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tcp: Vec<TcpFlows>,
}

impl Plan {
    /// The bytes of all messages that programs are to send.
    pub fn bytes(&self) -> u64 {
        let streams = self.traffic.iter();
        let bytes = streams.map(|stream| stream.messages(self.hosts) * stream.bytes.0);
        bytes.fold(0, u64::saturating_add)
    }

    /// All messages that programs are to send.
    pub fn messages(&self) -> u64 {
        let streams = self.traffic.iter();
        streams.map(|stream| stream.messages(self.hosts)).sum()
    }

    /// When the last thing happens that the plan gives a time for.
    pub fn last_ns(&self) -> u64 {
        let spells = self.faults.iter().flat_map(Fault::spells);
        let faults = spells.filter_map(|(_, until)| until);
        let mishaps = self.mishaps.iter().map(|mishap| mishap.ends());
        let traffic = self.traffic.iter().map(Traffic::last_start);
        let tcp = self.tcp.iter().map(|flows| flows.until.unwrap_or(flows.at));
        let times = faults.chain(mishaps).chain(traffic).chain(tcp);
        times.map(|time| time.0).max().unwrap_or(0)
    }
}
