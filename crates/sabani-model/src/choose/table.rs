//! The best algorithms as a table: compiled once, looked up at each call.

use std::fmt;

use sabani_collective::{BadOverride, Choice, Collective, Context, Counts, choose};
use serde::{Deserialize, Serialize};

use super::decision::decide;
use crate::network::{Network, Transport};
use crate::task::Task;

/// The lengths that are looked at: 0 and the powers of 4 up to 16 MiB, each for those from half of it to
/// twice as much; the last one also for all that are longer.
const CLASSES: usize = 14;

/// A table has no more numbers of ranks and of hosts together than this: each takes some kilobytes to be looked up in.
const MOST_LAYOUTS: usize = 4096;

/// A line of the table: from this length on, up to the next line's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The collective's name.
    pub collective: String,
    /// Number of ranks.
    pub ranks: usize,
    /// On so many hosts, in order, evenly spread.
    pub hosts: usize,
    /// From so many bytes on, as [`Task::bytes`] counts them.
    pub bytes: usize,
    /// The algorithm, as [`Choice::parse`] reads it.
    pub choice: String,
    /// What it is expected to take.
    pub expected_ns: f64,
    /// What the documented rule's choice is expected to take; at least, if it was hopeless.
    pub rule_ns: f64,
}

/// A line that can't be used.
#[derive(Debug)]
pub enum BadRow {
    /// There is no such collective.
    Collective(String),
    /// There is no such algorithm.
    Choice(BadOverride),
    /// There are no such ranks.
    Layout {
        /// Number of ranks.
        ranks: usize,
        /// Number of hosts.
        hosts: usize,
    },
    /// A time, `expected_ns` or `rule_ns`, is below 0.
    Time(&'static str),
    /// They are for so many numbers of ranks and hosts.
    Layouts(usize),
}

impl fmt::Display for BadRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadRow::Collective(name) => write!(f, "`{name}` is no collective"),
            BadRow::Choice(why) => write!(f, "{why}"),
            BadRow::Layout { ranks, hosts } => {
                write!(f, "{ranks} ranks can't be on {hosts} hosts")
            }
            BadRow::Time(field) => write!(f, "{field} is below 0"),
            BadRow::Layouts(count) => write!(
                f,
                "they are for {count} numbers of ranks and hosts, and a table has {MOST_LAYOUTS} at most"
            ),
        }
    }
}

impl std::error::Error for BadRow {}

/// Finds the best algorithms over a transport for these numbers of ranks. Before each collective,
/// `progress` is told its name and number of ranks.
///
/// # Cost
/// Up to a minute of computing for each number of ranks around 64; more over TCP, where long vectors lose much.
pub fn compile(
    network: &Network,
    transport: &Transport,
    ranks: &[usize],
    mut progress: impl FnMut(Collective, usize),
) -> Vec<Row> {
    let mut rows = Vec::new();
    for &ranks in ranks {
        for collective in Collective::ALL {
            progress(collective, ranks);
            let one_length = collective == Collective::Barrier;
            let classes = if one_length { 1 } else { CLASSES };
            let task = Task::new(collective, ranks, 0, network);
            rows.extend(
                (0..classes)
                    .map(|class| row(network, transport, &task.with_bytes(bytes_of(class)), class)),
            );
        }
    }
    rows
}

/// The numbers of ranks for which a table is compiled: powers of two, and all hosts.
pub fn usual_ranks(hosts: usize) -> Vec<usize> {
    let powers = std::iter::successors(Some(2), |ranks| Some(2 * ranks));
    let mut ranks: Vec<_> = powers.take_while(|&ranks| ranks < hosts).collect();
    ranks.push(hosts.max(2));
    ranks
}

/// The bytes of the vector or of a block on average, if all ranks know as much: what a table goes by.
pub fn length(collective: Collective, cx: &Context) -> Option<usize> {
    let is_rooted = matches!(collective, Collective::Gather | Collective::Scatter);
    let elements = match cx.counts {
        Counts::Vector(elements) | Counts::Each(elements) => elements,
        Counts::Offsets(_) if !is_rooted => cx.total() / cx.size,
        _ => return None,
    };
    Some(elements * cx.element_bytes)
}

fn row(network: &Network, transport: &Transport, task: &Task, class: usize) -> Row {
    let decided = decide(network, transport, task);
    Row {
        collective: task.collective.name().to_owned(),
        ranks: task.ranks,
        hosts: task.hosts().len(),
        bytes: first_of(class),
        choice: decided.choice.to_string(),
        expected_ns: decided.expected_ns,
        rule_ns: decided.rule_ns,
    }
}

