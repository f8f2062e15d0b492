//! Plans out of seeds. Each seed turns features on and off (swarm testing): what never happens
//! together with everything else is found when it is alone.

use super::{
    Fault, Hosts, Medium, Mishap, PathSettings, Plan, ProgramSettings, Seal, Settings, Shape,
    Traffic, What,
};
use crate::{Rate, Rng, Size, Time};

const KIB: u64 = 1 << 10;
const US: u64 = crate::US;
const MS: u64 = crate::MS;

/// Sizes at which something changes: nothing, inline or not, one packet or several, eager or
/// granted.
const SIZES: [u64; 12] = [
    0, 5, 64, 700, 1_024, 1_025, 1_400, 9_000, 70_000, 262_144, 300_000, 400_000,
];
/// Bytes of the buffers that receives bring: no message is larger.
const BUFFER: Size = Size(400_000);
/// Where memory is this short, receives must bring buffers.
const SHORT_MEMORY: Size = Size(64 * KIB);
/// Most bytes that programs send in all: many short runs find more than few long ones.
const TRAFFIC: u64 = 6 << 20;
/// Traffic begins, and most faults end, before this.
const ACTIVE: u64 = 250 * MS;

struct Dice(Rng);

impl Dice {
    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.0.below(from.len() as u64) as usize].clone()
    }

    fn maybe<T>(&mut self, probability: f64, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.0.chance(probability).then(|| value(self))
    }

    fn size(&mut self, from: &[u64]) -> Size {
        Size(self.pick(from))
    }

    fn time_below(&mut self, bound_ns: u64) -> Time {
        // Whole microseconds are easier to read.
        Time(self.0.below(bound_ns / US) * US)
    }

    fn host(&mut self, hosts: u32) -> u32 {
        self.0.below(u64::from(hosts)) as u32
    }

    /// Two different hosts.
    fn pair(&mut self, hosts: u32) -> (Hosts, Hosts) {
        let from = self.host(hosts);
        let to = (from + 1 + self.host(hosts - 1)) % hosts;
        (Hosts::one(from), Hosts::one(to))
    }
}

impl Plan {
    /// The plan of a seed. The same seed and the same commit give the same plan.
    pub fn from_seed(seed: u64) -> Plan {
        let dice = &mut Dice(Rng::new(seed ^ 0x5aba_0000_0000_0000));
        let hosts = dice.pick(&[2, 2, 3, 4, 5, 8]);
        let seal = dice.pick(&[Seal::Sealed, Seal::Sealed, Seal::Checked, Seal::Plain]);
        let network = medium(dice);
        let settings = settings(dice);
        let mut plan = Plan {
            seed,
            hosts,
            seal,
            network,
            programs: programs(dice, hosts, &settings),
            settings,
            ..Plan::default()
        };
        if plan.network.shape == Shape::Mesh {
            let count = dice.pick(&[0, 0, 1, 3]);
            plan.paths = (0..count).map(|_| path(dice, hosts)).collect();
        }
        let count = dice.pick(&[0, 1, 2, 4, 8]);
        plan.faults = (0..count).map(|_| fault(dice, hosts, seal)).collect();
        plan.faults.retain(|fault| !fault.without_one().is_empty());
        let count = dice.pick(&[0, 0, 0, 1, 2, 4]);
        plan.mishaps = (0..count).map(|_| mishap(dice, hosts)).collect();
        let count = dice.pick(&[1, 4, 12, 30]);
        let mut room = TRAFFIC;
        for stream in (0..count).map(|_| traffic(dice, hosts)) {
            let bytes = stream.messages(hosts) * stream.bytes.0;
            if bytes <= room {
                room -= bytes;
                plan.traffic.push(stream);
            }
        }
        plan
    }
}

fn medium(dice: &mut Dice) -> Medium {
    let shape = dice.pick(&[Shape::Mesh, Shape::Mesh, Shape::Star]);
    let mut medium = Medium {
        shape,
        rate: Rate(dice.pick(&[100_000_000, 1_000_000_000, 10_000_000_000, 0])),
        delay: Time(dice.pick(&[5 * US, 50 * US, MS, 20 * MS])),
        mtu: dice.size(&[1_472, 1_472, 1_200, 8_972]),
        queue: dice.maybe(0.4, |dice| dice.size(&[16 * KIB, 64 * KIB, 256 * KIB])),
        ..Medium::default()
    };
    if shape == Shape::Star {
        medium.buffer = dice.maybe(0.2, |dice| dice.size(&[64 * KIB, 512 * KIB]));
        medium.mark_above = dice.maybe(0.2, |dice| dice.size(&[8 * KIB, 32 * KIB]));
    }
    medium
}

fn settings(dice: &mut Dice) -> Settings {
    let some = dice.pick(&[0.0, 0.1, 0.4]);
    let times = |times: &'static [u64]| move |dice: &mut Dice| Time(dice.pick(times));
    let sizes = |sizes: &'static [u64]| move |dice: &mut Dice| dice.size(sizes);
    Settings {
        socket_buffer: dice.maybe(some, sizes(&[64 * KIB, 1 << 20])),
        window_max: dice.maybe(some, sizes(&[8 * KIB, 64 * KIB, 4 << 20])),
        max_datagram: dice.maybe(some, sizes(&[1_200, 8_972, 65_507])),
        eager_max: dice.maybe(some, sizes(&[0, 2 * KIB, 1 << 20])),
        send_queue: dice.maybe(some, sizes(&[1, 64 * KIB, 32 << 20])),
        log_window: dice.maybe(some, sizes(&[KIB, 16 * KIB, 1 << 20])),
        log_window_max: dice.maybe(some, sizes(&[16 * KIB, 256 * KIB])),
        memory: dice.maybe(some, sizes(&[SHORT_MEMORY.0, 1 << 20, 8 << 20])),
        ack_every: dice.maybe(some, |dice| dice.pick(&[1, 4, 20])),
        ack_delay: dice.maybe(some, times(&[0, 25 * US, MS])),
        max_ack_delay: dice.maybe(some, times(&[200 * US, 5 * MS])),
        dead_after: dice.maybe(some, times(&[500 * MS, 2_000 * MS])),
        // Shorter ones would never leave the network at rest.
        keep_alive: dice.maybe(some, times(&[500 * MS, 1_000 * MS])),
        connect_timeout: dice.maybe(some, times(&[500 * MS, 1_000 * MS])),
    }
}

