//! Credit by the receiver (rows U9, U11, U12, H6): how much each peer may send.
//!
//! A receiver knows who wants to send how much, how fast data come in and what gets lost. From that
//! it estimates its link and the queue before it, and shares both among those who wait: what may be
//! on its way is rate × round trip plus a part of the queue, whoever sends it. Who wants nothing
//! holds standing credit, which all peers together keep below one queue, and which decays.
//!
//! All amounts are charge: bytes as `datagram_cost` counts them. Times are nanoseconds. A window is
//! what a peer may send beyond the largest packet number that has come: what is lost falls out of
//! it by itself, is still missing, and so is granted again like everything else.
//!
//! | module | what it knows |
//! |---|---|
//! | `rate` | how fast the link is |
//! | `queue` | how much the path's queue holds, and what we use of it |
//! | `blame` | whether loss is our doing |
//! | `startup` | how much may be on its way before the link is known |
//! | `link` | these together: what may be on its way, and the pace |
//! | `share` | one peer's window and demand |
//! | `reach` | how promptly it sends what it was granted |
//! | `narrow` | what it loses more than the others, and its pace then |
//! | `table` | which peers there are |
//! | `standing` | the budget for those who want nothing |
//! | `steady` | what a peer that sends steadily brings in a round trip |
//! | `order` | who is next |

mod blame;
mod link;
mod narrow;
mod order;
mod queue;
mod rate;
mod reach;
mod share;
mod standing;
mod startup;
mod steady;
mod table;
#[cfg(test)]
mod tests;

use link::{Link, Pressure};
pub use order::GrantOrder;
use order::{Scheduler, Urgency};
use share::{Account, Share};
pub(crate) use standing::DECAY_NS;
use standing::{DECAY_GRACE_NS, Holder, Pool};
use table::Table;

use crate::channel::{BASE_DATAGRAM, Data, datagram_cost};
use crate::wire::Terms;

/// Charge of a full datagram on a path of which nothing is known; one that fills an Ethernet frame is charged as much.
const BASE_FULL: u64 = datagram_cost(BASE_DATAGRAM) as u64;
/// The whole link, as a sum of claims.
const ONE: u64 = 1 << 32;
/// A pacer that wakes up sooner does nothing but wake up.
const PACER_NS: u64 = 5_000;
/// Standing credit of fewer full packets is not renewed before all that was announced has come: that would be a word for each few.
/// (Of what links of 1 Gbit/s carry, two hosts that exchange 128 KiB at a time get 0.77 without that, and 0.84.)
const RENEWED_PACKETS: u64 = 16;
/// A word of its own says so at once where what is renewed takes so long to come. On faster links it may hold up the answer.
const RENEWED_NS: f64 = 200_000.0;
/// What is overdue by so much is in no queue, and will not come at the same time as others': the
/// peer has stalled.
const STALLED_NS: u64 = 10_000_000;
/// So many peers are looked through whenever the credit of one of them decays. With more, looks are apart by so much for each: what has decayed
/// is others' up to 10 ms later then. (With 10 ms for a few hosts as well, rates vary more: `sabani model trial --hosts 9 --seed 1 --count 8` did not find a group
/// of four networks, and of two.)
const FEW_PEERS: u64 = 64;
const LOOK_NS: u64 = 10_000;
const NEVER: u64 = u64::MAX;

/// How a receiver gives credit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreditPolicy {
    /// What rate × round trip and the path's queue hold, shared by those who wait in this order
    /// (U11, U12): many senders at a time do not overflow the switch before the receiver.
    Paced(GrantOrder),
    /// An equal share of the socket's buffer to each peer that was heard lately (U9). No sender can
    /// overrun the socket, but nothing is known of the path before it, whose queues overflow. For
    /// comparison, and for paths without a queue.
    Shares,
}

impl Default for CreditPolicy {
    /// As much as paths hold, those first who have least left to send.
    fn default() -> Self {
        CreditPolicy::Paced(GrantOrder::default())
    }
}

