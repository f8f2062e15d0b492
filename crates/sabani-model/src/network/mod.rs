//! What was measured of a network, as kept in a file.
//!
//! The file is JSON. Names end in their units: `ns` nanoseconds, `bytes`, `bytes_per_s`. Every quantity
//! that was measured has an interval.

mod graph;
mod transport;

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufReader, ErrorKind, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::choose::{Lookup, Row};
pub use graph::{Capacity, Fit, Graph, Group, Host, trunks_between};
pub(crate) use transport::MOST_NOISE;
pub use transport::{Latency, Noise, Point, Recovery, Transport};

/// The version of the file's format.
pub const VERSION: u32 = 4;
/// Longer files are none: a thousand hosts and their table take some megabytes.
const MOST_BYTES: u64 = 256 << 20;

/// No name of a host is longer (RFC 1035), and tables have room for it.
const LONGEST_NAME: usize = 255;
/// Bytes each second; nothing is faster.
const MOST_SPEED: f64 = 1e15;

/// A quantity that was measured: its median, and between what it lies with 90 % confidence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The median.
    pub value: f64,
    /// The interval's lower end.
    pub low: f64,
    /// The interval's upper end.
    pub high: f64,
}

impl Estimate {
    /// Known exactly.
    pub const fn exact(value: f64) -> Self {
        Estimate {
            value,
            low: value,
            high: value,
        }
    }

    /// Refuses what is no interval of numbers from 0 on, of a size that can be calculated with.
    fn check(&self, field: &str) -> Result<(), String> {
        const MOST: f64 = 1e18;
        let Estimate { low, value, high } = *self;
        expect(
            0.0 <= low && low <= value && value <= high && high <= MOST,
            format_args!(
                "{field} is no interval of numbers from 0 to {MOST:e} with its value between low and high"
            ),
        )
    }

    /// Refuses what is no speed that something may have, in bytes each second.
    fn check_speed(&self, field: &str) -> Result<(), String> {
        const LEAST: f64 = 1.0;
        self.check(field)?;
        expect(
            (LEAST..=MOST_SPEED).contains(&self.value),
            format_args!("{field} is not from {LEAST} to {MOST_SPEED:e}"),
        )
    }

    /// The value at a place in the interval: -1 is its lower end, 0 the median, 1 its upper end.
    pub fn at(&self, place: f64) -> f64 {
        let end = if place < 0.0 { self.low } else { self.high };
        self.value + (end - self.value) * place.abs()
    }

    /// What follows from it by a function that grows.
    pub fn map(&self, function: impl Fn(f64) -> f64) -> Self {
        Estimate {
            value: function(self.value),
            low: function(self.low),
            high: function(self.high),
        }
    }

    /// On the way from one estimate (0) to another one (1), and beyond; never negative, where noise lets a
    /// curve fall at its end.
    pub fn towards(&self, other: &Estimate, share: f64) -> Self {
        let mix = |one: f64, other: f64| (one + (other - one) * share).max(0.0);
        Estimate {
            value: mix(self.value, other.value),
            low: mix(self.low, other.low),
            high: mix(self.high, other.high),
        }
    }
}

/// A network, as processes on its hosts see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Network {
    /// Version of the format: [`VERSION`].
    pub version: u32,
    /// Where what hosts send to each other has to pass.
    pub graph: Graph,
    /// Whether those that were measured are processes of one host, and not hosts.
    #[serde(default)]
    pub one_host: bool,
    /// What a message costs, for each transport by its name: `sabani`, `tcp`.
    pub transports: BTreeMap<String, Transport>,
    /// How fast a process copies memory.
    pub copy_bytes_per_s: Estimate,
    /// How fast a process combines what has come in with what it has.
    pub reduce_bytes_per_s: Estimate,
    /// The best algorithms over Sabani, as [`compile`](crate::choose::compile) finds them.
    #[serde(default)]
    pub choices: Vec<Row>,
}

