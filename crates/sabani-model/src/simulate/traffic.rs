//! Messages on their way: each one flows at its max-min share of what it passes, where receivers grant credit in parts by what it has
//! sent ahead; messages between the same two ranks one after the other, but for short ones that overtake others.
//!
//! Shares are divided anew when a part of the messages has begun or ended, or some time after the first
//! one has; until then, a new message gets what is left over, or an even part. With few messages, that is
//! at every change; with thousands, each of which makes little difference, more seldom. What changes nothing for
//! others, as in a chain of ranks each of which has its ports for itself, is counted apart.

use std::collections::{HashMap, VecDeque};

use sabani_collective::execute::MessageId;

use super::agenda::Agenda;
use super::ahead::Ahead;
use super::chance::Chance;
use super::loss::{Losses, Repair};
use super::window::{Window, Windows};
use super::words::Words;
use crate::network::Recovery;
use crate::route::{Cost, Routes, Uses};
use crate::share::{Demand, MaxMin, Use};

/// Of so many messages, one may begin or end before shares are divided anew; of hundreds a larger part, up to one in eight.
const PATIENCE: usize = 32;
const MOST_PATIENCE: usize = 8;
/// Shares are divided anew at the latest after this part of what messages take on average with the shares that they have.
const LATEST: f64 = 0.06;

/// And as seldom as this where nothing has changed but how far messages are ahead.
const LEAST_NS: f64 = 1e3;

/// Where receivers grant credit, a message begins with so much of a packet, or with itself if it is shorter. Among those that begin
/// together it makes no difference how much; a word of a few bytes waits for as much of a packet that is passing.
const BEGIN_PACKETS: f64 = 0.25;

/// How many of these messages may begin or end before shares are divided anew.
pub(super) fn patience(active: usize) -> usize {
    let few = active / PATIENCE;
    (few * few / 4).min(active / MOST_PATIENCE).max(few)
}

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// That of a collective.
    Data,
    /// Its receiver's word that it is ready for it.
    Ready,
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Message {
    /// Its sender.
    pub from: usize,
    /// Its receiver.
    pub to: usize,
    /// Its name.
    pub name: MessageId,
    /// What it is.
    pub content: Content,
    /// What it costs.
    pub cost: Cost,
}

/// A message whose last byte has passed everything.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Passed {
    /// Which one.
    pub message: Message,
    /// How much longer the repair of a loss takes.
    pub late_ns: f64,
}

/// A message that is being sent.
pub(super) struct Flow {
    pub message: Message,
    /// How many parts it gets where another message gets one.
    pub weight: f64,
    /// Where receivers grant credit, and it leaves its host.
    pub ahead: Option<Ahead>,
    /// Where it is among those that are active.
    place: usize,
    /// Its sender and receiver among the pairs of which something is known.
    pub pair: Option<usize>,
    uses: Uses,
    /// Bytes on the wire that are left, at `since_ns`.
    pub left_bytes: f64,
    since_ns: f64,
    /// How many of them pass in each nanosecond.
    pub bytes_per_ns: f64,
    /// What limits it, when shares were last divided.
    pub bound_by: u32,
    /// A loss is repaired by then, and the message is not complete before.
    pub not_before_ns: f64,
    /// Waits until then for a loss to be found.
    stalled_until_ns: Option<f64>,
    /// Bytes that were left when it was last tested for losses.
    pub tested_bytes: f64,
    /// Bytes that were left when its window last grew by what had passed.
    pub grown_bytes: f64,
}

impl Flow {
    /// Bytes on the wire that have passed; fewer than none if some go again.
    pub fn passed_bytes(&self) -> f64 {
        self.message.cost.wire_bytes - self.left_bytes
    }

    /// The link of its sender, if that takes more of it.
    fn sends_over(&self) -> Option<usize> {
        let is_stalled = self.stalled_until_ns.is_some();
        let ahead = self.ahead.filter(|_| !is_stalled)?;
        (ahead.sent_bytes() < self.message.cost.wire_bytes).then_some(ahead.link)
    }

