//! Max-min fair shares: every flow gets as much as it can without taking from one that has less. That is
//! what transports come close to that divide a full link evenly.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// How much of a resource a flow takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Use {
    /// Which one.
    pub resource: u32,
    /// Its part of the whole resource for each unit of the flow's rate. A resource without a known limit
    /// has 0.
    pub part: f64,
}

/// What a flow gets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// Its rate.
    pub rate: f64,
    /// The resource that keeps it from being faster: before it, what the flow has on its way waits. Of
    /// several, the one with the lowest number.
    pub bound_by: u32,
}

/// A level as a number that keeps the order, with 30 bits of its digits: resources that differ by rounding
/// only are full at the same time.
fn rounded(level: f64) -> u64 {
    (level * (1.0 + 1e-12)).to_bits() >> 22
}

/// Calculates shares, and keeps its memory for the next time.
#[derive(Debug, Default)]
pub struct MaxMin {
    /// For each resource: its parts taken by each unit of the rates that are not fixed yet.
    demand: Vec<f64>,
    /// For each resource: what is left of it.
    left: Vec<f64>,
    /// For each resource: how many flows that are not fixed yet use it.
    open: Vec<u32>,
    /// What all flows take of resources that have a limit, one flow after the other: they are looked at several times.
    uses: Vec<Use>,
    /// Where each flow's part of `uses` begins.
    firsts: Vec<u32>,
    /// Where each resource's flows begin in `users`.
    starts: Vec<u32>,
    users: Vec<u32>,
    /// When each resource is full, as far as known, the first one on top.
    levels: BinaryHeap<Reverse<(u64, u32)>>,
    shares: Vec<Option<Share>>,
}