/// Why a file can't be used.
#[derive(Debug)]
pub enum BadNetwork {
    /// It is not JSON, or something is missing.
    Format(serde_json::Error),
    /// It was written by another version.
    Version(u32),
    /// What it says can't be: what, and why.
    Content(String),
}

impl fmt::Display for BadNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadNetwork::Format(why) => write!(
                f,
                "not a description of a network, as `sabani model measure -o FILE` writes them: {why}"
            ),
            BadNetwork::Version(version) => write!(
                f,
                "its format has version {version}, this is version {VERSION}: measure again"
            ),
            BadNetwork::Content(what) => write!(f, "{what}: measure again"),
        }
    }
}

impl std::error::Error for BadNetwork {}

/// Reads the text of a network's file, at most 256 MiB: what never ends, as /dev/zero, would take all memory.
///
/// # Errors
/// If that can't be, there is nothing, or there is more.
pub fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let most = File::open(path)?.take(MOST_BYTES + 1);
    let bytes = BufReader::new(most).read_to_string(&mut text)?;
    let (kind, why) = if bytes as u64 > MOST_BYTES {
        let why = "it is longer than 256 MiB, and no network's description is";
        (ErrorKind::FileTooLarge, why)
    } else if text.trim().is_empty() {
        (ErrorKind::UnexpectedEof, "it is empty")
    } else {
        return Ok(text);
    };
    Err(io::Error::new(kind, why))
}

/// The same of a plain file alone: a pipe that nobody writes into would be waited for without an end.
///
/// # Errors
/// As [`read`], and if it is something else.
pub fn read_plain(path: &Path) -> io::Result<String> {
    match fs::metadata(path)?.is_file() {
        true => read(path),
        false => Err(io::Error::new(
            ErrorKind::InvalidInput,
            "it is no plain file: name one",
        )),
    }
}

impl Network {
    /// Reads what [`to_json`](Network::to_json) has written.
    ///
    /// # Errors
    /// If it can't be used.
    pub fn from_json(text: &str) -> Result<Self, BadNetwork> {
        #[derive(Deserialize)]
        #[serde(expecting = "a network's file, with its version")]
        struct Versioned {
            version: u32,
        }
        // Some editors put a mark in front.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let Versioned { version } = serde_json::from_str(text).map_err(BadNetwork::Format)?;
        if version != VERSION {
            return Err(BadNetwork::Version(version));
        }
        let network: Network = serde_json::from_str(text).map_err(BadNetwork::Format)?;
        network.check().map_err(BadNetwork::Content)?;
        Ok(network)
    }

    /// As JSON, for people to read, too.
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string_pretty(self);
        text.expect("all keys are strings") + "\n"
    }

    /// Why what is made from it may be worth little or nothing, and what to do; `None` if nothing says so.
    pub fn doubt(&self) -> Option<String> {
        let fit = self
            .graph
            .fit
            .filter(|fit| !fit.is_good() || !fit.is_believable())?;
        if fit.is_believable() {
            return Some(format!(
                "no tree of shared links explains what was held back when it was measured (nine of ten flows within {:.0} % \
                 only), so that all intervals are wider by as much: switches that choose among several ways, processors \
                 that are busy, or others' traffic do that",
                100.0 * fit.error_p90.exp_m1(),
            ));
        }
        Some(format!(
            "what was held back when it was measured is predicted within {:.0} % only (median; twice the same differs \
             by {:.0} %), so that what is made from it may be far off: measure again with `sabani model measure` \
             while nothing else uses the network, and with no more ranks than cores",
            100.0 * fit.error.exp_m1(),
            100.0 * fit.noise.exp_m1(),
        ))
    }

    /// Refuses what can't be calculated with, or told.
    fn check(&self) -> Result<(), String> {
        self.graph.check()?;
        if self.transports.is_empty() {
            return Err(
                "nothing says what a message costs: transports is empty, which `sabani model measure -o \
                 FILE` fills"
                    .to_owned(),
            );
        }
        for (name, transport) in &self.transports {
            check_name("transport", name)?;
            let named = |what| format!("transport {name}: {what}");
            transport.check().map_err(named)?;
        }
        let speeds = [
            ("memory's copy_bytes_per_s", self.copy_bytes_per_s),
            ("memory's reduce_bytes_per_s", self.reduce_bytes_per_s),
        ];
        for (field, speed) in speeds {
            speed.check_speed(field)?;
            expect(speed.low > 0.0, format_args!("{field} is not positive"))?;
        }
        for row in &self.choices {
            check_name("collective", &row.collective)?;
            check_name("choice", &row.choice)?;
        }
        let table = Lookup::new(&self.choices);
        table
            .map(|_| ())
            .map_err(|why| format!("its choices: {why}"))
    }
}