/// The length at which a class is looked at.
fn bytes_of(class: usize) -> usize {
    if class == 0 {
        0
    } else {
        1 << (2 * (class - 1))
    }
}

/// The least length of a class.
fn first_of(class: usize) -> usize {
    match class {
        0 => 0,
        1 => 1,
        _ => bytes_of(class) / 2,
    }
}

fn class_of(bytes: usize) -> usize {
    let bits = usize::BITS - bytes.leading_zeros();
    match bits {
        0 => 0,
        bits => (bits as usize / 2 + 1).min(CLASSES - 1),
    }
}

/// How ranks lie on hosts, as far as a table tells situations apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Layout {
    /// How many there are on each host; 0 if one host has them all, however many.
    each: usize,
    ranks: usize,
}

impl Layout {
    /// Ranks that are spread evenly, those of a host after each other.
    fn even(ranks: usize, hosts: usize) -> Option<Self> {
        let each = match hosts {
            0 => return None,
            1 => 0,
            _ => ranks.div_ceil(hosts),
        };
        (hosts <= ranks).then_some(Layout { each, ranks })
    }

    /// That of a communicator; `None` if no table has it.
    fn of(cx: &Context) -> Option<Self> {
        let each_alone = Layout {
            each: 1,
            ranks: cx.size,
        };
        let Some(hosts) = cx.hosts else {
            return Some(each_alone);
        };
        let layout = Layout::even(cx.size, hosts.len())?;
        let is_even = hosts.in_order() && hosts.largest() == layout.each;
        (layout.each == 0 || is_even).then_some(layout)
    }

    /// Whether what is best for one is taken for the other: the same but for the number of ranks, of
    /// which one has no more than twice as many.
    fn is_like(self, other: Layout) -> bool {
        let (least, most) = (self.ranks.min(other.ranks), self.ranks.max(other.ranks));
        self.each == other.each && most <= 2 * least
    }
}

/// A line that was looked up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// The algorithm and its parameters.
    pub choice: Choice,
    /// For so many ranks.
    pub ranks: usize,
    /// The length that was looked at: near the wanted one, unless the table leaves lengths out.
    pub bytes: usize,
    /// What it is expected to take with them.
    pub expected_ns: f64,
    /// What the documented rule's choice is expected to take with them.
    pub rule_ns: f64,
}

impl Found {
    /// Whether nothing was better than what the rule chooses: with other numbers of ranks that is what it chooses for them.
    fn is_rule(&self) -> bool {
        self.expected_ns >= self.rule_ns
    }
}

/// The table as it is looked up in.
#[derive(Clone, Debug, Default)]
pub struct Lookup {
    /// Ascending.
    layouts: Vec<Layout>,
    /// For each layout, collective and class of lengths.
    cells: Vec<Option<Found>>,
}

impl Lookup {
    /// From a table's lines, in any order.
    ///
    /// # Errors
    /// If one of them can't be used.
    pub fn new(rows: &[Row]) -> Result<Self, BadRow> {
        let mut layouts = rows
            .iter()
            .map(Row::layout)
            .collect::<Result<Vec<_>, _>>()?;
        layouts.sort_unstable();
        layouts.dedup();
        if layouts.len() > MOST_LAYOUTS {
            return Err(BadRow::Layouts(layouts.len()));
        }
        let cells = vec![None; layouts.len() * Collective::ALL.len() * CLASSES];
        let mut lookup = Lookup { layouts, cells };
        let mut rows: Vec<_> = rows.iter().collect();
        rows.sort_by_key(|row| row.bytes);
        for row in rows {
            let named = |collective: &Collective| collective.name() == row.collective;
            let collective = Collective::ALL.into_iter().find(named);
            let collective =
                collective.ok_or_else(|| BadRow::Collective(row.collective.clone()))?;
            let layout = row.layout()?;
            row.check_times()?;
            let place = lookup.layouts.partition_point(|known| *known < layout);
            let found = Found {
                choice: Choice::parse(collective, &row.choice).map_err(BadRow::Choice)?,
                ranks: row.ranks,
                bytes: bytes_of(class_of(row.bytes)),
                expected_ns: row.expected_ns,
                rule_ns: row.rule_ns,
            };
            // Each line takes over from its length on.
            let cells = first_cell(place, collective);
            lookup.cells[cells + class_of(row.bytes)..cells + CLASSES].fill(Some(found));
        }
        Ok(lookup)
    }

    /// Whether it says nothing at all.
    pub fn is_empty(&self) -> bool {
        self.layouts.is_empty()
    }