    /// Time has passed until now.
    fn go_on(&mut self, now_ns: f64) {
        let ns = now_ns - self.since_ns;
        self.since_ns = now_ns;
        self.left_bytes = (self.left_bytes - self.bytes_per_ns * ns).max(0.0);
        let (passed_bytes, total_bytes) = (self.passed_bytes(), self.message.cost.wire_bytes);
        if let Some(ahead) = &mut self.ahead {
            ahead.go_on(ns, passed_bytes, total_bytes);
        }
    }

    fn demand(&self) -> Demand<'_> {
        let most = self.ahead.map(|ahead| ahead.most_bytes_per_ns);
        Demand {
            uses: &self.uses,
            weight: self.weight,
            most: most.unwrap_or(f64::INFINITY),
        }
    }

    /// Payload that passes, in bytes for each nanosecond.
    fn payload(&self) -> f64 {
        self.bytes_per_ns * self.message.cost.bytes / self.message.cost.wire_bytes
    }
}

/// Messages from one rank to another.
pub(super) struct Pair {
    /// The one under way that others wait for, as an index.
    flow: Option<usize>,
    /// Those behind it.
    pub waiting: VecDeque<Message>,
    /// How much the sender has on its way at most.
    pub window: Window,
    /// A packet's way there and back.
    pub round_trip_ns: f64,
}

/// What is known of a resource in the end.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// How long somebody would have been faster but for it.
    pub bound_ns: f64,
    /// The most bytes that passed it in a nanosecond.
    pub peak: f64,
    bound: bool,
}

/// All messages on their way.
pub struct Traffic<'r> {
    pub(super) routes: &'r Routes,
    pub(super) flows: Vec<Option<Flow>>,
    free: Vec<usize>,
    /// Those that are not stalled.
    pub(super) active: Vec<usize>,
    /// How many messages each sender's link takes, by its number as a resource.
    pub(super) sending: Vec<u32>,
    /// Whether there are such: they get other parts while they are.
    parts_change: bool,
    pub(super) pairs: Vec<Pair>,
    /// The number of each of them, by sender and receiver.
    numbers: HashMap<(usize, usize), usize>,
    /// Those of connections that have been used before.
    windows: Windows,
    words: Words<'r>,
    finishes: Agenda<usize>,
    resumes: Agenda<usize>,
    max_min: MaxMin,
    /// What new messages may take of each resource before shares are divided anew, and among how many.
    spare: Vec<(f64, f64)>,
    loads: Vec<Load>,
    /// Payload that passes each resource now, in bytes for each nanosecond.
    rates: Vec<f64>,
    solved_ns: f64,
    /// When they have to be divided at the latest, if something has changed.
    latest_ns: f64,
    /// Messages that have begun or ended since, if that changes what others should get.
    changes: usize,
    /// And those that changed nothing for others.
    asides: usize,
    /// When a queue that overflows is to be looked at again.
    pub(super) look_again_ns: f64,
    pub(super) losses: Losses,
}

impl<'r> Traffic<'r> {
    /// Nothing is on its way; connections between some ranks have been used before.
    pub fn new(routes: &'r Routes, recovery: &Recovery, windows: Windows, chance: Chance) -> Self {
        let resources = routes.resources.len();
        let others = routes.ranks().saturating_sub(1);
        let losses = Losses::new(recovery, others, routes.can_overflow(), chance);
        Traffic {
            routes,
            flows: Vec::new(),
            free: Vec::new(),
            active: Vec::new(),
            sending: vec![0; resources],
            parts_change: false,
            pairs: Vec::new(),
            numbers: HashMap::new(),
            windows,
            words: Words::new(routes, &losses),
            finishes: Agenda::new(),
            resumes: Agenda::new(),
            max_min: MaxMin::default(),
            spare: vec![(1.0, 0.0); resources],
            loads: vec![Load::default(); resources],
            rates: vec![0.0; resources],
            solved_ns: f64::NEG_INFINITY,
            latest_ns: 0.0,
            changes: 0,
            asides: 0,
            look_again_ns: f64::INFINITY,
            losses,
        }
    }

    /// When something happens here next; infinite if nothing does.
    pub fn next_ns(&self) -> f64 {
        let own_ns = self.finishes.next_ns().min(self.resumes.next_ns());
        own_ns.min(self.divide_ns())
    }