/// Values that steer granting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CreditConfig {
    /// What the kernel may charge to the socket's receive buffer.
    pub socket_bytes: u64,
    /// Charge of the largest datagram that peers may send.
    pub full_cost: u32,
    /// Largest window for one peer, if it is not less than two full datagrams.
    pub window_max: u32,
    /// How many peers are likely to send.
    pub expected_peers: u32,
    pub policy: CreditPolicy,
}

impl CreditConfig {
    /// What of the socket's buffer may be granted beyond what the path itself holds; the rest is
    /// for standing credit and what needs none.
    fn socket_share(&self) -> u64 {
        (self.socket_bytes / 4 * 3).max(2 * u64::from(self.full_cost))
    }
}

/// What a batch of packets from one peer has brought.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Arrival {
    /// Charge by which the largest packet number moved on, gaps included.
    pub advanced: u32,
    /// Charge of the packets with data.
    pub charge: u64,
    /// Their bytes, as datagrams.
    pub bytes: u64,
    /// All packets that came.
    pub packets: u32,
    /// Packets newly found missing.
    pub lost: u32,
    /// Packets that were held to be missing and came after all.
    pub late: u32,
    /// Packets that a switch has marked: its queue was long (ECN).
    pub marked: u32,
    /// What they have brought of messages, beside acknowledgements and words about credit.
    pub data: Data,
    /// Charge announced by the peer that has not come.
    pub remaining: u64,
    /// Charge of a full datagram on the path from the peer, as far as it is known.
    pub full: u32,
    /// Its latest round-trip time; zero if unknown.
    pub rtt_ns: u64,
    /// The smallest one that it has had on this path; zero if unknown.
    pub least_rtt_ns: u64,
}

/// What a peer is owed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owed {
    /// Its window was raised, and it may be waiting for that: the packet must arrive.
    Credit,
    /// It has used up its window and wants more: an acknowledgement, so that it waits and does not
    /// ask again.
    Ack,
}

/// What a receiver believes of its link and has promised, in bytes as the kernel charges them
/// (`datagram_cost`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CreditStats {
    /// Rate of the link in bytes per second; zero before it is known.
    pub rate: u64,
    /// Estimate of what the path's queue holds.
    pub queue: u64,
    /// What peers that have something to send may send now.
    pub outstanding: u64,
    /// What they may all send besides, without having announced it.
    pub promised: u64,
    /// Peers that have something to send.
    pub waiting: usize,
}

/// What a peer could be granted.
#[derive(Clone, Copy, Debug)]
struct Grant {
    slot: u32,
    charge: u64,
    /// What it could have if it were alone.
    cap: u64,
    /// What it sends comes late: others have granted it as well.
    is_late: bool,
}

/// Keeps the grant with the smallest key.
fn prefer(best: &mut Option<(Urgency, Grant)>, key: Urgency, grant: Grant) {
    if best.is_none_or(|(least, _)| key < least) {
        *best = Some((key, grant));
    }
}

/// What of a `part` of the link a peer needs, where one alone could have `cap`.
fn next_charge(share: &Share, part: u64, cap: u64) -> u64 {
    let half = (cap / 2).max(share.full);
    (share.target() - share.window)
        .min(part)
        .min(half)
        .min(share.most - share.window)
}

/// Shares the receiver's link among its peers.
#[derive(Debug)]
pub(crate) struct Granter {
    config: CreditConfig,
    link: Link,
    pool: Pool,
    peers: Table,
    scheduler: Scheduler,
    /// Slots of those who want something.
    waiting: Vec<u32>,
    /// Part of the link that their windows take.
    used: u64,
    /// What of their windows they can use, in charge.
    outstanding: u64,
    /// What of it is overdue, and left out of `used`.
    overdue: u64,
    /// What `used` was computed with.
    accounted: (u64, bool),
    /// Somebody wants more than it has.
    limited: bool,
    raised: Vec<u32>,
    dry: Vec<u32>,
    /// The next times at which `run` has something to do; `NEVER` if there is none.
    pacer_deadline: u64,
    due_deadline: u64,
    sweep_deadline: u64,
}

