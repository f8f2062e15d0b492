//! What a run tells: a table, and on request lines of JSON and a page.

pub mod html;
mod json;
pub mod svg;
pub mod table;

use std::{
    fs::File,
    io::{self, Write},
    path::Path,
};

use anyhow::{Context, Result};

use super::{args::OutputArgs, results::Results};

/// Where the results go. Files are opened before anything is measured, so that a mistake in a path
/// costs no time.
pub struct Reports {
    table: Box<dyn Write>,
    json: Option<Box<dyn Write>>,
    html: Option<File>,
}

impl Reports {
    /// Opens what was asked for. The table makes way for JSON on standard output.
    ///
    /// # Errors
    /// If a file cannot be created.
    pub fn open(output: &OutputArgs) -> Result<Self> {
        let stdout_is_json = output.json.as_deref() == Some(Path::new("-"));
        let json: Option<Box<dyn Write>> = match &output.json {
            Some(_) if stdout_is_json => Some(Box::new(io::stdout())),
            Some(path) => Some(Box::new(create(path)?)),
            None => None,
        };
        let table: Box<dyn Write> = match stdout_is_json {
            true => Box::new(io::stderr()),
            false => Box::new(io::stdout()),
        };
        Ok(Self {
            table,
            json,
            html: output.html.as_deref().map(create).transpose()?,
        })
    }

    /// Writes all.
    ///
    /// # Errors
    /// If one of the outputs fails.
    pub fn write(&mut self, rendered: &Rendered) -> Result<()> {
        self.table.write_all(rendered.table.as_bytes())?;
        if let Some(json) = &mut self.json {
            json.write_all(rendered.json.as_bytes())?;
            json.flush()?;
        }
        if let Some(html) = &mut self.html {
            html.write_all(rendered.html.as_bytes())?;
        }
        Ok(())
    }
}

/// What a run tells, in each form.
pub struct Rendered {
    /// For people.
    pub table: String,
    /// Lines of JSON.
    pub json: String,
    /// A page.
    pub html: String,
}

/// Renders what two processes have measured.
///
/// # Errors
/// If a figure cannot be written as JSON.
pub fn render(results: &Results) -> Result<Rendered> {
    Ok(Rendered {
        table: table::render(results),
        json: json::render(results)?,
        html: html::render(results),
    })
}

fn create(path: &Path) -> Result<File> {
    File::create(path).with_context(|| format!("cannot create {}", path.display()))
}

#[cfg(test)]
pub(crate) mod samples {
    //! Results to render in tests.

    use std::time::Duration;

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