/// Refuses what does not hold, with these words.
fn expect(holds: bool, otherwise: impl fmt::Display) -> Result<(), String> {
    match holds {
        true => Ok(()),
        false => Err(otherwise.to_string()),
    }
}

/// Refuses what no table has room for, and what a terminal would obey in place of showing it.
fn check_name(what: &str, name: &str) -> Result<(), String> {
    expect(
        name.len() <= LONGEST_NAME,
        format_args!("the name of a {what} is longer than {LONGEST_NAME} bytes"),
    )?;
    expect(
        !name.chars().any(char::is_control),
        format_args!(
            "the name of a {what} has control characters: {}",
            name.escape_debug()
        ),
    )
}

fn is_positive(value: f64) -> bool {
    value > 0.0 && value.is_finite()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_an_end_is_not_read_to_it() {
        let why = read(Path::new("/dev/zero")).unwrap_err();
        assert_eq!(why.kind(), ErrorKind::FileTooLarge);
        let why = read(Path::new("/dev/null")).unwrap_err();
        assert_eq!(why.to_string(), "it is empty");
        for other in ["/dev/null", "/"] {
            let why = read_plain(Path::new(other)).unwrap_err();
            assert!(why.to_string().contains("no plain file"), "{why}");
        }
    }

    #[test]
    fn what_was_written_is_read_again() {
        let network = crate::testing::switched(4);
        let text = network.to_json();
        assert_eq!(Network::from_json(&text).unwrap(), network);
        let marked = format!("\u{feff}{text}");
        assert_eq!(Network::from_json(&marked).unwrap(), network);
    }

    #[test]
    fn a_file_that_predicts_badly_is_doubted() {
        let mut network = crate::testing::switched(4);
        let mut doubt_of = |error: f64, noise: f64| {
            network.graph.fit = Some(Fit {
                error: error.ln_1p(),
                noise: noise.ln_1p(),
                ..Fit::default()
            });
            network.doubt()
        };
        assert_eq!(doubt_of(0.05, 0.02), None);
        let no_tree = doubt_of(0.2, 0.02).expect("it is doubted");
        assert!(no_tree.starts_with("no tree"), "{no_tree}");
        for (error, noise) in [(2.93, 0.02), (0.01, 0.5)] {
            let doubt = doubt_of(error, noise).expect("it is doubted");
            let said = format!("within {:.0} %", 100.0 * error);
            assert!(
                doubt.contains(&said) && doubt.contains("measure again"),
                "{doubt}"
            );
        }
    }

    #[test]
    fn what_can_not_be_used_is_refused_with_the_reason() {
        let with = |change: fn(&mut Network)| {
            let mut network = crate::testing::switched(4);
            change(&mut network);
            let why = Network::from_json(&network.to_json()).unwrap_err();
            why.to_string()
        };
        assert!(with(|network| network.version = 9).contains("version 9"));
        assert!(with(|network| network.graph.hosts.clear()).contains("no hosts"));
        assert!(with(|network| network.copy_bytes_per_s.low = 0.0).contains("memory"));
        assert!(with(|network| network.copy_bytes_per_s.value = 1e-300).contains("memory"));
        let inside = with(|network| {
            network.graph.local.bytes_per_s = Some(Estimate::exact(0.0));
        });
        assert!(inside.contains("one host"), "{inside}");
        let no_points = with(|network| {
            let tcp = network.transports.get_mut("tcp").unwrap();
            tcp.points.clear();
        });
        assert!(no_points.contains("tcp"), "{no_points}");
        let long = with(|network| network.graph.hosts[1].name = "x".repeat(256));
        assert!(long.contains("longer than 255"), "{long}");
        let endless = with(|network| {
            let tcp = network.transports.get_mut("tcp").unwrap();
            tcp.noise = vec![Noise {
                bytes: 1e308,
                ratios: vec![1.0, 2.0],
            }];
        });
        assert!(endless.contains("noise"), "{endless}");
        let circle = with(|network| {
            let hosts = vec![0];
            let mut group = Group::new("a", hosts);
            group.parent = Some(0);
            network.graph.groups = vec![group];
        });
        assert!(circle.contains("group a"), "{circle}");
        let deep = with(|network| {
            let inside = |at: usize| Group {
                parent: at.checked_sub(1),
                ..Group::new(format!("group{at}"), Vec::new())
            };
            network.graph.groups = (0..100).map(inside).collect();
        });
        assert!(
            deep.contains("group group64: it lies in more groups"),
            "{deep}"
        );
        let many = with(|network| {
            network.graph.groups = vec![Group::new("", Vec::new()); (1 << 18) + 1];
        });
        assert!(many.contains("more than 262144 hosts or groups"), "{many}");
        assert!(Network::from_json("{}").is_err());
    }

    fn row(collective: &str) -> Row {
        Row {
            collective: collective.to_owned(),
            ranks: 4,
            hosts: 4,
            bytes: 0,
            choice: "chain".to_owned(),
            expected_ns: 1.0,
            rule_ns: 2.0,
        }
    }

    /// What is said of a file with such a transport.
    fn refused_with(change: fn(&mut Transport)) -> String {
        let mut network = crate::testing::switched(4);
        let tcp = network.transports.get_mut("tcp").unwrap();
        tcp.noise = vec![Noise {
            bytes: 0.0,
            ratios: vec![0.5, 1.0, 2.0],
        }];
        change(tcp);
        let why = Network::from_json(&network.to_json()).unwrap_err();
        why.to_string()
    }

    #[test]
    fn numbers_that_are_out_of_order_or_none_are_refused_by_their_names() {
        type Change = fn(&mut Transport);
        let refused: [(Change, &str); 15] = [
            (|tcp| tcp.latencies.clear(), "latencies is empty"),
            (
                |tcp| tcp.latencies = tcp.latencies.repeat(2),
                "trunks do not ascend",
            ),
            (
                |tcp| tcp.latencies[0].empty_ns.low = -1.0,
                "latencies: empty_ns",
            ),
            (
                |tcp| tcp.latencies[0].packet_ns.high = 0.0,
                "latencies: packet_ns",
            ),
            (|tcp| tcp.points.swap(0, 1), "points: bytes do not ascend"),
            (|tcp| tcp.points[2].bytes = 1e300, "points: bytes"),
            (
                |tcp| tcp.points[1].send_ns = Estimate::exact(-5.0),
                "points: send_ns",
            ),
            (
                |tcp| tcp.points[1].receive_ns.low = 1e9,
                "points: receive_ns",
            ),
            (
                |tcp| tcp.points[0].gap_ns = Estimate::exact(0.0),
                "points: gap_ns",
            ),
            (|tcp| tcp.noise.extend(tcp.noise.clone()), "noise: bytes"),
            (
                |tcp| tcp.noise[0].ratios.swap(0, 1),
                "noise: ratios do not ascend",
            ),
            (
                |tcp| tcp.noise[0].ratios[0] = -0.5,
                "noise: ratios are not positive",
            ),
            (|tcp| tcp.noise[0].ratios.clear(), "noise: ratios is empty"),
            (
                |tcp| tcp.recovery.later_ns.value = -1.0,
                "recovery: later_ns",
            ),
            (
                |tcp| tcp.recovery.later_packets = 0,
                "recovery: later_packets",
            ),
        ];
        for (change, said) in refused {
            let why = refused_with(change);
            assert!(
                why.contains("transport tcp: ") && why.contains(said),
                "{why}"
            );
        }
    }

    #[test]
    fn capacities_fits_and_times_of_choices_that_can_not_be_are_refused() {
        let with = |change: fn(&mut Network)| {
            let mut network = crate::testing::switched(4);
            network.graph.fit = Some(Fit::default());
            network.choices = vec![row("bcast")];
            assert!(Network::from_json(&network.to_json()).is_ok());
            change(&mut network);
            let why = Network::from_json(&network.to_json()).unwrap_err();
            why.to_string()
        };
        let negative = with(|network| network.graph.fit.as_mut().unwrap().noise = -0.1);
        assert!(negative.contains("fit: noise"), "{negative}");
        let endless = with(|network| network.graph.fit.as_mut().unwrap().error_p90 = 1e3);
        assert!(endless.contains("fit: error_p90"), "{endless}");
        let above = with(|network| network.graph.fit.as_mut().unwrap().error = 0.5);
        assert!(above.contains("above error_p90"), "{above}");
        let probed = with(|network| network.graph.hosts[2].into.probed_bytes_per_s = -1.0);
        assert!(
            probed.contains("host2: into: probed_bytes_per_s"),
            "{probed}"
        );
        let queue =
            with(|network| network.graph.hosts[0].out.queue_bytes = Some(Estimate::exact(0.0)));
        assert!(queue.contains("host0: out: queue_bytes"), "{queue}");
        let time = with(|network| network.choices[0].rule_ns = -2.0);
        assert!(time.contains("rule_ns"), "{time}");
        let unlimited = with(|network| {
            network.graph.hosts[1].out.bytes_per_s = None;
            network.graph.hosts[2].into.bytes_per_s = None;
        });
        assert!(
            unlimited.contains("what host host1 sends nor what host host2 receives"),
            "{unlimited}"
        );
        let memory = with(|network| network.reduce_bytes_per_s = Estimate::exact(1e300));
        assert!(memory.contains("reduce_bytes_per_s"), "{memory}");
    }

    #[test]
    fn a_file_without_transports_says_what_is_missing_and_how_to_get_it() {
        let mut network = crate::testing::switched(4);
        network.transports.clear();
        let why = Network::from_json(&network.to_json())
            .unwrap_err()
            .to_string();
        assert!(why.contains("transports is empty"), "{why}");
        assert!(why.contains("`sabani model measure -o FILE`"), "{why}");
    }

    #[test]
    fn a_name_that_a_terminal_would_obey_is_refused_and_not_obeyed() {
        type Named = fn(&mut Network, String);
        let refused: [(Named, &str); 4] = [
            (|network, name| network.graph.hosts[1].name = name, "a host"),
            (
                |network, name| network.graph.groups = vec![Group::new(name, vec![1])],
                "a group",
            ),
            (
                |network, name| {
                    let tcp = network.transports["tcp"].clone();
                    network.transports.insert(name, tcp);
                },
                "a transport",
            ),
            (
                |network, name| {
                    network.choices = vec![row(&name)];
                },
                "a collective",
            ),
        ];
        for (name_it, what) in refused {
            let mut network = crate::testing::switched(4);
            name_it(&mut network, "\u{1b}]0;owned\u{7}".to_owned());
            let why = Network::from_json(&network.to_json())
                .unwrap_err()
                .to_string();
            assert!(
                why.contains(what) && why.contains("control characters"),
                "{why}"
            );
            assert!(!why.chars().any(char::is_control), "{why:?}");
        }
    }
}