impl Granter {
    pub fn new(mut config: CreditConfig) -> Self {
        config.window_max = config.window_max.max(2 * config.full_cost);
        Granter {
            link: Link::new(&config),
            pool: Pool::new(&config),
            peers: Table::default(),
            scheduler: Scheduler::new(match config.policy {
                CreditPolicy::Shares => GrantOrder::FirstCome,
                CreditPolicy::Paced(order) => order,
            }),
            waiting: Vec::new(),
            used: 0,
            outstanding: 0,
            overdue: 0,
            accounted: (0, true),
            limited: false,
            raised: Vec::new(),
            dry: Vec::new(),
            pacer_deadline: NEVER,
            due_deadline: NEVER,
            sweep_deadline: NEVER,
            config,
        }
    }

    /// A connection begins; returns its first window.
    pub fn admit(&mut self, peer: u32, now_ns: u64) -> u32 {
        self.forget(peer);
        let slot = self.peers.slot(peer, now_ns);
        self.hear(slot, now_ns);
        // Whether it will send more than short messages is not known yet.
        self.peers[slot].ample_until_ns = now_ns + DECAY_NS;
        self.stand(slot);
        self.account(slot);
        self.window(peer)
    }

    /// A connection has ended. What the program has said of the peer stays.
    pub fn forget(&mut self, peer: u32) {
        let Some(slot) = self.peers.find(peer) else {
            return;
        };
        let share = &mut self.peers[slot];
        share.remaining = 0;
        share.clear();
        (share.most, share.allowance) = (u64::MAX, None);
        self.account(slot);
        self.retire(slot);
    }

    /// Gives the peer `weight` parts (at least 1, the default) where others have one.
    pub fn set_weight(&mut self, peer: u32, weight: u32, now_ns: u64) {
        let slot = self.peers.slot(peer, now_ns);
        self.peers[slot].weight = weight.max(1);
        self.watch(now_ns);
    }

    /// The peer wishes terms of its own, until [`Granter::forget`]; returns its largest window, and
    /// what it may send now without wanting more (U10). Between two full datagrams and what anybody
    /// may have.
    pub fn set_terms(&mut self, peer: u32, wish: &Terms, now_ns: u64) -> (u32, u32) {
        let slot = self.peers.slot(peer, now_ns);
        let least = 2 * self.config.full_cost;
        let window = wish.window_bytes.unwrap_or(u32::MAX);
        let window = window.clamp(least, self.config.window_max);
        let share = &mut self.peers[slot];
        share.most = match window < self.config.window_max {
            true => u64::from(window),
            false => u64::MAX,
        };
        share.allowance = wish.allowance_bytes.map(u64::from);
        self.hear(slot, now_ns);
        if self.peers[slot].remaining == 0 {
            self.stand(slot);
        }
        self.account(slot);
        self.watch(now_ns);
        let standing = self.standing(slot).min(u64::from(u32::MAX - 1)) as u32;
        (self.peers[slot].fixed.unwrap_or(window), standing)
    }

    /// Fixes the peer's window, whatever the link; `None` leaves it to the library again.
    pub fn set_window(&mut self, peer: u32, window: Option<u32>, now_ns: u64) {
        let slot = self.peers.slot(peer, now_ns);
        let share = &mut self.peers[slot];
        share.fixed = window;
        if window.is_some_and(|window| share.window < u64::from(window)) {
            self.hear(slot, now_ns);
            self.raise_fixed(slot, u64::from(window.unwrap_or(0)));
            // Who has nothing to send may soon: the window is for what the program is about to ask for.
            self.note_raised(slot);
            self.account(slot);
        }
        self.watch(now_ns);
    }

