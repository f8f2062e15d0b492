//! How far packets may overtake each other before one that is missing counts as lost.

/// However much reordering a path shows, a gap this wide is a loss.
const MOST_PACKETS: u8 = 255;
/// A round trip more.
const MOST_EIGHTHS: u8 = 8;
/// So many losses in a row, none of which was a packet that came after all, halve what reordering has raised: it may have been a
/// single event of the path, a route that has changed. If not, that costs a packet or a few that go twice, of thousands.
const LOSSES: u8 = 64;

/// What a path has shown of that.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tolerance {
    packets: u8,
    eighths: u8,
    /// Losses since a packet came that had been given up.
    losses: u8,
}

impl Tolerance {
    /// Of a path of which nothing is known: ordinary Ethernet does not reorder a flow.
    pub fn new() -> Self {
        Tolerance {
            packets: 1,
            eighths: 1,
            losses: 0,
        }
    }

    /// Packets beyond a missing one that must have arrived before it counts as lost.
    #[inline]
    pub fn packets(&self) -> u64 {
        self.packets.into()
    }

    /// How much longer than a round trip, in eighths of one, a missing packet may take.
    #[inline]
    pub fn eighths(&self) -> u8 {
        self.eighths
    }

    /// A packet that was given up has come, so many packets behind the newest.
    pub fn on_late(&mut self, behind: u64) {
        let seen = behind.clamp(3, MOST_PACKETS.into());
        self.packets = self.packets.max(seen as u8);
        self.eighths = (self.eighths * 2).min(MOST_EIGHTHS);
        self.losses = 0;
    }

    /// Some packets were given up.
    pub fn on_loss(&mut self) {
        self.losses += 1;
        if self.losses == LOSSES {
            self.losses = 0;
            self.packets = (self.packets / 2).max(1);
            self.eighths = (self.eighths / 2).max(1);
        }
    }
}
