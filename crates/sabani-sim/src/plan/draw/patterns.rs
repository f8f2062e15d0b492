//! Traffic as whole programs make it: shapes with a name, which messages drawn each for itself hardly ever form.

use super::dice::Dice;
use super::traffic::{HUGE, TRAFFIC, affordable, fitting, traffic};
use super::{Hosts, MS, Mishap, Plan, Settings, Size, Time, Traffic, What};

const SEC: u64 = crate::SEC;

/// One of the shapes.
pub(super) fn pattern(dice: &mut Dice, hosts: u32, settings: &Settings) -> Vec<Traffic> {
    let shapes = [beside, beside, beside, hub, answers, rests];
    let mut streams = dice.pick(&shapes)(dice, hosts, settings);
    let others = dice.pick(&[0, 0, 0, 4]);
    streams.extend((0..others).map(|_| traffic(dice, hosts, settings)));
    affordable(streams, hosts)
}

/// A host's sending rests, for longer than credit that nobody uses lasts, from when the longest body has just begun.
pub(super) fn lull(dice: &mut Dice, plan: &Plan) -> Mishap {
    let body = plan.traffic.iter().max_by_key(|stream| stream.bytes);
    let within = dice.pick(&[MS, 5 * MS, 20 * MS]);
    Mishap {
        at: Time(body.map_or(0, |body| body.at.0) + dice.time_below(within).0),
        host: dice.host(plan.hosts),
        what: dice.pick(&[What::Stall, What::Disconnect, What::Disconnect, What::Hold]),
        lasts: Time(100 * MS + dice.time_below(300 * MS).0),
    }
}

/// A body one way after a rest, beside small messages the other way that go on and on; perhaps a third one sends a
/// body to the same host.
fn beside(dice: &mut Dice, hosts: u32, settings: &Settings) -> Vec<Traffic> {
    let (one, other) = dice.pair(hosts);
    let greeting = Traffic {
        from: one.clone(),
        to: other.clone(),
        bytes: Size(10),
        ..Traffic::default()
    };
    let first = body(dice, settings, one.clone(), other.clone());
    let third = Hosts::one(dice.host(hosts));
    let rival = dice.maybe(0.5, |dice| Traffic {
        at: Time(first.at.0.saturating_sub(dice.time_below(50 * MS).0)),
        ..body(dice, settings, third, other.clone())
    });
    let small = steady(dice, other, one);
    // The third one may be the host itself.
    let rival = rival.filter(|rival| rival.from != rival.to);
    [greeting, small, first].into_iter().chain(rival).collect()
}

/// One host talks with all others, with each as often as they please.
fn hub(dice: &mut Dice, hosts: u32, settings: &Settings) -> Vec<Traffic> {
    let (hub, _) = dice.pair(hosts);
    let mut streams = Vec::new();
    for host in (0..hosts).map(Hosts::one).filter(|host| *host != hub) {
        let (there, back) = match dice.0.chance(0.5) {
            true => (hub.clone(), host),
            false => (host, hub.clone()),
        };
        streams.push(steady(dice, there.clone(), back.clone()));
        streams.extend(dice.maybe(0.5, |dice| body(dice, settings, back, there)));
    }
    streams
}

/// Requests, each answered after a pause.
fn answers(dice: &mut Dice, hosts: u32, settings: &Settings) -> Vec<Traffic> {
    let (client, server) = dice.pair(hosts);
    let requests = steady(dice, client.clone(), server.clone());
    let pause = gap(dice);
    let one = body(dice, settings, server, client);
    let answers = Traffic {
        at: Time(requests.at.0 + pause.0),
        every: requests.every,
        rounds: few_enough(requests.rounds, one.bytes),
        ..one
    };
    vec![requests, answers]
}

/// Bodies one way with a rest after each, while the other way rests, or does not.
fn rests(dice: &mut Dice, hosts: u32, settings: &Settings) -> Vec<Traffic> {
    let (one, other) = dice.pair(hosts);
    let rested = body(dice, settings, one.clone(), other.clone());
    let bodies = Traffic {
        rounds: few_enough(dice.pick(&[3, 10, 30]), rested.bytes),
        pause: gap(dice),
        ..rested
    };
    let back = dice.maybe(0.5, |dice| steady(dice, other, one));
    [bodies].into_iter().chain(back).collect()
}

/// A body that begins when what was known before has rested.
fn body(dice: &mut Dice, settings: &Settings, from: Hosts, to: Hosts) -> Traffic {
    let bytes = dice.size(&[5_000, 20_000, 60_000, 200_000, 400_000, HUGE, HUGE]);
    Traffic {
        from,
        to,
        bytes: fitting(bytes, settings),
        at: Time(150 * MS + dice.time_below(700 * MS).0),
        tracked: dice.0.chance(0.3),
        ..Traffic::default()
    }
}

/// Small messages at equal times.
fn steady(dice: &mut Dice, from: Hosts, to: Hosts) -> Traffic {
    let every = gap(dice);
    let lasts_ns = dice.pick(&[SEC, 6 * SEC, 6 * SEC]);
    Traffic {
        from,
        to,
        bytes: dice.size(&[0, 1, 64, 700]),
        rounds: (lasts_ns / every.0) as u32,
        every: Some(every),
        at: dice.time_below(50 * MS),
        ..Traffic::default()
    }
}

/// From one message to the next: often about as long as it takes credit that nobody uses to rest, 100 ms.
fn gap(dice: &mut Dice) -> Time {
    let about_a_rest = 90 * MS + dice.time_below(30 * MS).0;
    Time(dice.pick(&[
        5 * MS,
        15 * MS,
        30 * MS,
        30 * MS,
        about_a_rest,
        about_a_rest,
    ]))
}

/// So many of `rounds` as the traffic of a plan has room for.
fn few_enough(rounds: u32, bytes: Size) -> u32 {
    let most = TRAFFIC / 2 / bytes.0.max(1);
    u64::from(rounds).min(most.max(1)) as u32
}
