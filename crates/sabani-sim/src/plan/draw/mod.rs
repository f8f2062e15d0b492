//! Plans out of seeds. Each seed turns features on and off (swarm testing): what never happens
//! together with everything else is found when it is alone.

mod dice;
mod patterns;
mod traffic;

use std::fmt::Debug;
use std::str::FromStr;

use dice::Dice;
use patterns::{lull, pattern};
use traffic::{give_value, streams};

use super::{
    Congestion, Credit, Fault, Hosts, Medium, Mishap, PathSettings, Plan, ProgramSettings,
    Recovery, Seal, Settings, Shape, Traffic, What,
};
use crate::{Rate, Rng, Size, Time};

const KIB: u64 = 1 << 10;
const US: u64 = crate::US;
const MS: u64 = crate::MS;
const MBIT: u64 = 1_000_000;
const GBIT: u64 = 1_000 * MBIT;

/// Where memory is this short, receives must bring buffers.
const SHORT_MEMORY: Size = Size(64 * KIB);
/// Most bytes of buffers that are made again and again.
const CHURN: u64 = 256 * KIB;
/// How long processes take to wake up.
const WAKES: [&str; 4] = ["50us", "1ms", "~50us", "5us + 5% ~4ms"];
/// How machines are shared.
const STALLS: [&str; 3] = ["~100us every 1ms", "~4ms every 20ms", "30ms every 200ms"];
/// Traffic begins, and most faults end, before this.
const ACTIVE: u64 = 250 * MS;
/// Long enough for a program that disconnects to come back; short, for those that die meanwhile.
const DISCONNECTED_MAX: Time = Time(3_000 * MS);

/// A value of a table of texts.
fn from_text<T: FromStr<Err: Debug>>(text: &str) -> T {
    text.parse().expect("the table is right")
}

impl Plan {
    /// The plan of a seed. The same seed and the same commit give the same plan.
    pub fn from_seed(seed: u64) -> Plan {
        let dice = &mut Dice(Rng::new(seed ^ 0x5aba_0000_0000_0000));
        let hosts = dice.pick(&[2, 2, 2, 3, 3, 4, 5, 8, 16]);
        let seal = dice.pick(&[Seal::Sealed, Seal::Sealed, Seal::Checked, Seal::Plain]);
        let network = medium(dice);
        let settings = settings(dice);
        let patterned = dice.0.chance(0.4);
        let traffic = match patterned {
            true => pattern(dice, hosts, &settings),
            false => streams(dice, hosts, &settings),
        };
        let mut plan = Plan {
            seed,
            hosts,
            seal,
            network,
            programs: programs(dice, hosts, &settings, &traffic),
            settings,
            traffic,
            ..Plan::default()
        };
        if plan.network.shape == Shape::Mesh {
            let count = dice.pick(&[0, 0, 1, 3]);
            plan.paths = (0..count).map(|_| path(dice, hosts)).collect();
        }
        // What goes wrong explains long waits: less of it, and what ends.
        let calm = patterned && dice.0.chance(0.7);
        let (faults, mishaps) = match calm {
            true => (dice.pick(&[0, 0, 0, 1]), dice.pick(&[0, 1, 1, 2])),
            false => (dice.pick(&[0, 1, 2, 4, 8]), dice.pick(&[0, 0, 0, 1, 2, 4])),
        };
        plan.faults = (0..faults).map(|_| fault(dice, &plan)).collect();
        plan.faults.retain(|fault| !fault.is_idle());
        let strike = if calm { lull } else { mishap };
        plan.mishaps = (0..mishaps).map(|_| strike(dice, &plan)).collect();
        if plan.disconnects() {
            plan.settings.disconnected_max = Some(DISCONNECTED_MAX);
        }
        if dice.0.chance(0.4) {
            for stream in &mut plan.traffic {
                give_value(dice, stream);
            }
        }
        let count = dice.pick(&[0, 0, 1, 3]);
        let steered = (0..count).map(|_| steering(dice, &plan));
        let steered: Vec<_> = steered.collect();
        plan.mishaps.extend(steered);
        plan.settings.ecn = dice.maybe(0.3, |_| true);
        plan.settings.seal_below = dice.maybe(0.3, |_| true);
        plan.settings.late_ack = dice.maybe(0.3, |dice| Time(dice.pick(&[MS, 5 * MS, 50 * MS])));
        let fair = plan.network.shape != Shape::Mesh && dice.0.chance(0.5);
        for program in &mut plan.programs {
            program.fair_queue = fair;
        }
        plan
    }
}