    /// The best choice for a situation, by the number of ranks that is nearest; `None` if the table says
    /// nothing of hosts that have as many ranks each, or names an algorithm that does not fit here.
    ///
    /// # Cost
    /// A binary search among the layouts, and a look-up: some tens of nanoseconds.
    pub fn find(&self, collective: Collective, cx: &Context) -> Option<Found> {
        let place = self.nearest(Layout::of(cx)?)?;
        let class = class_of(length(collective, cx)?);
        let mut found = self.cells[first_cell(place, collective) + class]?;
        if found.is_rule() && found.ranks != cx.size {
            found.choice = choose(collective, cx);
        }
        found.choice.algorithm.schedule.fits(cx).then_some(found)
    }

    /// The layout that is nearest by the ratio of ranks.
    fn nearest(&self, wanted: Layout) -> Option<usize> {
        let above = self.layouts.partition_point(|known| *known < wanted);
        let is_like = |&place: &usize| {
            let known = self.layouts.get(place);
            known.is_some_and(|known| known.is_like(wanted))
        };
        let next = Some(above).filter(is_like);
        let below = above.checked_sub(1).filter(is_like);
        let (Some(high), Some(low)) = (next, below) else {
            return next.or(below);
        };
        let ranks = |place: usize| self.layouts[place].ranks;
        let is_below = wanted.ranks * wanted.ranks < ranks(low) * ranks(high);
        Some(if is_below { low } else { high })
    }
}

impl Row {
    fn layout(&self) -> Result<Layout, BadRow> {
        let Row { ranks, hosts, .. } = *self;
        Layout::even(ranks, hosts).ok_or(BadRow::Layout { ranks, hosts })
    }

    fn check_times(&self) -> Result<(), BadRow> {
        match (self.expected_ns >= 0.0, self.rule_ns >= 0.0) {
            (true, true) => Ok(()),
            (true, false) => Err(BadRow::Time("rule_ns")),
            (false, _) => Err(BadRow::Time("expected_ns")),
        }
    }
}

/// Where the cells of a collective begin.
fn first_cell(place: usize, collective: Collective) -> usize {
    (place * Collective::ALL.len() + collective as usize) * CLASSES
}

#[cfg(test)]
mod tests {
    use sabani_collective::{Hosts, Parameters};

    use super::*;
    use crate::testing::switched;

    fn row(collective: &str, ranks: usize, bytes: usize, choice: &str) -> Row {
        Row {
            collective: collective.to_owned(),
            ranks,
            hosts: ranks,
            bytes,
            choice: choice.to_owned(),
            expected_ns: 1.0,
            rule_ns: 2.0,
        }
    }

    #[test]
    fn every_length_has_its_class() {
        assert_eq!([0, 1, 2, 7, 8, 31, 32].map(class_of), [0, 1, 2, 2, 3, 3, 4]);
        assert_eq!(class_of(usize::MAX), CLASSES - 1);
        for class in 0..CLASSES {
            assert_eq!(class_of(first_of(class)), class);
            assert_eq!(class_of(bytes_of(class)), class);
        }
    }

    #[test]
    fn the_nearest_number_of_ranks_and_the_line_before_are_found() {
        let rows = [
            row("bcast", 4, 0, "binomial"),
            // In any order.
            row("bcast", 16, 32, "chain"),
            row("bcast", 16, 0, "knomial:radix=4"),
            row("allreduce", 16, 0, "ring"),
        ];
        let lookup = Lookup::new(&rows).unwrap();
        let find = |ranks, bytes| {
            let cx = Context::new(ranks, Counts::Vector(bytes));
            let found = lookup.find(Collective::Bcast, &cx);
            found.map(|found| found.choice.to_string())
        };
        assert_eq!(find(2, 1000).unwrap(), "binomial");
        assert_eq!(find(7, 1000).unwrap(), "binomial");
        assert_eq!(find(9, 31).unwrap(), "knomial:radix=4");
        assert_eq!(find(32, 32).unwrap(), "chain");
        assert_eq!(find(33, 32), None, "too many to go by 16");
        let barrier = Context::new(4, Counts::Vector(0));
        assert_eq!(lookup.find(Collective::Barrier, &barrier), None);
        let in_order = Context {
            commutative: false,
            ..Context::new(16, Counts::Vector(5))
        };
        assert_eq!(
            lookup.find(Collective::Allreduce, &in_order),
            None,
            "a ring needs no order"
        );
        assert_eq!(Lookup::default().find(Collective::Barrier, &barrier), None);
    }

    #[test]
    fn where_nothing_is_better_than_the_rule_other_numbers_of_ranks_are_left_to_it() {
        let no_better = Row {
            rule_ns: 1.0,
            ..row("bcast", 4, 0, "binomial")
        };
        let lookup = Lookup::new(&[no_better]).unwrap();
        let find = |cx: &Context| lookup.find(Collective::Bcast, cx).unwrap().choice;
        let [four, eight] = [4, 8].map(|ranks| Context::new(ranks, Counts::Vector(1 << 20)));
        assert_eq!(find(&four).algorithm.name, "binomial");
        assert_eq!(find(&eight), choose(Collective::Bcast, &eight));
        assert_ne!(find(&eight), find(&four));
    }

