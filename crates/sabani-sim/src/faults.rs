//! What a link does to the datagrams it carries.

use sabani_proto::wire::{Frame, Frames, Kind, Prelude};

use crate::{HostId, Rng};

/// A datagram about to cross a link, as a rule sees it.
#[derive(Debug)]
pub struct Packet<'a> {
    /// Who sends it.
    pub from: HostId,
    /// Who is to get it.
    pub to: HostId,
    /// How many datagrams have entered this direction of the link before it.
    pub nth: u64,
    /// When it enters the link, in nanoseconds.
    pub at_ns: u64,
    /// Its bytes.
    pub bytes: &'a [u8],
}

impl Packet<'_> {
    /// What it is, as far as its prelude tells.
    pub fn kind(&self) -> Option<Kind> {
        Prelude::parse(self.bytes)
            .ok()
            .map(|(prelude, _)| prelude.kind)
    }

    /// Whether it carries frames.
    pub fn is_data(&self) -> bool {
        self.kind() == Some(Kind::Data)
    }

    /// Whether a frame like this is in it. Only plain packets without checksum can be looked into.
    pub fn has_frame(&self, is_it: impl Fn(&Frame<'_>) -> bool) -> bool {
        let frames = Frames::new(&self.bytes[Prelude::LEN..]);
        self.is_data() && frames.flatten().any(|frame| is_it(&frame))
    }
}

/// Decides which datagrams vanish.
pub type Rule = Box<dyn FnMut(&Packet<'_>) -> bool>;

/// Faults of one direction of a link. All off by default; probabilities are per datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// Probability of loss.
    pub loss: f64,
    /// Probability that a burst of losses begins.
    pub burst: f64,
    /// Mean number of datagrams that such a burst lasts for.
    pub burst_len: u64,
    /// Probability that a datagram within a burst passes all the same: with `loss`, `burst` and
    /// `burst_len` this is the Gilbert-Elliott model.
    pub burst_spares: f64,
    /// Probability of a second copy, up to `late_ns` after the first.
    pub duplicate: f64,
    /// Probability that a datagram is late by up to `late_ns`, so that others overtake it.
    pub reorder: f64,
    /// Greatest lateness of duplicated, reordered and replayed datagrams, in nanoseconds.
    pub late_ns: u64,
    /// Greatest lateness of every datagram, in nanoseconds; evenly distributed.
    pub jitter_ns: u64,
    /// Probability that one to eight bits are flipped.
    pub corrupt: f64,
    /// Probability that the end is cut off.
    pub truncate: f64,
    /// Probability that a datagram of the past comes again.
    pub replay: f64,
    /// Nothing passes.
    pub cut: bool,
}

impl Faults {
    /// Some of everything: `level` 1.0 is a path that nobody would want to use.
    pub fn everything(level: f64) -> Self {
        Faults {
            loss: 0.05 * level,
            burst: 0.002 * level,
            burst_len: 10,
            burst_spares: 0.0,
            duplicate: 0.05 * level,
            reorder: 0.05 * level,
            late_ns: 500_000,
            jitter_ns: (20_000.0 * level) as u64,
            corrupt: 0.02 * level,
            truncate: 0.01 * level,
            replay: 0.02 * level,
            cut: false,
        }
    }

    /// Damages the datagram, perhaps.
    pub(crate) fn damage(&self, bytes: &mut Vec<u8>, rng: &mut Rng) {
        if rng.chance(self.corrupt) {
            for _ in 0..=rng.below(8) {
                let bit = rng.below(8 * bytes.len() as u64) as usize;
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
        }
        if rng.chance(self.truncate) {
            bytes.truncate(rng.below(bytes.len() as u64) as usize);
        }
    }

    /// How late the datagram is.
    pub(crate) fn lateness(&self, rng: &mut Rng) -> u64 {
        let late = if rng.chance(self.reorder) {
            rng.below(self.late_ns)
        } else {
            0
        };
        late + if self.jitter_ns > 0 {
            rng.below(self.jitter_ns)
        } else {
            0
        }
    }

    /// How late a copy that follows is, if one does.
    pub(crate) fn copy(&self, rng: &mut Rng) -> Option<u64> {
        rng.chance(self.duplicate).then(|| rng.below(self.late_ns))
    }
}

/// What a link remembers for the sake of its faults.
#[derive(Debug, Default)]
pub(crate) struct FaultMemory {
    in_burst: bool,
    past: Vec<Vec<u8>>,
}

impl FaultMemory {
    /// Datagrams kept for replay.
    const PAST: usize = 256;

    /// Whether chance swallows the datagram.
    pub fn swallows(&mut self, faults: &Faults, rng: &mut Rng) -> bool {
        if self.in_burst {
            self.in_burst = !rng.chance(1.0 / faults.burst_len.max(1) as f64);
        } else {
            self.in_burst = rng.chance(faults.burst);
        }
        let swallowed = self.in_burst && !rng.chance(faults.burst_spares);
        faults.cut || swallowed || rng.chance(faults.loss)
    }

    /// A datagram of the past that comes again, and how late it is. Remembers this one.
    pub fn echo(&mut self, faults: &Faults, bytes: &[u8], rng: &mut Rng) -> Option<(Vec<u8>, u64)> {
        if faults.replay == 0.0 {
            return None;
        }
        if self.past.len() < Self::PAST {
            self.past.push(bytes.to_vec());
        } else {
            let at = rng.below(Self::PAST as u64) as usize;
            self.past[at] = bytes.to_vec();
        }
        rng.chance(faults.replay).then(|| {
            let at = rng.below(self.past.len() as u64) as usize;
            (self.past[at].clone(), rng.below(faults.late_ns))
        })
    }
}