    /// Takes in what a batch of packets from one peer has brought. [`Granter::run`] must follow. Returns whether the peer has
    /// been given more of what it may hold unasked, which nothing tells it yet.
    pub fn on_arrival(&mut self, peer: u32, arrival: &Arrival, now_ns: u64) -> bool {
        if arrival.data != Data::None || arrival.remaining > 0 {
            let slot = self.peers.slot(peer, now_ns);
            self.hear(slot, now_ns);
        }
        // Who only acknowledges holds nothing after a while.
        let recent = |slot: &u32| self.peers[*slot].recent;
        let Some(slot) = self.peers.find(peer).filter(recent) else {
            return false;
        };
        let fixed = self.fixed(slot);
        let alone = self.is_alone();
        let share = &mut self.peers[slot];
        let begins = share.remaining == 0 && arrival.remaining > 0;
        share.full = u64::from(arrival.full).clamp(BASE_FULL, self.config.full_cost.into());
        self.pool.terse -= u32::from(share.is_terse);
        share.note_demand(arrival, now_ns);
        self.pool.terse += u32::from(share.is_terse);
        self.link.set_full(self.link.full().max(share.full));
        let link = &self.link;
        share.on_arrival(arrival, || link.own_queue_ns(), now_ns);
        share.look_at_loss(link.common_loss(alone), now_ns);
        let is_narrow = !alone && share.narrow.is_bound();
        self.link
            .on_arrival(arrival, share.known_rtt_ns(), is_narrow);
        let mut is_renewed = false;
        if let Some(fixed) = fixed {
            self.raise_fixed(slot, fixed);
        } else if share.remaining == 0 {
            self.stand(slot);
        } else if share.window < share.full && !share.told_dry {
            self.dry.push(slot);
        } else if share.window >= share.announced() {
            is_renewed = self.renew(slot);
        }
        self.account(slot);
        if begins {
            self.expect(slot, now_ns);
        }
        is_renewed
    }

    /// The peer's packets come another way from now on: its round trips are measured anew.
    pub fn on_new_path(&mut self, peer: u32) {
        if let Some(slot) = self.peers.find(peer) {
            self.peers[slot].forget_rtt();
            self.account(slot);
        }
    }

    /// This host has sent so many bytes.
    #[inline]
    pub fn on_sent(&mut self, bytes: u64) {
        self.link.on_sent(bytes);
    }

    /// What the peer has credit for should come before long, even if everybody sends all that they
    /// may.
    fn expect(&mut self, slot: u32, now_ns: u64) {
        let all = self.outstanding - self.overdue + self.pool.promised;
        let share = &mut self.peers[slot];
        let charge = share.window.min(share.announced());
        if charge >= share.full {
            let (link, rtt_ns) = (&self.link, share.rtt_ns());
            let path_ns = || link.path_ns(all.max(link.cap(rtt_ns)));
            share.reach.expect(charge, path_ns, now_ns);
        }
    }

    /// Grants what may be granted now; names each peer that must be told.
    pub fn run(&mut self, now_ns: u64, owed: &mut impl FnMut(u32, Owed)) {
        if self.sweep_deadline <= now_ns {
            self.sweep(now_ns);
        }
        if self.pacer_deadline <= now_ns {
            self.link.note_late(now_ns - self.pacer_deadline);
        }
        self.pacer_deadline = NEVER;
        self.due_deadline = NEVER;
        if self.waiting.is_empty() || self.config.policy == CreditPolicy::Shares {
            self.limited = false;
            self.link.pause();
        } else {
            self.link.tick(self.pressure(), false, now_ns);
            self.account_anew();
            self.grant(now_ns);
            self.link.note_on_way(self.outstanding);
        }
        if !self.raised.is_empty() || !self.dry.is_empty() {
            self.tell(owed);
        }
    }

    fn pressure(&self) -> Pressure {
        Pressure {
            limited: self.limited,
            unused: self.overdue > 0,
            waiting: self.waiting.len(),
            senders: self.pool.peers,
        }
    }

    /// The socket is empty: what has come so far is all that the link has brought.
    #[inline]
    pub fn on_empty(&mut self, now_ns: u64) {
        if !self.waiting.is_empty() && self.config.policy != CreditPolicy::Shares {
            self.link.tick(self.pressure(), true, now_ns);
        }
    }

    /// Charge that this peer may send beyond the largest packet number received.
    #[inline]
    pub fn window(&self, peer: u32) -> u32 {
        self.peers.find(peer).map_or(0, |slot| {
            self.peers[slot].window.min(u64::from(u32::MAX)) as u32
        })
    }