    #[test]
    fn ranks_that_lie_otherwise_on_their_hosts_are_left_to_the_rule() {
        let spread = row("bcast", 4, 0, "chain");
        let in_pairs = Row {
            hosts: 2,
            ..row("bcast", 4, 0, "knomial:radix=4")
        };
        let together = Row {
            hosts: 1,
            ..row("bcast", 4, 0, "split_binary")
        };
        let lookup = Lookup::new(&[in_pairs, spread, together]).unwrap();
        let find = |hosts: &[usize]| {
            let cx = Context {
                hosts: Some(&Hosts::new(hosts)),
                ..Context::new(hosts.len(), Counts::Vector(1))
            };
            let found = lookup.find(Collective::Bcast, &cx);
            found.map(|found| found.choice.algorithm.name)
        };
        assert_eq!(find(&[0, 1, 2, 3]), Some("chain"));
        assert_eq!(find(&[0, 0, 1, 1]), Some("knomial"));
        assert_eq!(find(&[0, 0, 1, 1, 2]), Some("knomial"));
        assert_eq!(find(&[0, 0, 0, 0, 0]), Some("split_binary"));
        assert_eq!(find(&[0, 1, 0, 1]), None, "not in order");
        assert_eq!(find(&[0, 0, 0, 1]), None, "not even");
        assert_eq!(find(&[0, 0, 0, 1, 1, 1]), None, "three on each");
    }

    #[test]
    fn what_only_some_ranks_know_does_not_decide() {
        let rows = [row("gather", 4, 0, "linear")];
        let lookup = Lookup::new(&rows).unwrap();
        let offsets = [0, 1, 2, 3, 4];
        for counts in [Counts::Own(1), Counts::Offsets(&offsets)] {
            assert_eq!(
                lookup.find(Collective::Gather, &Context::new(4, counts)),
                None
            );
        }
        let each = Context::new(4, Counts::Each(1));
        assert!(lookup.find(Collective::Gather, &each).is_some());
    }

    #[test]
    fn lines_that_can_not_be_used_say_why() {
        let why = |row| Lookup::new(&[row]).unwrap_err().to_string();
        assert!(why(row("everybody", 2, 0, "x")).contains("everybody"));
        assert!(why(row("bcast", 2, 0, "rope")).contains("binomial"));
        let crowded = Row {
            hosts: 3,
            ..row("bcast", 2, 0, "chain")
        };
        assert!(why(crowded).contains("2 ranks can't be on 3 hosts"));
        let many = |count| {
            let rows: Vec<_> = (1..=count)
                .map(|ranks| row("bcast", ranks, 0, "chain"))
                .collect();
            Lookup::new(&rows).map(|_| ())
        };
        assert!(many(4096).is_ok());
        let why = many(4097).unwrap_err().to_string();
        assert!(why.contains("4097 numbers of ranks"), "{why}");
    }

    #[test]
    fn a_compiled_table_never_does_worse_than_the_rule_by_its_own_measure() {
        let network = switched(4);
        let transport = &network.transports["tcp"];
        let mut told = 0;
        let rows = compile(&network, transport, &[4], |_, _| told += 1);
        assert_eq!(told, Collective::ALL.len());
        assert!(rows.iter().all(|row| row.expected_ns <= row.rule_ns));
        let lookup = Lookup::new(&rows).unwrap();
        for collective in Collective::ALL {
            for bytes in [0, 100, 1 << 20] {
                let task = Task::new(collective, 4, bytes, &network);
                let cx = task.context(Parameters::default());
                let found = lookup.find(collective, &cx).unwrap();
                let one_length = collective == Collective::Barrier;
                let looked_at = [bytes, 0][usize::from(one_length)];
                assert!(found.bytes <= 2 * looked_at && looked_at <= 2 * found.bytes);
                let algorithm = found.choice.algorithm;
                assert!(algorithm.schedule.fits(&cx));
                let rule = choose(collective, &cx);
                assert_eq!(algorithm.collective, rule.algorithm.collective);
            }
        }
    }

    #[test]
    fn tables_are_for_powers_of_two_and_all_hosts() {
        assert_eq!(usual_ranks(1), [2]);
        assert_eq!(usual_ranks(8), [2, 4, 8]);
        assert_eq!(usual_ranks(12), [2, 4, 8, 12]);
    }
}
