//! Max-min fair shares: every flow gets as much as it can without taking from one that has less, of the parts that each of them gets.
//! That is what transports come close to that divide a full link evenly.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// How much of a resource a flow takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Use {
    /// Which one.
    pub resource: u32,
    /// Its part of the whole resource for each unit of the flow's rate. A resource without a known limit
    /// has 0.
    pub part: f64,
}

/// What a flow takes, and what it wants of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand<'f> {
    /// What it takes.
    pub uses: &'f [Use],
    /// Where another flow gets one part, it gets so many.
    pub weight: f64,
    /// It is never faster than this.
    pub most: f64,
}

impl<'f> Demand<'f> {
    /// As much as there is.
    pub fn all(uses: &'f [Use]) -> Self {
        Demand {
            uses,
            weight: 1.0,
            most: f64::INFINITY,
        }
    }
}

/// What a flow gets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// Its rate.
    pub rate: f64,
    /// The resource that keeps it from being faster: before it, what the flow has on its way waits. Of
    /// several, the one with the lowest number. `None` if it doesn't want more.
    pub bound_by: Option<u32>,
}

/// Levels and resources as one number, in the order of levels: 42 bits of a level's digits, so that resources that differ by
/// rounding only are full at the same time, the one with the lowest number first.
const RESOURCE_BITS: u32 = 22;

fn rounded(level: f64) -> u64 {
    (level * (1.0 + 1e-12)).to_bits() >> RESOURCE_BITS
}

fn packed(level: f64, resource: u32) -> u64 {
    rounded(level) << RESOURCE_BITS | u64::from(resource)
}

/// The resource's number in it, or what comes behind them.
fn numbered(packed: u64) -> usize {
    (packed & ((1 << RESOURCE_BITS) - 1)) as usize
}

/// No use, or no flow.
const NONE: u32 = u32::MAX;

/// A resource, while shares are calculated.
#[derive(Clone, Copy, Debug)]
struct Resource {
    /// Its parts taken by those flows whose rates are not fixed yet, if each part of them had a rate of one.
    demand: f64,
    /// What is left of it.
    left: f64,
    /// How many flows that are not fixed yet use it.
    open: u32,
    /// The last of its uses.
    last: u32,
}

impl Resource {
    const UNUSED: Resource = Resource {
        demand: 0.0,
        left: 1.0,
        open: 0,
        last: NONE,
    };

    /// The rate of a part at which it is full.
    fn level(&self) -> f64 {
        self.left / self.demand
    }
}

/// What a flow takes of a resource that has a limit.
#[derive(Clone, Copy, Debug)]
struct Taken {
    /// For each unit of the rate of one of its parts.
    part: f64,
    resource: u32,
    flow: u32,
    /// The use before it of the same resource.
    before: u32,
}

/// Calculates shares, and keeps its memory for the next time.
#[derive(Debug, Default)]
pub struct MaxMin {
    resources: Vec<Resource>,
    /// Those that are used.
    used: Vec<u32>,
    /// What all flows take, one flow after the other: they are looked at several times.
    taken: Vec<Taken>,
    /// Where each flow's part of `taken` begins.
    firsts: Vec<u32>,
    /// When each resource is full that several flows use, as far as known, the first one on top: [`packed`].
    levels: BinaryHeap<Reverse<u64>>,
    /// For each flow: when the first of the resources is full that it has for itself, or it has what it wants, in falling order when
    /// they are ranked. Behind the resources' numbers come those of flows, which then have what they want. Nothing that others get
    /// changes any of it.
    own: Vec<u64>,
    /// For each flow: how many parts it gets, and what it wants of each.
    wants: Vec<(f64, f64)>,
    shares: Vec<Share>,
    fixed: Vec<bool>,
}