    /// When [`Granter::run`] has something to do, should nothing arrive before.
    pub fn next_deadline(&self) -> Option<u64> {
        let at = self
            .pacer_deadline
            .min(self.due_deadline)
            .min(self.sweep_deadline);
        (at != NEVER).then_some(at)
    }

    pub fn stats(&self) -> CreditStats {
        CreditStats {
            rate: (self.link.rate() * 1e9) as u64,
            queue: self.link.queue(),
            outstanding: self.outstanding,
            promised: self.pool.promised,
            waiting: self.waiting.len(),
        }
    }

    /// The peer sends, or wants to.
    #[inline]
    fn hear(&mut self, slot: u32, now_ns: u64) {
        let share = &mut self.peers[slot];
        share.heard_ns = now_ns;
        if !share.recent {
            share.recent = true;
            self.pool.peers += 1;
            self.watch(now_ns);
        }
    }

    /// Sees to it that what decays is looked at.
    fn watch(&mut self, now_ns: u64) {
        if self.sweep_deadline == NEVER {
            self.sweep_deadline = now_ns + DECAY_NS + DECAY_GRACE_NS;
        }
    }

    /// Gives a peer that wants nothing its part of the standing credit.
    #[inline]
    fn stand(&mut self, slot: u32) {
        let window = self.standing(slot);
        let share = &mut self.peers[slot];
        share.window = share.window.max(window);
    }

    /// All that a peer has announced has credit, and half of what it may hold besides is used up: what follows would wait for the word
    /// that leaves once all of this has come, behind what this host sends itself. Returns whether that is so, and nothing is told yet.
    fn renew(&mut self, slot: u32) -> bool {
        let standing = self.standing(slot);
        let share = &mut self.peers[slot];
        if standing < RENEWED_PACKETS * share.full || share.window > standing / 2 {
            return false;
        }
        share.window = standing;
        let rate = self.link.rate();
        let is_slow = rate > 0.0 && rate * RENEWED_NS <= standing as f64;
        if is_slow {
            self.note_raised(slot);
        }
        !is_slow
    }

    /// What a peer that wants nothing may hold.
    #[inline]
    fn standing(&self, slot: u32) -> u64 {
        self.fixed(slot).unwrap_or_else(|| {
            let share = &self.peers[slot];
            let window = self.pool.share(&Holder {
                own: share.account.promise,
                queue: self.link.queue(),
                full: share.full,
                wish: share.allowance,
                is_terse: share.is_terse,
            });
            let foreseen = share.foreseen().min(self.config.window_max.into());
            window.max(foreseen).min(share.most)
        })
    }

    /// The window that a peer has whatever the link does, if there is one.
    #[inline]
    fn fixed(&self, slot: u32) -> Option<u64> {
        if let Some(window) = self.peers[slot].fixed {
            return Some(u64::from(window));
        }
        if self.config.policy != CreditPolicy::Shares {
            return None;
        }
        let peers = self.pool.peers.max(self.config.expected_peers).max(1);
        let part = self.config.socket_share() / u64::from(peers);
        let share = &self.peers[slot];
        let part = part.clamp(2 * share.full, u64::from(self.config.window_max));
        Some(part.min(share.most))
    }

    /// Brings a fixed window up again, in steps that are worth a packet if the peer waits for it.
    fn raise_fixed(&mut self, slot: u32, fixed: u64) {
        let share = &mut self.peers[slot];
        if share.remaining == 0 {
            share.window = share.window.max(fixed);
        } else if share.window <= fixed / 4 * 3 {
            share.window = fixed;
            self.note_raised(slot);
        }
    }

    fn note_raised(&mut self, slot: u32) {
        let share = &mut self.peers[slot];
        share.told_dry = false;
        if !share.raised {
            share.raised = true;
            self.raised.push(slot);
        }
    }

    fn is_alone(&self) -> bool {
        self.waiting.len() <= 1
    }

