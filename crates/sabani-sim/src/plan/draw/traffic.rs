//! What programs send: streams drawn each for itself.

use super::dice::Dice;
use super::{ACTIVE, Hosts, KIB, MS, SHORT_MEMORY, Settings, Size, Time, Traffic, US};

/// Sizes at which something changes: nothing, inline or not, one packet or several, eager or
/// granted.
const SIZES: [u64; 14] = [
    0, 1, 5, 64, 65, 700, 1_024, 1_025, 1_400, 9_000, 70_000, 262_144, 262_145, 400_000,
];
/// A size that takes many round trips.
pub(super) const HUGE: u64 = 3 << 20;
/// Most bytes that programs send in all: many short runs find more than few long ones.
pub(super) const TRAFFIC: u64 = 6 << 20;
/// Most messages that programs send in all.
const MESSAGES: u64 = 4_000;
/// Streams drawn each for itself.
pub(super) fn streams(dice: &mut Dice, hosts: u32, settings: &Settings) -> Vec<Traffic> {
    let count = dice.pick(&[1, 4, 12, 30]);
    let drawn = (0..count).map(|_| traffic(dice, hosts, settings));
    affordable(drawn.collect(), hosts)
}

/// As many of the streams as there is room for; an empty message if there is none for any.
pub(super) fn affordable(mut streams: Vec<Traffic>, hosts: u32) -> Vec<Traffic> {
    let (mut bytes, mut messages) = (TRAFFIC, MESSAGES);
    streams.retain(|stream| {
        let count = stream.messages(hosts);
        let fits = count <= messages && count * stream.bytes.0 <= bytes;
        if fits {
            messages -= count;
            bytes -= count * stream.bytes.0;
        }
        fits
    });
    if streams.is_empty() {
        streams.push(Traffic {
            from: Hosts::one(0),
            to: Hosts::one(1),
            ..Traffic::default()
        });
    }
    streams
}

/// Bytes of a message.
fn length(dice: &mut Dice, settings: &Settings) -> Size {
    let near = |dice: &mut Dice, size: u64, below: u64| {
        Size((size + 1).saturating_sub(dice.0.below(below)))
    };
    let eager_max = settings.eager_max.map_or(256 * KIB, |size| size.0);
    let size = match dice.0.below(16) {
        0 => near(dice, eager_max, 3),
        // What just fits into a packet, or just not.
        1 => near(dice, settings.max_datagram.map_or(1_472, |size| size.0), 64),
        2 => near(dice, HUGE, 3),
        _ => dice.size(&SIZES),
    };
    fitting(size, settings)
}

/// No longer than receivers have room for.
pub(super) fn fitting(size: Size, settings: &Settings) -> Size {
    match settings.memory {
        Some(memory) if memory != SHORT_MEMORY => size.min(Size(memory.0 / 2)),
        _ => size,
    }
}

pub(super) fn traffic(dice: &mut Dice, hosts: u32, settings: &Settings) -> Traffic {
    let (one, other) = dice.pair(hosts);
    let (from, to) = match dice.0.below(10) {
        0 => (Hosts::All, other),
        1 => (one, Hosts::All),
        2 => (Hosts::All, Hosts::All),
        _ => (one, other),
    };
    let bytes = length(dice, settings);
    let most = match bytes.0 {
        0..10_000 => 40,
        10_000..HUGE => 4,
        _ => 1,
    };
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
        class: dice.pick(&[0, 0, 0, 1, 2, 3]),
        ..Traffic::default()
    }
}

/// Some messages are worth something for some time only, or are sent once.
pub(super) fn give_value(dice: &mut Dice, stream: &mut Traffic) {
    match dice.0.below(4) {
        0 => stream.once = true,
        1 => stream.within = Some(Time(dice.pick(&[0, 50 * US, 2 * MS, 30 * MS, 300 * MS]))),
        _ => {}
    }
}