    /// When shares are divided anew.
    fn divide_ns(&self) -> f64 {
        let changed_ns = match self.changes {
            0 if !self.parts_change => f64::INFINITY,
            0 => {
                let least_ns = (self.solved_ns + LEAST_NS).max(self.solved_ns.next_up());
                self.latest_ns.max(least_ns)
            }
            few if few <= patience(self.active.len()) => self.latest_ns,
            _ => self.solved_ns,
        };
        self.look_again_ns.min(changed_ns)
    }

    /// A message is to be sent.
    pub fn start(&mut self, now_ns: f64, message: Message) {
        if self.losses.overtakes(&message) {
            let pair = self.numbers.get(&(message.from, message.to)).copied();
            return self.send(now_ns, message, pair, 0.0);
        }
        let number = self.number(message.from, message.to);
        let pair = &mut self.pairs[number];
        let Some(flow) = pair.flow else {
            self.send(now_ns, message, Some(number), 0.0);
            return;
        };
        pair.waiting.push_back(message);
        // What comes later shows a loss sooner than the sender would have found it.
        if let Some(Flow {
            stalled_until_ns: Some(until_ns),
            ..
        }) = &mut self.flows[flow]
            && now_ns + self.losses.later_ns < *until_ns
        {
            *until_ns = now_ns + self.losses.later_ns;
            self.resumes.push(*until_ns, flow);
        }
    }

    /// Takes a message that has passed everything by now.
    pub fn take_passed(&mut self, now_ns: f64) -> Option<Passed> {
        let index = self.finishes.pop(now_ns)?;
        self.leave(index);
        let flow = self.flows[index].take()?;
        self.free.push(index);
        self.give_back(&flow);
        let message = flow.message;
        let pair = flow.pair.map(|pair| &mut self.pairs[pair]);
        let pair = pair.filter(|pair| pair.flow == Some(index));
        let Losses {
            packet_bytes,
            granted,
            ..
        } = self.losses;
        let next = pair.and_then(|pair| {
            pair.flow = None;
            if !granted {
                pair.window.grow(flow.grown_bytes, packet_bytes);
            }
            pair.waiting.pop_front()
        });
        if let Some(next) = next {
            // Its link took it as soon as it had taken all of the one before, so that as much stands there of it.
            let sent_bytes = flow.ahead.map_or(0.0, |_| flow.weight);
            self.send(now_ns, next, flow.pair, sent_bytes);
        }
        Some(Passed {
            message,
            late_ns: (flow.not_before_ns - now_ns).max(0.0),
        })
    }

    /// Divides shares anew, if that is due.
    pub fn settle(&mut self, now_ns: f64) {
        while let Some(index) = self.resumes.pop(now_ns) {
            if let Some(flow) = &mut self.flows[index]
                && flow
                    .stalled_until_ns
                    .is_some_and(|until_ns| until_ns <= now_ns)
            {
                flow.stalled_until_ns = None;
                flow.since_ns = now_ns;
                flow.place = self.active.len();
                self.active.push(index);
                self.changes += 1;
            }
        }
        if now_ns >= self.divide_ns() {
            self.divide(now_ns);
        }
    }

    /// How much may be on its way from one rank to another.
    pub fn window(&self, between: (usize, usize)) -> Window {
        let used = self.numbers.get(&between);
        let used = used.map(|&pair| self.pairs[pair].window);
        used.unwrap_or_else(|| first_window(&self.windows, &self.losses, between))
    }

    /// What connections keep.
    pub fn into_windows(self) -> Windows {
        let numbers = self.numbers.into_iter();
        numbers
            .map(|(between, pair)| (between, self.pairs[pair].window))
            .collect()
    }

    /// The number of a pair, of which nothing may be known yet.
    fn number(&mut self, from: usize, to: usize) -> usize {
        let next = self.pairs.len();
        let number = *self.numbers.entry((from, to)).or_insert(next);
        if number == next {
            let latency_ns = self.routes.latency_ns(from, to, self.losses.packet_bytes);
            self.pairs.push(Pair {
                flow: None,
                waiting: VecDeque::new(),
                window: first_window(&self.windows, &self.losses, (from, to)),
                round_trip_ns: 2.0 * latency_ns,
            });
        }
        number
    }

    /// What became of each resource.
    pub fn loads(&self) -> &[Load] {
        &self.loads
    }