fn programs(dice: &mut Dice, hosts: u32, settings: &Settings) -> Vec<ProgramSettings> {
    let short = settings.memory == Some(SHORT_MEMORY);
    let mut programs = Vec::new();
    for host in 0..hosts {
        let post = match short {
            true => Some(1),
            false => dice.maybe(0.3, |dice| dice.pick(&[1, 2, 8])),
        };
        let roomy = settings.memory.is_none();
        let buffer = post
            .filter(|_| !roomy || dice.0.chance(0.5))
            .map(|_| BUFFER);
        let program = ProgramSettings {
            host: Hosts::one(host),
            post,
            buffer,
            packet_cost: dice.maybe(0.1, |dice| Time(dice.pick(&[US, 5 * US]))),
            wake: dice.maybe(0.1, |dice| Time(dice.pick(&[50 * US, MS]))),
            drift_ppm: dice
                .maybe(0.1, |dice| dice.pick(&[-200, 200, 50_000]))
                .unwrap_or(0),
        };
        let plain = ProgramSettings {
            host: Hosts::one(host),
            ..ProgramSettings::default()
        };
        if program != plain {
            programs.push(program);
        }
    }
    programs
}

fn path(dice: &mut Dice, hosts: u32) -> PathSettings {
    let (from, to) = dice.pair(hosts);
    PathSettings {
        from,
        to,
        rate: dice.maybe(0.5, |dice| Rate(dice.pick(&[20_000_000, 1_000_000_000, 0]))),
        delay: dice.maybe(0.5, |dice| Time(dice.pick(&[5 * US, MS, 50 * MS]))),
        mtu: dice.maybe(0.2, |dice| dice.size(&[1_200, 1_300])),
        queue: dice.maybe(0.3, |dice| dice.size(&[8 * KIB, 64 * KIB])),
    }
}

fn fault(dice: &mut Dice, hosts: u32, seal: Seal) -> Fault {
    let (from, to) = match dice.0.chance(0.3) {
        true => (Hosts::All, Hosts::All),
        false => dice.pair(hosts),
    };
    let some = dice.pick(&[0.15, 0.4]);
    let mut chance = |values: &[f64]| dice.maybe(some, |dice| dice.pick(values)).unwrap_or(0.0);
    let mut fault = Fault {
        from,
        to,
        loss: chance(&[0.005, 0.05, 0.2]),
        burst: chance(&[0.003]),
        duplicate: chance(&[0.05]),
        reorder: chance(&[0.1]),
        corrupt: chance(&[0.02]),
        truncate: chance(&[0.01]),
        replay: chance(&[0.02]),
        late: Time(2 * MS),
        ..Fault::default()
    };
    if seal == Seal::Plain {
        // Who sends without a checksum is told what damage may do.
        (fault.corrupt, fault.truncate) = (0.0, 0.0);
    }
    fault.burst_len = if fault.burst > 0.0 { 20 } else { 0 };
    fault.jitter = dice.maybe(some, |_| Time(200 * US)).unwrap_or_default();
    fault.cut = dice.0.chance(0.15);
    fault.mtu = dice.maybe(0.1, |_| Size(1_200));
    fault.at = dice.time_below(ACTIVE);
    let lasts_ns = match dice.0.chance(0.1) {
        true => 6_000 * MS,
        false => ACTIVE,
    };
    fault.until = Some(Time(fault.at.0 + dice.time_below(lasts_ns).0));
    if !fault.cut && fault.mtu.is_none() && dice.0.chance(0.3) {
        (fault.at, fault.until) = (Time(0), None);
    }
    fault
}

fn mishap(dice: &mut Dice, hosts: u32) -> Mishap {
    let what = dice.pick(&[What::Restart, What::Stall, What::Stall]);
    let lasts = match what {
        What::Stall => dice.time_below(300 * MS),
        What::Restart | What::Crash => Time(0),
    };
    Mishap {
        at: dice.time_below(ACTIVE),
        host: dice.host(hosts),
        what,
        lasts,
    }
}

fn traffic(dice: &mut Dice, hosts: u32) -> Traffic {
    let (one, other) = dice.pair(hosts);
    let (from, to) = match dice.0.below(10) {
        0 => (Hosts::All, other),
        1 => (one, Hosts::All),
        2 => (Hosts::All, Hosts::All),
        _ => (one, other),
    };
    let bytes = dice.size(&SIZES);
    let most = if bytes.0 < 10_000 { 40 } else { 4 };
    let rounds = dice.pick(&[1, 1, 1, 3]);
    Traffic {
        from,
        to,
        bytes,
        messages: 1 + dice.0.below(most) as u32,
        rounds,
        at: dice.time_below(ACTIVE),
        every: dice
            .maybe(0.5, |dice| dice.time_below(20 * MS))
            .filter(|_| rounds > 1),
        tracked: dice.0.chance(0.3),
        ..Traffic::default()
    }
}
