//! What a comparison tells.

use std::fmt::Write;

use anyhow::Result;
use sabani_collective::{Choice, Collective};
use sabani_model::price::Model;
use serde::Serialize;

use super::cell::{Cell, Predictor};
use super::of_the_paper;
use super::scores::{
    CLASSES, Decider, Decision, Errors, Foresight, at, closer, contended, coverage, decisions,
    mean_and_worst, of_class,
};
use crate::bench::transport::Transport;
use crate::report::svg::{Line, Plot, Point, Scale, Style};
use crate::report::{Rendered, page, text};
use crate::units::{count, format_size, format_time};

/// So much faster must the best algorithm be than the rule's for a choice to be worth something.
const WORTH: f64 = 0.1;

/// Where algorithms have run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ground {
    /// On simulated hosts.
    Simulated,
    /// Between the ranks of a job, over this.
    Ranks(Transport),
}

/// What was compared.
pub struct Report<'a> {
    pub collective: Collective,
    pub ranks: usize,
    pub ground: Ground,
    /// Seeds, and the networks in words.
    pub networks: &'a [(u64, String)],
    pub cells: &'a [Cell],
}

/// An algorithm for a length on a network, as a line of JSON.
#[derive(Serialize)]
struct Record<'a> {
    collective: &'static str,
    ranks: usize,
    /// Of a simulated network.
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    network: &'a str,
    transport: &'static str,
    bytes: usize,
    algorithm: String,
    is_rule: bool,
    is_decided: bool,
    took_ns: &'a [f64],
    /// In each run, over TCP.
    #[serde(skip_serializing_if = "<[u64]>::is_empty")]
    timeouts: &'a [u64],
    timeout_probability: f64,
    paper_timeout: bool,
    expected_ns: f64,
    low_ns: f64,
    high_ns: f64,
    hockney_ns: f64,
    loggp_ns: f64,
    plogp_ns: f64,
    plogp_br_ns: f64,
}