impl MaxMin {
    /// The shares of `flows` in `resources` resources; `uses` says what each flow takes.
    ///
    /// # Cost
    /// Some nanoseconds for each use, and some tens for each resource.
    ///
    /// # Panics
    /// If a flow has no resource that limits it.
    pub fn solve<'f>(
        &mut self,
        resources: usize,
        flows: usize,
        uses: impl Fn(usize) -> &'f [Use],
    ) -> impl Iterator<Item = Share> {
        self.begin(resources, flows, uses);
        let mut unfixed = flows;
        while unfixed > 0 {
            let (resource, rate) = self.fullest().expect("every flow has a limit");
            let users = self.starts[resource]..self.starts[resource + 1];
            for at in users {
                let flow = self.users[at as usize] as usize;
                if self.shares[flow].is_none() {
                    let bound_by = resource as u32;
                    self.shares[flow] = Some(Share { rate, bound_by });
                    self.take(flow, rate);
                    unfixed -= 1;
                }
            }
        }
        self.shares.iter().flatten().copied()
    }

    /// What is left of a resource after the last solution.
    pub fn left(&self, resource: u32) -> f64 {
        self.left[resource as usize]
    }

    fn begin<'f>(&mut self, resources: usize, flows: usize, uses: impl Fn(usize) -> &'f [Use]) {
        self.shares.clear();
        self.shares.resize(flows, None);
        self.demand.clear();
        self.demand.resize(resources, 0.0);
        self.left.clear();
        self.left.resize(resources, 1.0);
        self.open.clear();
        self.open.resize(resources, 0);
        self.uses.clear();
        self.firsts.clear();
        self.firsts.push(0);
        for flow in 0..flows {
            for one in uses(flow).iter().filter(|one| one.part > 0.0) {
                self.demand[one.resource as usize] += one.part;
                self.open[one.resource as usize] += 1;
                self.uses.push(*one);
            }
            self.firsts.push(self.uses.len() as u32);
        }
        self.group_by_resource(resources);
        let mut levels = std::mem::take(&mut self.levels).into_vec();
        levels.clear();
        let used = (0..resources).filter(|&resource| self.open[resource] > 0);
        levels.extend(used.map(|at| Reverse((rounded(self.level(at)), at as u32))));
        self.levels = BinaryHeap::from(levels);
    }

    /// Finds each resource's flows.
    fn group_by_resource(&mut self, resources: usize) {
        let ends = self.open.iter().scan(0, |end, count| {
            *end += count;
            Some(*end)
        });
        self.starts.clear();
        self.starts.push(0);
        self.starts.extend(ends);
        self.users.clear();
        self.users.resize(self.starts[resources] as usize, 0);
        // Each resource's flows are filled in from behind.
        for (flow, ends) in self.firsts.windows(2).enumerate() {
            for one in &self.uses[ends[0] as usize..ends[1] as usize] {
                let resource = one.resource as usize;
                self.open[resource] -= 1;
                self.users[(self.starts[resource] + self.open[resource]) as usize] = flow as u32;
            }
        }
        for resource in 0..resources {
            self.open[resource] = self.starts[resource + 1] - self.starts[resource];
        }
    }

    /// The resource that is full first when all open flows' rates grow alike, and the rate then. Fixing
    /// flows makes no resource full sooner: what was known of one is too early at most.
    fn fullest(&mut self) -> Option<(usize, f64)> {
        while let Some(Reverse((known, resource))) = self.levels.pop() {
            let at = resource as usize;
            if self.open[at] == 0 {
                continue;
            }
            let level = self.level(at);
            if rounded(level) <= known {
                return Some((at, level));
            }
            self.levels.push(Reverse((rounded(level), resource)));
        }
        None
    }

    fn level(&self, resource: usize) -> f64 {
        self.left[resource] / self.demand[resource]
    }

    /// A flow's rate is fixed.
    fn take(&mut self, flow: usize, rate: f64) {
        let (first, end) = (self.firsts[flow] as usize, self.firsts[flow + 1] as usize);
        for one in &self.uses[first..end] {
            let resource = one.resource as usize;
            self.left[resource] = (self.left[resource] - rate * one.part).max(0.0);
            self.demand[resource] = (self.demand[resource] - one.part).max(f64::MIN_POSITIVE);
            self.open[resource] -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn solve(resources: usize, flows: &[Vec<Use>]) -> Vec<Share> {
        let mut max_min = MaxMin::default();
        max_min
            .solve(resources, flows.len(), |flow| &flows[flow])
            .collect()
    }

    fn load(flows: &[Vec<Use>], rates: &[f64], resource: u32) -> f64 {
        let parts = flows.iter().zip(rates).flat_map(|(uses, rate)| {
            let mine = uses.iter().filter(move |one| one.resource == resource);
            mine.map(move |one| one.part * rate)
        });
        parts.sum()
    }

    /// By the definition, slowly: all rates that can still grow grow alike in small steps, which are
    /// halved when a resource would overflow; who uses a full resource stops.
    fn by_small_steps(resources: usize, flows: &[Vec<Use>]) -> Vec<f64> {
        let mut rates = vec![0.0; flows.len()];
        let mut grows = vec![true; flows.len()];
        while grows.contains(&true) {
            let mut step = 1e6;
            while step > 1e-10 {
                let raised = rates.iter().zip(&grows).map(|(rate, &grows)| match grows {
                    true => rate + step,
                    false => *rate,
                });
                let raised: Vec<f64> = raised.collect();
                let fits = (0..resources as u32).all(|at| load(flows, &raised, at) <= 1.0);
                if fits {
                    rates = raised;
                } else {
                    step /= 2.0;
                }
            }
            for (flow, uses) in flows.iter().enumerate() {
                let full = |one: &Use| load(flows, &rates, one.resource) > 1.0 - 1e-8;
                grows[flow] &= !uses.iter().any(|one| one.part > 0.0 && full(one));
            }
        }
        rates
    }

    fn uses(resources: u32) -> impl Strategy<Value = Vec<Use>> {
        let one = (0..resources, prop_oneof![Just(1.0), 0.1..10.0]);
        let several = proptest::collection::vec(one, 1..5);
        several.prop_map(|several| {
            let mut uses: Vec<Use> = Vec::new();
            for (resource, part) in several {
                if uses.iter().all(|other| other.resource != resource) {
                    uses.push(Use { resource, part });
                }
            }
            uses
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn shares_are_those_found_by_small_steps(
            flows in proptest::collection::vec(uses(8), 1..20),
        ) {
            let shares = solve(8, &flows);
            let slowly = by_small_steps(8, &flows);
            for (share, rate) in shares.iter().zip(&slowly) {
                prop_assert!((share.rate - rate).abs() < 1e-6, "{shares:?} {slowly:?}");
            }
        }

        #[test]
        fn who_limits_a_flow_is_full_and_gives_nobody_more(
            flows in proptest::collection::vec(uses(12), 1..60),
        ) {
            let shares = solve(12, &flows);
            let rates: Vec<f64> = shares.iter().map(|share| share.rate).collect();
            for share in &shares {
                prop_assert!((load(&flows, &rates, share.bound_by) - 1.0).abs() < 1e-6);
                for (other, uses) in shares.iter().zip(&flows) {
                    let together = uses.iter().any(|one| one.resource == share.bound_by);
                    prop_assert!(!together || other.rate <= share.rate * (1.0 + 1e-6));
                }
            }
        }
    }

    #[test]
    fn a_resource_without_a_limit_limits_nobody() {
        let part = |resource, part| Use { resource, part };
        let flows = [
            vec![part(0, 0.0), part(1, 2.0)],
            vec![part(0, 0.0), part(2, 4.0)],
        ];
        let rates = solve(3, &flows)
            .iter()
            .map(|share| share.rate)
            .collect::<Vec<_>>();
        assert_eq!(rates, [0.5, 0.25]);
    }
}