    /// A flow leaves what it had to others. Those who use none of it are not held back by it, either.
    fn give_back(&mut self, flow: &Flow) {
        if let Some(ahead) = flow.ahead.filter(Ahead::is_sending) {
            self.sending[ahead.link] -= 1;
        }
        self.words.end(&flow.message);
        let mut is_aside = true;
        let payload = flow.payload();
        for one in &flow.uses {
            self.rates[one.resource as usize] -= payload;
            let (left, users) = &mut self.spare[one.resource as usize];
            *users -= 1.0;
            *left = if *users == 0.0 {
                1.0
            } else {
                *left + one.part * flow.bytes_per_ns
            };
            is_aside &= *users == 0.0 || !self.loads[one.resource as usize].bound;
        }
        self.count(is_aside);
    }

    /// A message has begun or ended. Where queues may overflow, each one matters: it may be lost.
    fn count(&mut self, is_aside: bool) {
        if !is_aside || self.asides > self.active.len() || self.losses.can_happen {
            self.changes += 1;
        } else {
            self.asides += 1;
        }
    }

    /// Sends a message at once, with what is left over or an even part until shares are divided.
    fn send(&mut self, now_ns: f64, message: Message, pair: Option<usize>, sent_bytes: f64) {
        let mut uses = self.routes.uses(message.from, message.to, &message.cost);
        let sent_bytes = sent_bytes.min(message.cost.wire_bytes);
        let ahead = self.ahead(&mut uses, sent_bytes);
        let weight = self.weight(&message).max(sent_bytes);
        let limits = uses.iter().filter(|one| one.part > 0.0);
        let rates = limits.map(|one| {
            let (left, users) = self.spare[one.resource as usize];
            left.max(1.0 / (users + 1.0)) / one.part
        });
        let most = ahead.map_or(f64::INFINITY, |ahead| ahead.most_bytes_per_ns);
        self.words.begin(&message);
        let bytes_per_ns = rates.fold(most, f64::min) * self.words.leave(&message, ahead);
        let (mut takes_nothing, mut has_its_share) = (true, false);
        for one in &uses {
            let (left, users) = &mut self.spare[one.resource as usize];
            let taken = one.part * bytes_per_ns;
            takes_nothing &= taken <= *left;
            // Nobody is there with whom it could share what limits it.
            has_its_share |= *users == 0.0 && taken >= *left;
            *left = (*left - taken).max(0.0);
            *users += 1.0;
        }
        let left_bytes = message.cost.wire_bytes;
        let index = self.free.pop().unwrap_or(self.flows.len());
        if index == self.flows.len() {
            self.flows.push(None);
        }
        self.finishes
            .push(now_ns + left_bytes / bytes_per_ns, index);
        let place = self.active.len();
        self.active.push(index);
        let is_aside = takes_nothing && has_its_share;
        self.count(is_aside);
        if let Some(pair) = pair.filter(|_| !self.losses.overtakes(&message)) {
            self.pairs[pair].flow = Some(index);
        }
        let flow = Flow {
            message,
            weight,
            ahead,
            place,
            pair,
            uses,
            left_bytes,
            since_ns: now_ns,
            bytes_per_ns,
            bound_by: 0,
            not_before_ns: 0.0,
            stalled_until_ns: None,
            tested_bytes: f64::INFINITY,
            grown_bytes: left_bytes,
        };
        self.load(&flow, is_aside);
        self.flows[index] = Some(flow);
    }

    /// A flow passes its resources now, at a rate that stays as it is or at one that is only assumed.
    fn load(&mut self, flow: &Flow, stays: bool) {
        let payload = flow.payload();
        for one in &flow.uses {
            let rate = &mut self.rates[one.resource as usize];
            *rate += payload;
            if stays {
                let peak = &mut self.loads[one.resource as usize].peak;
                *peak = peak.max(*rate);
            }
        }
    }

    /// A flow is not active any more.
    fn leave(&mut self, index: usize) {
        let Some(place) = self.flows[index].as_ref().map(|flow| flow.place) else {
            return;
        };
        self.active.swap_remove(place);
        let moved = self.active.get(place).copied();
        if let Some(moved) = moved.and_then(|moved| self.flows[moved].as_mut()) {
            moved.place = place;
        }
    }