fn medium(dice: &mut Dice) -> Medium {
    let shape = dice.pick(&[Shape::Mesh, Shape::Mesh, Shape::Star]);
    let mut medium = Medium {
        shape,
        rate: Rate(dice.pick(&[20 * MBIT, 100 * MBIT, GBIT, 10 * GBIT, 0])),
        delay: Time(dice.pick(&[5 * US, 50 * US, MS, 20 * MS])),
        mtu: dice.size(&[1_472, 1_472, 1_200, 8_972]),
        queue: dice.maybe(0.4, |dice| {
            dice.size(&[4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB])
        }),
        ..Medium::default()
    };
    if shape == Shape::Star {
        medium.buffer = dice.maybe(0.2, |dice| dice.size(&[16 * KIB, 64 * KIB, 512 * KIB]));
        medium.alpha = dice.maybe(0.1, |dice| dice.pick(&[0.5, 1.0, 8.0]));
        medium.pause_above = dice.maybe(0.1, |dice| dice.size(&[4 * KIB, 32 * KIB]));
        medium.mark_above = dice.maybe(0.2, |dice| dice.size(&[8 * KIB, 32 * KIB]));
    }
    medium
}

fn settings(dice: &mut Dice) -> Settings {
    let some = dice.pick(&[0.0, 0.1, 0.4]);
    let times = |times: &'static [u64]| move |dice: &mut Dice| Time(dice.pick(times));
    let sizes = |sizes: &'static [u64]| move |dice: &mut Dice| dice.size(sizes);
    let mut settings = Settings {
        socket_buffer: dice.maybe(some, sizes(&[64 * KIB, 256 * KIB, 1 << 20])),
        window_max: dice.maybe(some, sizes(&[1, 8 * KIB, 64 * KIB, 4 << 20])),
        max_datagram: dice.maybe(some, sizes(&[1_200, 8_972, 65_507])),
        eager_max: dice.maybe(some, sizes(&[0, 2 * KIB, 1 << 20])),
        send_queue: dice.maybe(some, sizes(&[1, 64 * KIB, 32 << 20])),
        log_window: dice.maybe(some, sizes(&[KIB, 16 * KIB, 1 << 20])),
        log_window_max: dice.maybe(some, sizes(&[16 * KIB, 256 * KIB])),
        memory: dice.maybe(some, sizes(&[SHORT_MEMORY.0, 1 << 20, 8 << 20])),
        ack_every: dice.maybe(some, |dice| dice.pick(&[1, 4, 20])),
        ack_delay: dice.maybe(some, times(&[0, 25 * US, MS])),
        late_ack: None,
        max_ack_delay: dice.maybe(some, times(&[200 * US, 5 * MS])),
        dead_after: dice.maybe(some, times(&[500 * MS, 2_000 * MS])),
        // Shorter ones would never leave the network at rest.
        keep_alive: dice.maybe(some, times(&[500 * MS, 1_000 * MS])),
        connect_timeout: dice.maybe(some, times(&[500 * MS, 1_000 * MS])),
        disconnected_max: None,
        ecn: None,
        seal_below: None,
        credit: dice.maybe(some, |dice| dice.pick(Credit::ALL)),
        recovery: dice.maybe(some, |dice| dice.pick(Recovery::ALL)),
        congestion: dice.maybe(some, |dice| dice.pick(Congestion::ALL)),
        peer_memory: dice.maybe(some, sizes(&[0, 256 * KIB, 1 << 20])),
    };
    if settings.forgets_to_ask() {
        settings.keep_alive = None;
    }
    if dice.0.chance(0.1) {
        crowd(dice, &mut settings);
    }
    settings
}

/// Bodies wait for each other's room.
fn crowd(dice: &mut Dice, settings: &mut Settings) {
    settings.memory = Some(Size(1 << 20));
    settings.peer_memory = Some(dice.size(&[8 * KIB, 64 * KIB]));
    settings.eager_max = Some(dice.size(&[0, 4 * KIB]));
}

fn programs(
    dice: &mut Dice,
    hosts: u32,
    settings: &Settings,
    traffic: &[Traffic],
) -> Vec<ProgramSettings> {
    let largest = traffic.iter().map(|stream| stream.bytes.0).max();
    let buffer = Size(largest.unwrap_or(0).max(1));
    let all = (0..hosts).map(|host| program(dice, host, settings, buffer));
    let mut all: Vec<_> = all.collect();
    all.retain(|program| {
        let plain = ProgramSettings {
            host: program.host.clone(),
            ..ProgramSettings::default()
        };
        *program != plain
    });
    all
}