    /// Brings the sums up to date after a peer's window or demand has changed.
    #[inline]
    fn account(&mut self, slot: u32) {
        let share = &mut self.peers[slot];
        let (wants, place) = (share.remaining > 0, share.place);
        match (wants, place) {
            (true, None) => {
                self.scheduler.join(share);
                share.place = Some(self.waiting.len() as u32);
                self.waiting.push(slot);
            }
            (false, Some(place)) => {
                share.place = None;
                self.waiting.swap_remove(place as usize);
                if let Some(&moved) = self.waiting.get(place as usize) {
                    self.peers[moved].place = Some(place);
                }
            }
            _ => {}
        }
        let alone = self.is_alone();
        let share = &mut self.peers[slot];
        let account = if wants {
            let outstanding = share.outstanding();
            let (overdue, claimed) = match share.is_passed_over && !alone {
                true => (outstanding, 0),
                false => (0, outstanding),
            };
            Account {
                claim: (claimed << 32) / self.link.cap(share.rtt_ns()),
                outstanding,
                overdue,
                promise: share.window.saturating_sub(share.announced()),
            }
        } else {
            let likely = share.likely();
            Account {
                claim: (likely << 32) / self.link.cap(share.rtt_ns()),
                promise: share.window - likely,
                ..Account::default()
            }
        };
        let old = std::mem::replace(&mut share.account, account);
        self.used = self.used - old.claim + account.claim;
        self.outstanding = self.outstanding - old.outstanding + account.outstanding;
        self.overdue = self.overdue - old.overdue + account.overdue;
        self.pool.promised = self.pool.promised - old.promise + account.promise;
    }

    /// Accounts anew if the link looks different now.
    fn account_anew(&mut self) {
        let based_on = (self.link.version, self.is_alone());
        if based_on == self.accounted {
            return;
        }
        self.accounted = based_on;
        for at in 0..self.waiting.len() {
            self.account(self.waiting[at]);
        }
    }

    /// Grants while there is room on the link, and the pacer agrees.
    fn grant(&mut self, now_ns: u64) {
        self.link.refill(now_ns);
        let quantum = self.link.quantum();
        let quantum = quantum.min(u64::from(self.config.window_max) / 2);
        let ceiling = self.link.ceiling();
        while let Some(grant) = self.pick(quantum, now_ns) {
            let Grant {
                slot, charge, cap, ..
            } = grant;
            let room = (ONE.saturating_sub(self.used) * cap) >> 32;
            if room.min(ceiling.saturating_sub(self.outstanding)) < charge {
                if self.pass_over(now_ns) {
                    continue;
                }
                return;
            }
            if let Err(wait_ns) = self.link.take(charge) {
                let at_ns = now_ns.saturating_add(wait_ns.max(PACER_NS));
                self.pacer_deadline = self.pacer_deadline.min(at_ns);
                return;
            }
            let share = &mut self.peers[slot];
            share.window += charge;
            let rtt_ns = share.rtt_ns();
            share.narrow.on_grant(charge, rtt_ns, now_ns);
            self.scheduler.on_grant(share, charge, quantum, now_ns);
            self.account(slot);
            self.expect(slot, now_ns);
            self.note_raised(slot);
        }
    }

    /// Leaves the part of those whose data are overdue to others: as much as the queue holds should
    /// all of it come after all, and whatever those hold who have stalled. Returns whether there was
    /// anybody; if not, it is time to look again when somebody may be.
    fn pass_over(&mut self, now_ns: u64) -> bool {
        let mut found = false;
        if self.is_alone() {
            return found;
        }
        for at in 0..self.waiting.len() {
            let slot = self.waiting[at];
            let share = &mut self.peers[slot];
            if share.is_passed_over {
                continue;
            }
            let mut due_ns = share.reach.due_ns();
            if self.overdue + share.outstanding() > self.link.queue() {
                due_ns = due_ns.saturating_add(STALLED_NS);
            }
            if due_ns <= now_ns {
                share.is_passed_over = true;
                found = true;
                self.account(slot);
            } else {
                self.due_deadline = self.due_deadline.min(due_ns);
            }
        }
        found
    }

