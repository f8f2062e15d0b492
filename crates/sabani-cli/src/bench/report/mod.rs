//! What two processes have measured: a table, lines of JSON and a page.

mod html;
mod json;
mod table;

use anyhow::Result;

use super::results::Results;
use crate::report::{Rendered, Reports};

/// Tells what two processes have measured in the last task.
///
/// # Errors
/// If a figure cannot be written as JSON, or an output fails.
pub fn tell_last(results: &Results, reports: &mut Reports) -> Result<()> {
    reports.part(&table::last(results), &json::last(results)?)
}

/// Renders what is left to say when all tasks are done.
pub fn rest(results: &Results) -> Rendered {
    Rendered {
        table: table::notes(results),
        json: String::new(),
        html: html::render(results),
    }
}

#[cfg(test)]
pub(crate) mod samples {
    //! Results to render in tests.

    use std::time::Duration;

    use sabani::Schedule;

    use crate::bench::{
        measure::Limit,
        results::{Cell, Histogram, Results, Sample},
        task::Task,
        transport::Transport,
    };

    /// Two benches, two transports, three rounds.
    pub fn results() -> Results {
        let limit = Limit::Time(Duration::from_millis(200));
        let transports = [(Transport::RawUdp, 1.0), (Transport::TcpCubic, 2.0)];
        let mut cells = Vec::new();
        for (transport, factor) in transports {
            cells.push(Cell {
                task: Task::Ping { size: 4, limit },
                transport,
                samples: [2.0, 2.5, 3.0].map(|p50| ping(p50 * factor)).into(),
            });
        }
        for (transport, factor) in transports {
            cells.push(Cell {
                task: Task::Burst { size: 65536, limit },
                transport,
                samples: [8000.0, 9000.0].map(|rate| burst(rate / factor)).into(),
            });
        }
        Results {
            place: "loopback".into(),
            schedule: Schedule::PerLayer,
            cells,
        }
    }

    /// The 99th percentile is twice the median, the 99.9th four times.
    fn ping(p50_us: f64) -> Sample {
        let p50_ns = (p50_us * 2000.0) as u64;
        let histogram = Histogram(vec![(p50_ns, 985), (2 * p50_ns, 10), (4 * p50_ns, 5)]);
        Sample::Ping { histogram, lost: 0 }
    }

    fn burst(mb_per_s: f64) -> Sample {
        Sample::Burst {
            mb_per_s,
            messages_per_s: mb_per_s * 1e6 / 65536.0,
            lost: 1,
        }
    }
}
