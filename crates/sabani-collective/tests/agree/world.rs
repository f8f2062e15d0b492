//! Ranks that agree, what is under way between them, and all that may happen to them.

use std::collections::{BTreeMap, VecDeque};

use sabani_collective::agree::{Agreement, Message, Ranks};

/// What may happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The next message from one to another arrives.
    Arrives(usize, usize),
    /// The rest of what a dead rank had sent to another is lost.
    Lost(usize, usize),
    /// A rank dies.
    Dies(usize),
    /// A rank learns that another one is dead, or takes it for dead.
    Learns(usize, usize),
}

/// A message under way: from whom, to whom, what.
pub type Parcel = (usize, usize, Message);

/// Plants a mistake that the checks must find: what goes instead of a message, as long as these live.
pub type Mistake = fn(Parcel, &Ranks) -> Vec<Parcel>;

/// All of it at one moment.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct World {
    pub ranks: Vec<Agreement>,
    pub dead: Ranks,
    under_way: BTreeMap<(usize, usize), VecDeque<Message>>,
    /// Who does not know of whom that it is dead.
    unaware: Vec<(usize, usize)>,
    /// Taken for dead by mistake.
    pub mistaken: Ranks,
    /// How often all were reminded since anything else has happened to them.
    reminders: usize,
}

/// A rank's bits: all but its own one, so that a decision shows whose are in it.
pub fn bits(rank: usize) -> u64 {
    !(1 << rank)
}

/// What a rank offers.
fn offer(rank: usize) -> u32 {
    7 + rank as u32
}

impl World {
    /// All begin.
    pub fn new(size: usize, mistake: Option<Mistake>) -> Self {
        let begin = |rank| Agreement::new(rank, size, bits(rank), offer(rank), &Ranks::new());
        let mut world = World {
            ranks: (0..size).map(begin).collect(),
            dead: Ranks::new(),
            under_way: BTreeMap::new(),
            unaware: Vec::new(),
            mistaken: Ranks::new(),
            reminders: 0,
        };
        (0..size).for_each(|rank| world.send(rank, mistake));
        world
    }

    /// What may happen next; deaths left out.
    pub fn events(&self) -> Vec<Event> {
        let arrivals = self.under_way.keys();
        let losses = arrivals
            .clone()
            .filter(|(from, _)| self.dead.contains(from));
        arrivals
            .map(|&(from, to)| Event::Arrives(from, to))
            .chain(losses.map(|&(from, to)| Event::Lost(from, to)))
            .chain(self.unaware.iter().map(|&(who, of)| Event::Learns(who, of)))
            .collect()
    }

    pub fn living(&self) -> impl Iterator<Item = usize> {
        (0..self.ranks.len()).filter(|rank| !self.dead.contains(rank))
    }

    pub fn happen(&mut self, event: Event, mistake: Option<Mistake>) {
        match event {
            Event::Arrives(from, to) => {
                let message = self.next(from, to);
                self.ranks[to].handle(from, message);
                self.send(to, mistake);
            }
            Event::Lost(from, to) => _ = self.under_way.remove(&(from, to)),
            Event::Dies(rank) => {
                self.dead.insert(rank);
                self.under_way.retain(|&(_, to), _| to != rank);
                self.unaware.retain(|&(who, _)| who != rank);
                let others = self.living().map(|other| (other, rank));
                let unaware: Vec<_> = others.collect();
                self.unaware.extend(unaware);
                self.unaware.sort_unstable();
            }
            Event::Learns(who, of) => {
                self.unaware.retain(|&pair| pair != (who, of));
                if !self.dead.contains(&of) {
                    self.mistaken.insert(of);
                }
                self.ranks[who].fail(&Ranks::from([of]));
                self.send(who, mistake);
            }
        }
    }

    /// Nothing more happens by itself: those who still wait remind the others. That is needed only where
    /// somebody is taken for dead by mistake, and then at most twice.
    pub fn remind(&mut self) -> bool {
        if self.mistaken.is_empty() || self.reminders == 2 || self.check_end().is_ok() {
            return false;
        }
        self.reminders += 1;
        for rank in self.living().collect::<Vec<_>>() {
            self.ranks[rank].remind();
            self.send(rank, None);
        }
        true
    }

    fn next(&mut self, from: usize, to: usize) -> Message {
        let queue = self.under_way.get_mut(&(from, to)).expect("under way");
        let message = queue.pop_front().expect("not empty");
        if queue.is_empty() {
            self.under_way.remove(&(from, to));
        }
        message
    }

    fn send(&mut self, from: usize, mistake: Option<Mistake>) {
        while let Some((to, message)) = self.ranks[from].poll() {
            let message = Message::decode(&message.encode()).expect("it is a message");
            let parcels = match mistake {
                Some(mistake) => mistake((from, to, message), &self.living().collect()),
                None => vec![(from, to, message)],
            };
            for (from, to, message) in parcels {
                if !self.dead.contains(&to) {
                    let queue = self.under_way.entry((from, to)).or_default();
                    queue.push_back(message);
                }
            }
        }
    }

    /// Whether all decisions so far are equal and what they should be. Those of the dead count, too, unless
    /// somebody was taken for dead by mistake: it can't hear of them.
    pub fn check(&self) -> Result<(), String> {
        let counts = |rank: &usize| self.mistaken.is_empty() || !self.dead.contains(rank);
        let counted = (0..self.ranks.len()).filter(counts);
        let decisions = counted.filter_map(|rank| self.ranks[rank].decision());
        let Some(decision) = decisions.clone().next() else {
            return Ok(());
        };
        if let Some(other) = decisions.clone().find(|other| *other != decision) {
            return Err(format!("two decisions: {decision:?} and {other:?}"));
        }
        let suspected = &self.dead | &self.mistaken;
        if !decision.failed.is_subset(&suspected) {
            return Err(format!(
                "{decision:?}, but only {suspected:?} were suspected"
            ));
        }
        if !(0..self.ranks.len()).any(|rank| decision.offer == offer(rank)) {
            return Err(format!("{decision:?}: nobody has offered that"));
        }
        let contributors = (0..self.ranks.len()).filter(|rank| !decision.failed.contains(rank));
        if decision.bits != contributors.fold(u64::MAX, |all, rank| all & bits(rank)) {
            return Err(format!(
                "{decision:?}: bits and failures don't fit together"
            ));
        }
        Ok(())
    }

    /// Whether everybody alive has decided: so it must be when nothing more can happen.
    pub fn check_end(&self) -> Result<(), String> {
        let waits = |rank: &usize| self.ranks[*rank].decision().is_none();
        let waiting: Vec<_> = self.living().filter(waits).collect();
        match waiting.is_empty() {
            true => Ok(()),
            false => Err(format!("ranks {waiting:?} wait forever")),
        }
    }
}