impl Report<'_> {
    /// In each form.
    ///
    /// # Errors
    /// None: all keys are strings.
    pub fn render(&self) -> Result<Rendered> {
        let mut table = String::new();
        for (title, rows) in self.sections() {
            let _ = writeln!(table, "{title}\n{}", text::align(&rows));
        }
        table += &format!("{}\n", self.notes());
        Ok(Rendered {
            table,
            json: self.json()?,
            html: self.page(),
        })
    }

    fn sections(&self) -> Vec<(&'static str, Vec<Vec<String>>)> {
        let mut sections = vec![
            ("Choices", self.choices()),
            ("Regret", self.regrets()),
            ("Errors", self.errors()),
        ];
        if matches!(self.ground, Ground::Ranks(transport) if transport.is_tcp()) {
            sections.push(("Timeouts", self.timeouts()));
        }
        sections
    }

    fn notes(&self) -> String {
        let ranks = self.ranks;
        let place = match self.ground {
            Ground::Simulated => format!(
                "{ranks} ranks on {ranks} simulated hosts, {}. Times are medians of runs in virtual time; ",
                count(self.networks.len(), "network"),
            ),
            Ground::Ranks(transport) => format!(
                "{ranks} ranks over {}. Times are medians of calls, from the first rank's entry to the last one's exit; ",
                transport.name(),
            ),
        };
        format!(
            "{}, {place}\
             regret is what a choice takes more than the best of all; again: where the best is that of every other run, and the \
             times are those of the other runs, for the least of many medians is less than what it takes; where that was chance, the choice takes less. Errors are absolute, as parts of what \
             happened; within: runs that took what the interval of the simulation says (90 % should); \
             beaten: cells in which the simulation is at least as close.{}{}",
            self.collective,
            self.contention(),
            self.foresight(),
        )
    }

    /// How often the simulation is closer where messages meet.
    fn contention(&self) -> String {
        let cells = contended(self.cells);
        let all = cells.clone().count();
        if all == 0 {
            return String::new();
        }
        let closer = |model| (closer(cells.clone(), Predictor::Closed(model)) * all as f64).round();
        format!(
            " Of {} with long messages that meet others (PlogP-BR expects 5 % more than PlogP) it is in {} at least as close as PlogP-BR, in {} \
             than PlogP.",
            count(all, "cell"),
            closer(Model::PLogPBr),
            closer(Model::PLogP),
        )
    }

    /// How well timeouts were foreseen, where somebody has counted them.
    fn foresight(&self) -> String {
        let is_counted = matches!(self.ground, Ground::Ranks(transport) if transport.is_tcp());
        let Some(simulation) = Foresight::of(self.cells, |cell| cell.timeout_probability) else {
            return match is_counted {
                true => " No run met a timeout.".into(),
                false => String::new(),
            };
        };
        let paper = Foresight::of(self.cells, |cell| f64::from(u8::from(cell.paper_timeout)));
        let skill = simulation.skill();
        let skill = skill.map(|skill| format!(": a skill of {skill:.2}"));
        format!(
            " Runs that a tail kept waiting as long as a timeout: {}; Brier score of the simulation's probability {:.3}, of the paper's E_q \
             {:.3}, of that share alone {:.3}{}.",
            percent(simulation.happened),
            simulation.brier,
            paper.map_or(f64::NAN, |paper| paper.brier),
            simulation.brier_of_share(),
            skill.unwrap_or_default(),
        )
    }

    /// What was foreseen of timeouts, and what came, for the algorithms that are drawn and the rule's.
    fn timeouts(&self) -> Vec<Vec<String>> {
        let header = ["bytes", "", "runs with one", "predicted", "E_q"];
        let mut rows = vec![header.map(str::to_owned).to_vec()];
        let drawn = self.drawn(0);
        let wanted = |cell: &&Cell| cell.is_rule || drawn.contains(&cell.choice);
        for cell in self.cells.iter().filter(wanted) {
            rows.push(vec![
                format_size(cell.place.bytes),
                cell.choice.to_string(),
                format!("{} of {}", cell.with_timeout(), cell.timeouts.len()),
                percent(cell.timeout_probability),
                u8::from(cell.paper_timeout).to_string(),
            ]);
        }
        rows
    }

    /// What tells networks apart.
    fn network_word(&self) -> &'static str {
        match self.ground {
            Ground::Simulated => "seed",
            Ground::Ranks(_) => "",
        }
    }

    fn network_name(&self, seed: u64) -> String {
        match self.ground {
            Ground::Simulated => seed.to_string(),
            Ground::Ranks(_) => String::new(),
        }
    }

    fn deciders(&self) -> Vec<Decider> {
        let mut deciders = vec![Decider::Model, Decider::Rule];
        if self.collective == Collective::Alltoall {
            let always = of_the_paper(self.ranks);
            deciders.extend(always.map(|(name, choice)| Decider::Always(name, choice)));
        }
        deciders
    }

    /// For each network and length, what one decides for, and what that takes.
    fn choices(&self) -> Vec<Vec<String>> {
        let header = [
            self.network_word(),
            "bytes",
            "best",
            "",
            "the model's",
            "",
            "the rule's",
            "",
        ];
        let mut rows = vec![header.map(str::to_owned).to_vec()];
        let [by_model, by_rule] =
            [Decider::Model, Decider::Rule].map(|decider| decisions(self.cells, decider));
        for best in decisions(self.cells, Decider::Best) {
            let mut row = vec![
                self.network_name(best.place.seed),
                format_size(best.place.bytes),
            ];
            // Of what somebody decides for perhaps no run counted.
            let others = [&by_model, &by_rule].map(|all| at(all, best.place));
            for decision in [Some(best), others[0], others[1]] {
                let words = decision.map(|Decision { chosen, .. }| {
                    [
                        chosen.choice.to_string(),
                        format_time(chosen.median_ns() / 1e9),
                    ]
                });
                row.extend(words.unwrap_or_default());
            }
            rows.push(row);
        }
        rows
    }

    /// For each decider, over all lengths, and over those in which there is something to gain.
    fn regrets(&self) -> Vec<Vec<String>> {
        let header = [
            "",
            "",
            "mean",
            "worst",
            "mean where the rule loses",
            "again: mean",
            "again: worst",
        ];
        let mut rows = vec![header.map(str::to_owned).to_vec()];
        let deciders = self.deciders().into_iter();
        let of_each = deciders.map(|decider| (decider, decisions(self.cells, decider)));
        let of_each: Vec<_> = of_each.filter(|(_, all)| !all.is_empty()).collect();
        let lost = |place| {
            let rule = of_each
                .iter()
                .find(|(decider, _)| *decider == Decider::Rule);
            let rule = rule.and_then(|(_, all)| at(all, place));
            rule.is_some_and(|rule| rule.regret() > WORTH)
        };
        // Means are of the same places.
        let is_common = |place| of_each.iter().all(|(_, all)| at(all, place).is_some());
        for (decider, all) in &of_each {
            let all: Vec<_> = all
                .iter()
                .filter(|decision| is_common(decision.place))
                .collect();
            if all.is_empty() {
                continue;
            }
            let (mean, worst) = mean_and_worst(all.iter().map(|one| one.regret()));
            let worth = all.iter().filter(|decision| lost(decision.place));
            let (where_lost, _) = mean_and_worst(worth.map(|one| one.regret()));
            let (again, worst_again) = mean_and_worst(all.iter().map(|one| one.again));
            let figures = [mean, worst, where_lost, again, worst_again].map(percent);
            rows.push([&[decider.name().into(), String::new()], &figures[..]].concat());
        }
        rows
    }

    /// For each class of lengths and each predictor.
    fn errors(&self) -> Vec<Vec<String>> {
        let header = ["length", "", "median", "90 %", "bias", "within", "beaten"];
        let mut rows = vec![header.map(str::to_owned).to_vec()];
        for (class, (name, _)) in CLASSES.iter().enumerate() {
            let cells = of_class(self.cells, class);
            if cells.clone().next().is_none() {
                continue;
            }
            for predictor in Predictor::all() {
                let errors = Errors::of(cells.clone(), predictor);
                let mut row = vec![(*name).to_owned(), predictor.name().to_owned()];
                row.extend([errors.median, errors.p90, errors.bias].map(percent));
                row.extend(match predictor {
                    Predictor::Simulation => [percent(coverage(cells.clone())), String::new()],
                    _ => [String::new(), percent(closer(cells.clone(), predictor))],
                });
                rows.push(row);
            }
        }
        rows
    }

    fn json(&self) -> Result<String> {
        let mut lines = String::new();
        let transport = match self.ground {
            Ground::Simulated => Transport::Sabani,
            Ground::Ranks(transport) => transport,
        };
        for cell in self.cells {
            let network = self
                .networks
                .iter()
                .find(|(seed, _)| *seed == cell.place.seed);
            let price = |model: Model| cell.prices_ns[model as usize];
            let record = Record {
                collective: self.collective.name(),
                ranks: self.ranks,
                seed: (self.ground == Ground::Simulated).then_some(cell.place.seed),
                network: network.map_or("", |(_, words)| words),
                transport: transport.name(),
                bytes: cell.place.bytes,
                algorithm: cell.choice.to_string(),
                is_rule: cell.is_rule,
                is_decided: cell.is_decided,
                took_ns: &cell.took_ns,
                timeouts: if transport.is_tcp() {
                    &cell.timeouts
                } else {
                    &[]
                },
                timeout_probability: cell.timeout_probability,
                paper_timeout: cell.paper_timeout,
                expected_ns: cell.predicted_ns.value,
                low_ns: cell.predicted_ns.low,
                high_ns: cell.predicted_ns.high,
                hockney_ns: price(Model::Hockney),
                loggp_ns: price(Model::LogGp),
                plogp_ns: price(Model::PLogP),
                plogp_br_ns: price(Model::PLogPBr),
            };
            lines.push_str(&serde_json::to_string(&record)?);
            lines.push('\n');
        }
        Ok(lines)
    }

    fn page(&self) -> String {
        let mut body = String::new();
        for (seed, words) in self.networks {
            let title = format!(
                "{} {} {words}",
                self.network_word(),
                self.network_name(*seed)
            );
            let _ = writeln!(body, "<h2>{}</h2>", page::escape(title.trim()));
            for choice in self.drawn(*seed) {
                let _ = write!(
                    body,
                    "<h3>{}</h3>\n{}",
                    page::escape(&choice.to_string()),
                    self.plot(*seed, &choice).render()
                );
            }
        }
        for (_, rows) in self.sections() {
            body += &page::table(&rows);
        }
        let happened = match self.ground {
            Ground::Simulated => "simulated",
            Ground::Ranks(_) => "measured",
        };
        let title = format!("{}: predicted and {happened}", self.collective);
        page::render(&title, &self.notes(), &body)
    }

    /// The algorithms of a network that are drawn: the paper's for an all-to-all, else those that the rule and the
    /// model choose.
    fn drawn(&self, seed: u64) -> Vec<Choice> {
        if self.collective == Collective::Alltoall {
            return of_the_paper(self.ranks).map(|(_, choice)| choice).into();
        }
        let mut choices: Vec<Choice> = Vec::new();
        for decider in [Decider::Rule, Decider::Model] {
            let all = decisions(self.cells, decider).into_iter();
            for decision in all.filter(|decision| decision.place.seed == seed) {
                if !choices.contains(&decision.chosen.choice) {
                    choices.push(decision.chosen.choice);
                }
            }
        }
        choices
    }

    /// As the paper's figure 8: what each model says, and what happened, over lengths.
    fn plot(&self, seed: u64, choice: &Choice) -> Plot {
        let is_drawn = |cell: &&Cell| cell.place.seed == seed && cell.choice == *choice;
        let cells: Vec<&Cell> = self.cells.iter().filter(is_drawn).collect();
        let line = |name: &str, style, of: &dyn Fn(&Cell) -> (f64, f64, f64)| {
            let point = |cell: &&Cell| {
                let (median, min, max) = of(cell);
                Point {
                    x: cell.place.bytes.max(1) as f64,
                    median: median / 1e6,
                    min: min / 1e6,
                    max: max / 1e6,
                }
            };
            Line {
                name: name.to_owned(),
                points: cells.iter().map(point).collect(),
                style,
            }
        };
        let took = |cell: &Cell| {
            let least = cell.took_ns.iter().copied().fold(f64::INFINITY, f64::min);
            let most = cell.took_ns.iter().copied().fold(0.0, f64::max);
            (cell.median_ns(), least, most)
        };
        let mut lines = vec![line("happened", Style::Bars, &took)];
        for predictor in Predictor::all() {
            let style = match predictor {
                Predictor::Simulation => Style::Bars,
                Predictor::Closed(_) => Style::Plain,
            };
            lines.push(line(predictor.name(), style, &|cell| match predictor {
                Predictor::Simulation => {
                    let expected = cell.predicted_ns;
                    (expected.value, expected.low, expected.high)
                }
                closed => [cell.expected_ns(closed); 3].into(),
            }));
        }
        Plot {
            lines,
            scale: Scale::Logarithmic,
            ticks: Vec::new(),
            unit: "ms",
        }
    }
}

fn percent(share: f64) -> String {
    if share.is_nan() {
        return "-".into();
    }
    format!("{:.1} %", 100.0 * share)
}
