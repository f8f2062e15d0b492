//! Is the loss ours? Loss that stays when we slow down belongs to the path; loss that goes was
//! congestion. No other test told random loss, a shared core link and a shallow queue apart.

/// A round lasts two round trips and this much, so that it shows what the one before has changed.
const ROUND_NS: u64 = 1_000_000;
/// Fewer packets than this say nothing about a loss rate.
const ROUND_PACKETS: u32 = 16;
/// Fewer than this lost in a round are bad luck.
const LOST: u32 = 3;
/// A suspicion slows down to this.
const TEST_PACE: f64 = 0.7;
/// A suspicion that held costs this much.
const GUILTY_PACE: f64 = 0.9;
/// Regained with each round without suspicion.
const RECOVERY: f64 = 0.01;
/// After a test that found the path guilty, none for so many rounds.
const REST_ROUNDS: u32 = 50;
/// Packets over which the usual loss is averaged.
const MEMORY: f64 = 2_000.0;

/// Where a test stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Test {
    None,
    /// Slowed down; what comes in this round left before that.
    Settling,
    /// What comes in this round shows the effect.
    Looking,
}

/// Loss of each round, and how much slower than the link we go because of it.
#[derive(Debug)]
pub(super) struct Blame {
    since_ns: u64,
    received: u32,
    lost: u32,
    usual: f64,
    slow: f64,
    test: Test,
    slow_before: f64,
    loss_before: f64,
    rest: u32,
}

impl Blame {
    pub fn new() -> Self {
        Blame {
            since_ns: 0,
            received: 0,
            lost: 0,
            usual: 0.0,
            slow: 1.0,
            test: Test::None,
            slow_before: 1.0,
            loss_before: 0.0,
            rest: 0,
        }
    }

    /// Part of the link's rate to use.
    pub fn slow(&self) -> f64 {
        self.slow
    }

    /// Loss that the path has without our help, as a part of all packets.
    pub fn usual_loss(&self) -> f64 {
        self.usual
    }

    pub fn add(&mut self, received: u32, lost: u32, late: u32) {
        self.received = self.received.saturating_add(received);
        self.lost = self.lost.saturating_add(lost).saturating_sub(late);
    }

    /// Ends the round if it is over. Returns whether so much was lost in it that a queue must have
    /// overflowed.
    pub fn tick(&mut self, rtt_ns: u64, now_ns: u64) -> bool {
        let packets = self.received.saturating_add(self.lost);
        if packets < ROUND_PACKETS || now_ns.saturating_sub(self.since_ns) <= 2 * rtt_ns + ROUND_NS
        {
            return false;
        }
        let loss = f64::from(self.lost) / f64::from(packets);
        let overflow = self.lost >= LOST && loss > 3.0 * self.usual + 0.03;
        self.judge(loss, packets);
        self.received = 0;
        self.lost = 0;
        self.since_ns = now_ns;
        overflow
    }

    fn judge(&mut self, loss: f64, packets: u32) {
        self.rest = self.rest.saturating_sub(1);
        match self.test {
            Test::Settling => self.test = Test::Looking,
            Test::Looking => {
                self.test = Test::None;
                self.slow = self.slow_before;
                if loss > 0.6 * self.loss_before {
                    self.usual = self.usual.max((loss + self.loss_before) / 2.0);
                    self.rest = REST_ROUNDS;
                } else {
                    self.slow *= GUILTY_PACE;
                }
            }
            Test::None if self.is_suspicious(loss) => {
                self.test = Test::Settling;
                self.loss_before = loss;
                self.slow_before = self.slow;
                self.slow *= TEST_PACE;
            }
            Test::None => {
                self.slow = (self.slow + RECOVERY).min(1.0);
                if loss < self.usual {
                    self.usual += (f64::from(packets) / MEMORY).min(1.0) * (loss - self.usual);
                }
            }
        }
    }

    fn is_suspicious(&self, loss: f64) -> bool {
        self.lost >= LOST && loss > 1.5 * self.usual + 0.02 && self.rest == 0
    }
}