fn program(dice: &mut Dice, host: u32, settings: &Settings, buffer: Size) -> ProgramSettings {
    let post = match settings.memory == Some(SHORT_MEMORY) {
        true => Some(1),
        false => dice.maybe(0.3, |dice| dice.pick(&[1, 2, 8])),
    };
    let roomy = settings.memory.is_none();
    let brings = post.is_some() && (!roomy || dice.0.chance(0.5));
    let churn = post.map(|ahead| u64::from(ahead) * if brings { buffer.0 } else { 0 });
    let sorts = dice.0.chance(0.3);
    ProgramSettings {
        host: Hosts::one(host),
        post,
        buffer: brings.then_some(buffer),
        by_sender: sorts && dice.0.chance(0.5),
        by_class_bits: if sorts { dice.pick(&[0, 1, 2]) } else { 0 },
        nap: dice
            .maybe(0.1, |dice| Time(dice.pick(&[50 * US, 2 * MS, 30 * MS])))
            .unwrap_or_default(),
        withdraws_every: dice
            .maybe(0.3, |dice| dice.pick(&[1, 3, 20]))
            .filter(|_| churn.is_some_and(|bytes| bytes <= CHURN))
            .unwrap_or(0),
        call_cost: dice
            .maybe(0.1, |dice| Time(dice.pick(&[US, 10 * US])))
            .unwrap_or_default(),
        packet_cost: dice.maybe(0.1, |dice| Time(dice.pick(&[US, 5 * US]))),
        byte_rate: dice
            .maybe(0.1, |dice| Rate(dice.pick(&[GBIT, 10 * GBIT])))
            .unwrap_or_default(),
        batch: dice.maybe(0.1, |dice| dice.pick(&[1, 16])),
        wake: dice.maybe(0.2, |dice| from_text(dice.pick(&WAKES))),
        stalls: dice.maybe(0.1, |dice| from_text(dice.pick(&STALLS))),
        drift_ppm: dice
            .maybe(0.1, |dice| dice.pick(&[-200, 200, -50_000, 50_000]))
            .unwrap_or(0),
        fair_queue: false,
        cuts_trains: false,
        discards_every: dice.maybe(0.2, |dice| dice.pick(&[1, 4, 30])).unwrap_or(0),
    }
}

fn path(dice: &mut Dice, hosts: u32) -> PathSettings {
    let (from, to) = dice.pair(hosts);
    PathSettings {
        from,
        to,
        rate: dice.maybe(0.5, |dice| Rate(dice.pick(&[20 * MBIT, GBIT, 0]))),
        delay: dice.maybe(0.5, |dice| Time(dice.pick(&[5 * US, MS, 50 * MS]))),
        mtu: dice.maybe(0.2, |dice| dice.size(&[1_200, 1_300])),
        queue: dice.maybe(0.3, |dice| dice.size(&[8 * KIB, 64 * KIB])),
    }
}

fn fault(dice: &mut Dice, plan: &Plan) -> Fault {
    let (from, to) = match dice.0.chance(0.3) {
        true => (Hosts::All, Hosts::All),
        false => dice.pair(plan.hosts),
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
    if plan.seal == Seal::Plain {
        // Who sends without a checksum is told what damage may do.
        (fault.corrupt, fault.truncate) = (0.0, 0.0);
    }
    fault.burst_len = if fault.burst > 0.0 { 20 } else { 0 };
    fault.jitter = dice.maybe(some, |_| Time(200 * US)).unwrap_or_default();
    fault.cut = dice.0.chance(0.15);
    fault.mtu = dice.maybe(0.1, |_| Size(1_200));
    fault.at = dice.moment(plan);
    let lasts_ns = match dice.0.chance(0.1) {
        true => 6_000 * MS,
        false => ACTIVE,
    };
    fault.until = Some(Time(fault.at.0 + dice.time_below(lasts_ns).0.max(US)));
    if !fault.cut && fault.mtu.is_none() && dice.0.chance(0.3) {
        (fault.at, fault.until) = (Time(0), None);
    } else if dice.0.chance(0.2) {
        let lasts = dice.time_below(20 * MS).max(Time(US));
        fault.until = Some(Time(fault.at.0 + lasts.0));
        fault.again = dice.pick(&[1, 3, 9]);
        fault.every = Time(lasts.0 + dice.time_below(40 * MS).0);
    }
    fault
}

fn mishap(dice: &mut Dice, plan: &Plan) -> Mishap {
    use What::{Close, Crash, Disconnect, Move, Restart, Stall};
    let what = dice.pick(&[
        Restart, Restart, Restart, Stall, Stall, Stall, Stall, Crash, Close, Disconnect,
        Disconnect, Disconnect, Move, Move,
    ]);
    let lasts = match what {
        Stall | Disconnect => dice.time_below(300 * MS).max(Time(US)),
        _ => Time(0),
    };
    Mishap {
        at: dice.moment(plan),
        host: dice.host(plan.hosts),
        what,
        lasts,
    }
}

/// A program steers its flows: switches the quality of what it sends, or keeps what is lost.
fn steering(dice: &mut Dice, plan: &Plan) -> Mishap {
    use What::{Even, Hold, Least, Response, Throughput};
    let what = dice.pick(&[
        Throughput, Throughput, Response, Response, Least, Even, Hold,
    ]);
    Mishap {
        at: dice.moment(plan),
        host: dice.host(plan.hosts),
        what,
        lasts: match what {
            Hold => dice.time_below(200 * MS).max(Time(US)),
            _ => Time(0),
        },
    }
}