    /// Who is granted next, and how much.
    fn pick(&mut self, quantum: u64, now_ns: u64) -> Option<Grant> {
        let mut next: Option<(Urgency, Grant)> = None;
        let mut next_late: Option<(Urgency, Grant)> = None;
        self.limited = false;
        for &slot in &self.waiting {
            let share = &self.peers[slot];
            let has_all = share.window + share.full > share.most_on_way();
            if self.fixed(slot).is_some() || has_all || !share.wants() {
                continue;
            }
            self.limited = true;
            let next_ns = share.narrow.next_ns();
            if next_ns > now_ns {
                self.pacer_deadline = self.pacer_deadline.min(next_ns.max(now_ns + PACER_NS));
                continue;
            }
            let Some(grant) = self.offer(slot, quantum) else {
                continue;
            };
            prefer(&mut next, self.scheduler.key(share, quantum), grant);
            if grant.is_late {
                prefer(&mut next_late, self.scheduler.turn(share), grant);
            }
        }
        match next {
            Some((_, grant)) if grant.is_late => next_late,
            _ => next,
        }
        .map(|(_, grant)| grant)
    }

    /// What the peer could be granted now: while others wait, no more than it can use, and nothing
    /// if others have its part of the link.
    fn offer(&self, slot: u32, quantum: u64) -> Option<Grant> {
        let share = &self.peers[slot];
        let cap = self.link.cap(share.rtt_ns());
        let reach = match self.is_alone() {
            true => u64::MAX,
            false if share.is_passed_over => return None,
            false if self.link.is_starting() => u64::MAX,
            false => share.reach.get(cap, self.waiting.len()),
        };
        let narrow = &share.narrow;
        let reach = reach.min(narrow.most());
        let part = (reach / 2).min(narrow.quantum());
        let packets = part.min(quantum) / share.full;
        let part = (packets.max(2) * share.full).min(quantum);
        let charge = next_charge(share, part, cap);
        let fits = share.window + charge <= u64::from(self.config.window_max);
        (fits && share.window < reach).then_some(Grant {
            slot,
            charge,
            cap,
            is_late: reach < cap,
        })
    }

    fn tell(&mut self, owed: &mut impl FnMut(u32, Owed)) {
        for slot in self.raised.drain(..) {
            if let Some(share) = self.peers.get_mut(slot)
                && std::mem::take(&mut share.raised)
            {
                owed(share.peer, Owed::Credit);
            }
        }
        for slot in self.dry.drain(..) {
            if let Some(share) = self.peers.get_mut(slot)
                && share.remaining > 0
                && share.window < share.full
                && !std::mem::replace(&mut share.told_dry, true)
            {
                owed(share.peer, Owed::Ack);
            }
        }
    }

    /// Lets the credit of those decay who were silent for long: they have forgotten it themselves.
    fn sweep(&mut self, now_ns: u64) {
        let (mut next, mut full) = (NEVER, BASE_FULL);
        for slot in 0..self.peers.end() {
            let Some(share) = self.peers.get_mut(slot) else {
                continue;
            };
            let mut at = share.heard_ns + DECAY_NS + DECAY_GRACE_NS + 2 * share.rtt_ns();
            if at <= now_ns {
                share.decay();
                self.account(slot);
                if self.peers[slot].remaining == 0 {
                    self.retire(slot);
                    continue;
                }
                at = now_ns + DECAY_NS;
            }
            next = next.min(at);
            full = full.max(self.peers[slot].full);
        }
        self.link.set_full(full);
        // However many fall silent one after the other: each look is at all of them.
        let many = u64::from(self.peers.end()).saturating_sub(FEW_PEERS);
        self.sweep_deadline = next.max(now_ns + (many * LOOK_NS).min(DECAY_GRACE_NS));
    }

    /// The peer holds nothing any more: its entry goes, unless the program has steered it.
    fn retire(&mut self, slot: u32) {
        let share = &mut self.peers[slot];
        if std::mem::take(&mut share.recent) {
            self.pool.peers -= 1;
            self.pool.terse -= u32::from(std::mem::take(&mut share.is_terse));
        }
        if !share.is_steered() {
            self.peers.remove(slot);
        }
    }
}