    /// Where receivers grant credit, its sender's link is not divided by weights, but evenly.
    fn ahead(&mut self, uses: &mut [Use], sent_bytes: f64) -> Option<Ahead> {
        // What stays in its host passes but one resource.
        let [link, _, ..] = uses else { return None };
        if !self.losses.granted || link.part == 0.0 {
            return None;
        }
        let sending = &mut self.sending[link.resource as usize];
        *sending += 1;
        let ahead = Ahead::new(*link, *sending, sent_bytes);
        link.part = 0.0;
        Some(ahead)
    }

    /// How many parts a message gets where another one gets one, when it begins.
    fn weight(&self, message: &Message) -> f64 {
        if self.losses.granted {
            let begin_bytes = BEGIN_PACKETS * self.losses.packet_bytes;
            message.cost.wire_bytes.min(begin_bytes)
        } else {
            1.0
        }
    }

    fn divide(&mut self, now_ns: f64) {
        self.count_time(now_ns);
        self.go_on(now_ns);
        self.divide_shares(now_ns);
        (self.changes, self.asides) = (0, 0);
        self.look_again_ns = f64::INFINITY;
        if self.losses.can_happen {
            self.lose(now_ns);
        }
        let flows = &self.flows;
        let finishes = self.active.iter().filter_map(|&index| {
            let flow = flows[index].as_ref()?;
            Some((now_ns + flow.left_bytes / flow.bytes_per_ns, index))
        });
        self.finishes.replace(finishes);
        self.solved_ns = now_ns;
    }

    /// Time has passed until now. Who is stalled sends nothing.
    fn go_on(&mut self, now_ns: f64) {
        self.sending.fill(0);
        for flow in self.flows.iter_mut().flatten() {
            flow.go_on(now_ns);
            if let Some(link) = flow.sends_over() {
                self.sending[link] += 1;
            }
        }
    }

    fn divide_shares(&mut self, now_ns: f64) {
        self.max_min.begin(self.routes.resources.len());
        self.parts_change = false;
        for &index in &self.active {
            if let Some(flow) = &mut self.flows[index] {
                self.parts_change |= flow.weigh(&self.sending, self.losses.packet_bytes);
                self.max_min.add(flow.demand());
            }
        }
        self.max_min.divide();
        for (resource, spare) in self.spare.iter_mut().enumerate() {
            *spare = (self.max_min.left(resource as u32), 0.0);
            self.loads[resource].bound = false;
        }
        self.rates.fill(0.0);
        // How many messages end in a nanosecond.
        let mut ends = 0.0;
        for (&index, share) in self.active.iter().zip(self.max_min.shares()) {
            let Some(flow) = &mut self.flows[index] else {
                continue;
            };
            flow.bytes_per_ns = share.rate * self.words.leave(&flow.message, flow.ahead);
            let link = || flow.ahead.map(|ahead| ahead.link as u32);
            flow.bound_by = share.bound_by.or_else(link).unwrap_or(flow.bound_by);
            self.loads[flow.bound_by as usize].bound = true;
            ends += flow.bytes_per_ns / flow.message.cost.wire_bytes;
            let payload = flow.payload();
            for one in &flow.uses {
                self.spare[one.resource as usize].1 += 1.0;
                self.rates[one.resource as usize] += payload;
            }
        }
        self.latest_ns = if self.active.is_empty() {
            now_ns
        } else {
            now_ns + LATEST * self.active.len() as f64 / ends
        };
        for (load, rate) in self.loads.iter_mut().zip(&self.rates) {
            load.peak = load.peak.max(*rate);
        }
    }

    fn count_time(&mut self, now_ns: f64) {
        let passed_ns = now_ns - self.solved_ns;
        let bound = self.loads.iter_mut().filter(|load| load.bound);
        bound.for_each(|load| load.bound_ns += passed_ns);
    }

    /// A flow waits for a repair, after which so much of it is left.
    pub(super) fn stall(&mut self, index: usize, until_ns: f64, left_bytes: f64) {
        self.leave(index);
        if let Some(flow) = &mut self.flows[index] {
            (flow.left_bytes, flow.bytes_per_ns) = (left_bytes, 0.0);
            flow.grown_bytes = left_bytes;
            flow.stalled_until_ns = Some(until_ns);
        }
        self.resumes.push(until_ns, index);
        self.changes += 1;
    }