impl MaxMin {
    /// The shares of flows in `resources` resources.
    ///
    /// # Panics
    /// As [`divide`](MaxMin::divide).
    pub fn solve<'f>(
        &mut self,
        resources: usize,
        flows: impl Iterator<Item = Demand<'f>>,
    ) -> &[Share] {
        self.begin(resources);
        flows.for_each(|flow| self.add(flow));
        self.divide()
    }

    /// Forgets all flows, and begins anew with so many resources.
    pub fn begin(&mut self, resources: usize) {
        for resource in self.used.drain(..) {
            self.resources[resource as usize] = Resource::UNUSED;
        }
        self.resources.resize(resources, Resource::UNUSED);
        self.wants.clear();
        self.taken.clear();
        self.firsts.clear();
        self.firsts.push(0);
    }

    /// One more flow.
    pub fn add(&mut self, Demand { uses, weight, most }: Demand) {
        let flow = self.wants.len() as u32;
        self.wants.push((weight, most / weight));
        for one in uses.iter().filter(|one| one.part > 0.0) {
            let resource = &mut self.resources[one.resource as usize];
            if resource.open == 0 {
                self.used.push(one.resource);
            }
            let part = weight * one.part;
            resource.demand += part;
            resource.open += 1;
            let before = std::mem::replace(&mut resource.last, self.taken.len() as u32);
            self.taken.push(Taken {
                part,
                resource: one.resource,
                flow,
                before,
            });
        }
        self.firsts.push(self.taken.len() as u32);
    }

    /// Divides the resources among the flows, in the order in which they were added.
    ///
    /// # Cost
    /// Some nanoseconds for each use, and some tens for each resource.
    ///
    /// # Panics
    /// If a flow has no limit, or there are more than 4 million resources and flows.
    pub fn divide(&mut self) -> &[Share] {
        let (resources, flows) = (self.resources.len(), self.wants.len());
        assert!(
            resources + flows <= 1 << RESOURCE_BITS,
            "{resources} resources"
        );
        let open = Share {
            rate: 0.0,
            bound_by: None,
        };
        self.shares.clear();
        self.shares.resize(flows, open);
        self.fixed.clear();
        self.fixed.resize(flows, false);
        self.rank_levels();
        let mut open = flows;
        while open > 0 {
            let (number, level) = self.fullest().expect("every flow has a limit");
            let Some(resource) = self.resources.get(number) else {
                self.fix(number - resources, level, None);
                open -= 1;
                continue;
            };
            let mut at = resource.last;
            while let Some(one) = self.taken.get(at as usize) {
                let (flow, before) = (one.flow as usize, one.before);
                if !self.fixed[flow] {
                    self.fix(flow, level, Some(number as u32));
                    open -= 1;
                }
                at = before;
            }
        }
        &self.shares
    }

    /// The last solution.
    pub fn shares(&self) -> &[Share] {
        &self.shares
    }

    /// What is left of a resource after the last solution.
    pub fn left(&self, resource: u32) -> f64 {
        self.resources[resource as usize].left
    }

    /// Puts the levels in order. Of the resources that a flow has for itself, only the first one to be full can limit it.
    fn rank_levels(&mut self) {
        let mut levels = std::mem::take(&mut self.levels).into_vec();
        levels.clear();
        self.own.clear();
        let first = self.resources.len() as u32;
        let wanted = self.wants.iter().zip(first..).map(|((_, most), number)| {
            if most.is_finite() {
                packed(*most, number)
            } else {
                u64::MAX
            }
        });
        self.own.extend(wanted);
        for &at in &self.used {
            let resource = &self.resources[at as usize];
            let level = packed(resource.level(), at);
            if resource.open > 1 {
                levels.push(Reverse(level));
            } else {
                let flow = self.taken[resource.last as usize].flow as usize;
                self.own[flow] = self.own[flow].min(level);
            }
        }
        self.own.retain(|level| *level < u64::MAX);
        self.own.sort_unstable_by_key(|level| Reverse(*level));
        self.levels = BinaryHeap::from(levels);
    }

    /// The resource that is full first when all open flows' parts grow alike, or the flow that has what it wants, and the rate
    /// of a part then. Fixing flows makes no resource full sooner: what was known of one is too early at most.
    fn fullest(&mut self) -> Option<(usize, f64)> {
        loop {
            let shared = self.levels.peek().map_or(u64::MAX, |first| first.0);
            let own = self.own.last().copied().unwrap_or(u64::MAX);
            if own < shared {
                self.own.pop();
                if let Some(found) = self.reached(own) {
                    return Some(found);
                }
                continue;
            }
            let mut first = self.levels.peek_mut()?;
            let number = numbered(first.0);
            let resource = &self.resources[number];
            let (level, is_open) = (resource.level(), resource.open > 0);
            let now = packed(level, number as u32);
            if is_open && now > first.0 {
                *first = Reverse(now);
                continue;
            }
            PeekMut::pop(first);
            if is_open {
                return Some((number, level));
            }
        }
    }

    /// What a flow has for itself, or wants, if it has not got less.
    fn reached(&self, own: u64) -> Option<(usize, f64)> {
        let number = numbered(own);
        match self.resources.get(number) {
            Some(resource) => (resource.open > 0).then(|| (number, resource.level())),
            None => {
                let flow = number - self.resources.len();
                (!self.fixed[flow]).then(|| (number, self.wants[flow].1))
            }
        }
    }

    /// The rate of each of a flow's parts is this.
    fn fix(&mut self, flow: usize, level: f64, bound_by: Option<u32>) {
        self.fixed[flow] = true;
        let rate = level * self.wants[flow].0;
        self.shares[flow] = Share { rate, bound_by };
        let (first, end) = (self.firsts[flow] as usize, self.firsts[flow + 1] as usize);
        for one in &self.taken[first..end] {
            let resource = &mut self.resources[one.resource as usize];
            resource.left = (resource.left - level * one.part).max(0.0);
            resource.demand = (resource.demand - one.part).max(f64::MIN_POSITIVE);
            resource.open -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a flow takes, how many parts it gets, and what it wants.
    type Flow = (Vec<Use>, f64, f64);

    fn solve(resources: usize, flows: &[Flow]) -> Vec<Share> {
        let mut max_min = MaxMin::default();
        let demands = flows
            .iter()
            .map(|&(ref uses, weight, most)| Demand { uses, weight, most });
        max_min.solve(resources, demands).to_vec()
    }

    fn load(flows: &[Flow], rates: &[f64], resource: u32) -> f64 {
        let parts = flows.iter().zip(rates).flat_map(|((uses, ..), rate)| {
            let mine = uses.iter().filter(move |one| one.resource == resource);
            mine.map(move |one| one.part * rate)
        });
        parts.sum()
    }

    /// By the definition, slowly: all rates that can still grow grow alike, part by part, in small steps, which are
    /// halved when a resource would overflow or one gets more than it wants; who uses a full resource stops, and who has enough.
    fn by_small_steps(resources: usize, flows: &[Flow]) -> Vec<f64> {
        let mut rates = vec![0.0; flows.len()];
        let mut grows = vec![true; flows.len()];
        while grows.contains(&true) {
            let mut step = 1e6;
            while step > 1e-12 {
                let parts = flows.iter().zip(&grows).map(|(flow, &grows)| match grows {
                    true => flow.1,
                    false => 0.0,
                });
                let raised = rates
                    .iter()
                    .zip(parts)
                    .map(|(rate, parts)| rate + step * parts);
                let raised: Vec<f64> = raised.collect();
                let wanted = raised.iter().zip(flows).all(|(rate, flow)| *rate <= flow.2);
                let fits =
                    wanted && (0..resources as u32).all(|at| load(flows, &raised, at) <= 1.0);
                if fits {
                    rates = raised;
                } else {
                    step /= 2.0;
                }
            }
            for (flow, (uses, _, most)) in flows.iter().enumerate() {
                let full = |one: &Use| load(flows, &rates, one.resource) > 1.0 - 1e-8;
                grows[flow] &= !uses.iter().any(|one| one.part > 0.0 && full(one));
                grows[flow] &= rates[flow] < most - 1e-8;
            }
        }
        rates
    }

    fn flow(resources: u32) -> impl Strategy<Value = Flow> {
        let one = (0..resources, prop_oneof![Just(1.0), 0.1..10.0]);
        let several = proptest::collection::vec(one, 1..5);
        let weight = prop_oneof![Just(1.0), 0.2..5.0];
        let most = prop_oneof![Just(f64::INFINITY), 0.01..1.0];
        (several, weight, most).prop_map(|(several, weight, most)| {
            let mut uses: Vec<Use> = Vec::new();
            for (resource, part) in several {
                if uses.iter().all(|other| other.resource != resource) {
                    uses.push(Use { resource, part });
                }
            }
            (uses, weight, most)
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn shares_are_those_found_by_small_steps(
            flows in proptest::collection::vec(flow(8), 1..20),
        ) {
            let shares = solve(8, &flows);
            let slowly = by_small_steps(8, &flows);
            for (share, rate) in shares.iter().zip(&slowly) {
                prop_assert!((share.rate - rate).abs() < 1e-6, "{shares:?} {slowly:?}");
            }
        }

        #[test]
        fn who_limits_a_flow_is_full_and_gives_nobody_more(
            flows in proptest::collection::vec(flow(12), 1..60),
        ) {
            let shares = solve(12, &flows);
            let rates: Vec<f64> = shares.iter().map(|share| share.rate).collect();
            for (share, (_, weight, most)) in shares.iter().zip(&flows) {
                let Some(bound_by) = share.bound_by else {
                    prop_assert!((share.rate / most - 1.0).abs() < 1e-12);
                    continue;
                };
                prop_assert!((load(&flows, &rates, bound_by) - 1.0).abs() < 1e-6);
                for (other, (uses, others, _)) in shares.iter().zip(&flows) {
                    let together = uses.iter().any(|one| one.resource == bound_by);
                    let gets_more = other.rate / others > share.rate / weight * (1.0 + 1e-6);
                    prop_assert!(!together || !gets_more);
                }
            }
        }
    }

    #[test]
    fn a_resource_without_a_limit_limits_nobody() {
        let part = |resource, part| Use { resource, part };
        let flows = [
            (vec![part(0, 0.0), part(1, 2.0)], 1.0, f64::INFINITY),
            (vec![part(0, 0.0), part(2, 4.0)], 1.0, f64::INFINITY),
        ];
        let rates = solve(3, &flows)
            .iter()
            .map(|share| share.rate)
            .collect::<Vec<_>>();
        assert_eq!(rates, [0.5, 0.25]);
    }
}
