//! What a comparison tells.

use std::fmt::Write;

use anyhow::Result;
use sabani_collective::{Choice, Collective};
use sabani_model::price::Model;
use serde::Serialize;

use super::cell::{Cell, Predictor};
use super::of_the_paper;
use super::scores::{
    CLASSES, Decider, Decision, Errors, closer, coverage, decisions, of_class, regrets,
};
use crate::report::svg::{Line, Plot, Point, Scale, Style};
use crate::report::{Rendered, page, text};
use crate::units::{count, format_size, format_time};

/// So much faster must the best algorithm be than the rule's for a choice to be worth something.
const WORTH: f64 = 0.1;

/// What was compared.
pub struct Report<'a> {
    pub collective: Collective,
    /// Ranks, one on each host.
    pub ranks: usize,
    /// Seeds, and the networks in words.
    pub networks: &'a [(u64, String)],
    pub cells: &'a [Cell],
}

/// An algorithm for a length on a network, as a line of JSON.
#[derive(Serialize)]
struct Record<'a> {
    collective: &'static str,
    ranks: usize,
    seed: u64,
    network: &'a str,
    bytes: usize,
    algorithm: String,
    is_rule: bool,
    took_ns: &'a [f64],
    usual_ns: f64,
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
        for (title, rows) in [
            ("Choices", self.choices()),
            ("Regret", self.regrets()),
            ("Errors", self.errors()),
        ] {
            let _ = writeln!(table, "{title}\n{}", text::align(&rows));
        }
        table += &format!("{}\n", self.notes());
        Ok(Rendered {
            table,
            json: self.json()?,
            html: self.page(),
        })
    }

    fn notes(&self) -> String {
        let ranks = self.ranks;
        format!(
            "{}, {ranks} ranks on {ranks} simulated hosts, {}. Times are medians of runs in virtual time; \
             regret is what a choice takes more than the best of all. Errors are absolute, as parts of what \
             happened; within: runs that took what the interval of the simulation says (90 % should); \
             beaten: cells in which the simulation is at least as close.",
            self.collective,
            count(self.networks.len(), "network"),
        )
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
            "seed",
            "bytes",
            "best",
            "",
            "the model's",
            "",
            "the rule's",
            "",
        ];
        let mut rows = vec![header.map(str::to_owned).to_vec()];
        let by_model = decisions(self.cells, Decider::Model);
        let by_rule = decisions(self.cells, Decider::Rule);
        for (model, rule) in by_model.iter().zip(&by_rule) {
            let mut row = vec![model.place.seed.to_string(), format_size(model.place.bytes)];
            for cell in [model.best, model.chosen, rule.chosen] {
                row.push(cell.choice.to_string());
                row.push(format_time(cell.median_ns() / 1e9));
            }
            rows.push(row);
        }
        rows
    }

    /// For each decider, over all lengths, and over those in which there is something to gain.
    fn regrets(&self) -> Vec<Vec<String>> {
        let header = ["", "", "mean", "worst", "mean where the rule loses"];
        let mut rows = vec![header.map(str::to_owned).to_vec()];
        let rule = decisions(self.cells, Decider::Rule);
        let lost = |place| {
            let at = rule.iter().find(|decision| decision.place == place);
            at.is_some_and(|decision| decision.regret() > WORTH)
        };
        for decider in self.deciders() {
            let all = decisions(self.cells, decider);
            let (mean, worst) = regrets(all.iter());
            let worth = all
                .iter()
                .filter(|decision: &&Decision| lost(decision.place));
            let figures = [mean, worst, regrets(worth).0].map(percent);
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
        for cell in self.cells {
            let network = self
                .networks
                .iter()
                .find(|(seed, _)| *seed == cell.place.seed);
            let price = |model: Model| cell.prices_ns[model as usize];
            let record = Record {
                collective: self.collective.name(),
                ranks: self.ranks,
                seed: cell.place.seed,
                network: network.map_or("", |(_, words)| words),
                bytes: cell.place.bytes,
                algorithm: cell.choice.to_string(),
                is_rule: cell.is_rule,
                took_ns: &cell.took_ns,
                usual_ns: cell.usual_ns,
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
            let _ = writeln!(body, "<h2>Seed {seed}: {}</h2>", page::escape(words));
            for choice in self.drawn(*seed) {
                let _ = write!(
                    body,
                    "<h3>{}</h3>\n{}",
                    page::escape(&choice.to_string()),
                    self.plot(*seed, &choice).render()
                );
            }
        }
        for rows in [self.choices(), self.regrets(), self.errors()] {
            body += &page::table(&rows);
        }
        let title = format!("{}: predicted and simulated", self.collective);
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