    /// How many losses were repaired in which way.
    pub fn repairs(&self) -> [u32; Repair::ALL.len()] {
        self.losses.repairs
    }
}

/// That of a connection which has been used before, or of a new one.
fn first_window(windows: &Windows, losses: &Losses, between: (usize, usize)) -> Window {
    let kept = windows.get(&between).copied();
    kept.unwrap_or_else(|| Window::new(losses.window_bytes, losses.packet_bytes))
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;
    use sabani_collective::Collective;

    use super::*;
    use crate::network::Estimate;
    use crate::task::Task;
    use crate::testing::switched;

    const HOSTS: usize = 6;

    /// When each message has passed, by dividing shares at every change.
    fn exactly(routes: &Routes, messages: &[(f64, Message)]) -> Vec<f64> {
        let mut left: Vec<f64> = messages
            .iter()
            .map(|(_, message)| message.cost.wire_bytes)
            .collect();
        let uses = messages
            .iter()
            .map(|(_, one)| routes.uses(one.from, one.to, &one.cost));
        let uses: Vec<_> = uses.collect();
        let mut ends = vec![f64::INFINITY; messages.len()];
        let mut now = 0.0;
        while ends.contains(&f64::INFINITY) {
            let open = |index: &usize| ends[*index].is_infinite();
            let active =
                (0..messages.len()).filter(|index| open(index) && messages[*index].0 <= now);
            let active: Vec<_> = active.collect();
            let mut max_min = MaxMin::default();
            let demands = active.iter().map(|&index| Demand::all(&uses[index]));
            let shares = max_min.solve(routes.resources.len(), demands);
            let rates: Vec<_> = shares.iter().map(|share| share.rate).collect();
            let ends_next = active
                .iter()
                .zip(&rates)
                .map(|(&index, rate)| now + left[index] / rate);
            let begins = messages
                .iter()
                .map(|(begin, _)| *begin)
                .filter(|begin| *begin > now);
            let next = ends_next.chain(begins).fold(f64::INFINITY, f64::min);
            for (&index, rate) in active.iter().zip(&rates) {
                left[index] -= rate * (next - now);
                if left[index] < 1e-6 {
                    ends[index] = next;
                }
            }
            now = next;
        }
        ends
    }

    /// When each message has passed; each has a round of its own.
    pub fn by_traffic(
        routes: &Routes,
        recovery: &Recovery,
        messages: &[(f64, Message)],
    ) -> Vec<f64> {
        let mut traffic = Traffic::new(routes, recovery, Windows::new(), Chance::none());
        let mut ends = vec![0.0; messages.len()];
        let mut starts = messages.to_vec();
        starts.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut starts = VecDeque::from(starts);
        loop {
            let start = starts.front().map_or(f64::INFINITY, |(begin, _)| *begin);
            let now = start.min(traffic.next_ns());
            if now.is_infinite() {
                return ends;
            }
            while let Some(passed) = traffic.take_passed(now) {
                ends[passed.message.name.round] = now;
            }
            while let Some(&(begin, message)) = starts.front().filter(|(begin, _)| *begin <= now) {
                starts.pop_front();
                traffic.start(begin, message);
            }
            traffic.settle(now);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        /// Pairs are all different: messages between the same two are sent one after the other here.
        #[test]
        fn rarely_divided_shares_are_nearly_those_divided_at_every_change(
            pairs in proptest::sample::subsequence((0..HOSTS * HOSTS).collect::<Vec<_>>(), 1..25),
            sizes in proptest::collection::vec((100_000_usize..1_000_000, 0.0..5e6), 25),
        ) {
            let network = switched(HOSTS);
            let tcp = &network.transports["tcp"];
            let task = Task::new(Collective::Barrier, HOSTS, 0, &network);
            let routes = Routes::new(&network, tcp, &task, &mut |estimate| estimate.value);
            let messages = pairs.iter().zip(sizes).enumerate().map(|(number, (pair, (bytes, begin)))| {
                let message = Message {
                    from: pair / HOSTS,
                    to: pair % HOSTS,
                    name: MessageId { round: number, lane: 0 },
                    content: Content::Data,
                    cost: routes.cost(bytes),
                };
                (begin, message)
            });
            let messages: Vec<_> = messages.collect();
            let exact = exactly(&routes, &messages);
            let ours = by_traffic(&routes, &tcp.recovery, &messages);
            for ((begin, _), (exact, ours)) in messages.iter().zip(exact.iter().zip(&ours)) {
                let (exact, ours) = (exact - begin, ours - begin);
                prop_assert!((ours / exact - 1.0).abs() < 0.1, "{exact} {ours}");
            }
        }
    }

    /// A long message from one rank to another, and a short one right behind it: when each has passed.
    fn long_and_short(granted: bool) -> (f64, f64) {
        let network = switched(2);
        let tcp = &network.transports["tcp"];
        let recovery = Recovery {
            granted,
            ..tcp.recovery
        };
        let task = Task::new(Collective::Barrier, 2, 0, &network);
        let routes = Routes::new(&network, tcp, &task, &mut |estimate| estimate.value);
        let message = |round, bytes, content| Message {
            from: 0,
            to: 1,
            name: MessageId { round, lane: 0 },
            content,
            cost: routes.cost(bytes),
        };
        let long = message(0, 1_000_000, Content::Data);
        let short = message(1, 40, Content::Ready);
        let after = message(2, 1_000_000, Content::Data);
        let ends = by_traffic(
            &routes,
            &recovery,
            &[(0.0, long), (1.0, short), (2.0, after)],
        );
        // However it is, long ones wait for each other.
        assert!((ends[2] / ends[0] - 2.0).abs() < 0.01, "{ends:?}");
        (ends[0], ends[1])
    }

    #[test]
    fn short_messages_go_beside_long_ones_where_receivers_grant_credit() {
        let (long_ns, short_ns) = long_and_short(true);
        assert!(short_ns < long_ns / 100.0, "{short_ns} {long_ns}");
        let (long_ns, short_ns) = long_and_short(false);
        assert!(short_ns > long_ns, "{short_ns} {long_ns}");
    }

    /// So late, what a few bytes take adds nothing to the time any more.
    #[test]
    fn however_late_it_is_flows_before_a_full_queue_go_on() {
        const LATE_NS: f64 = 1e18;
        let mut network = switched(HOSTS);
        let tcp = network.transports.get_mut("tcp").unwrap();
        tcp.recovery.window_bytes = Estimate::exact(50_001.0);
        let windows = 50_001.0 * (HOSTS - 1) as f64;
        // It overflows, and hardly anything is lost.
        network.graph.hosts[0].into.queue_bytes = Some(Estimate::exact(0.95 * windows));
        let tcp = &network.transports["tcp"];
        let task = Task::new(Collective::Barrier, HOSTS, 0, &network);
        let routes = Routes::new(&network, tcp, &task, &mut |estimate| estimate.value);
        let message = |from| Message {
            from,
            to: 0,
            name: MessageId {
                round: from - 1,
                lane: 0,
            },
            content: Content::Data,
            cost: routes.cost(1_000_000),
        };
        let messages: Vec<_> = (1..HOSTS).map(|from| (LATE_NS, message(from))).collect();
        let ends = by_traffic(&routes, &tcp.recovery, &messages);
        assert!(ends.iter().all(|end_ns| *end_ns > LATE_NS), "{ends:?}");
    }

    #[test]
    fn messages_of_a_pair_go_one_after_the_other() {
        let network = switched(2);
        let tcp = &network.transports["tcp"];
        let task = Task::new(Collective::Barrier, 2, 0, &network);
        let routes = Routes::new(&network, tcp, &task, &mut |estimate| estimate.value);
        let cost = routes.cost(1000);
        let message = |round| Message {
            from: 0,
            to: 1,
            name: MessageId { round, lane: 0 },
            content: Content::Data,
            cost,
        };
        let messages = [(0.0, message(0)), (0.0, message(1)), (1.0, message(2))];
        let ends = by_traffic(&routes, &tcp.recovery, &messages);
        for (end, count) in ends.iter().zip([1.0, 2.0, 3.0]) {
            assert!((end - count * cost.gap_ns).abs() < 1.0, "{ends:?}");
        }
    }
}
