//! Finds the temperatures of a plate whose edges are kept hot and cold, and draws them:
//! `sabani run -n 4 -- target/release/examples/heat --picture heat.png`.

mod ending;

use std::fs::File;
use std::io::BufWriter;
use std::mem;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use clap::builder::RangedU64ValueParser;
use sabani::Comm;
use sabani::comm::Max;

/// Of the upper edge; the others have 0.
const HOTTEST: f64 = 100.0;
/// Sweeps between two looks at how much still changes: a look costs an allreduce.
const SWEEPS: usize = 64;
const UPWARDS: u32 = 0;
const DOWNWARDS: u32 = 1;
const RESULT: u32 = 2;

/// Finds the temperatures of a square plate whose upper edge has 100 degrees and whose other edges have 0,
/// and draws them.
///
/// By Jacobi's method: each point becomes the mean of its four neighbours, again and again. Each rank
/// has some rows, and gets those next to them from the ranks above and below while it works on others.
/// The result does not depend on the number of ranks.
#[derive(Parser)]
struct Options {
    /// Points on each side, edges included
    #[arg(long, default_value_t = 201, value_parser = RangedU64ValueParser::<usize>::new().range(3..=1 << 14))]
    points: usize,
    /// Degrees: goes on until no point changes by more in a sweep
    #[arg(long, default_value_t = 1e-5, value_parser = tolerance)]
    tolerance: f64,
    /// Sweeps after which it gives up
    #[arg(long, default_value_t = 10_000_000)]
    max_sweeps: usize,
    /// File for the picture, as PNG
    #[arg(long)]
    picture: Option<PathBuf>,
}

fn tolerance(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(degrees) if degrees >= 1e-12 => Ok(degrees),
        _ => Err("expected degrees, at least 1e-12, as doubles can't tell less".into()),
    }
}

fn main() -> ExitCode {
    ending::of(solve(&Options::parse()))
}

fn solve(options: &Options) -> Result<()> {
    let comm = Comm::init()?;
    let inner = options.points - 2;
    ensure!(
        comm.size() <= inner,
        "{} ranks are too many for {inner} rows: start fewer, or ask for more --points",
        comm.size()
    );

    if let Some(path) = options.picture.as_ref().filter(|_| comm.rank() == 0) {
        // Not only after all the work.
        let opened = File::options().append(true).create(true).open(path);
        opened.with_context(|| {
            format!(
                "cannot write {}: is its folder there, and may you write to it?",
                path.display()
            )
        })?;
    }

    let mut strip = Strip::new(&comm, options.points);
    let mut sweeps = 0;
    let mut change = [f64::INFINITY];
    while change[0] > options.tolerance {
        ensure!(
            sweeps < options.max_sweeps,
            "some points still change by {:.1e} degrees after {sweeps} sweeps: allow more --max-sweeps, or a larger --tolerance",
            change[0]
        );
        for _ in 0..SWEEPS {
            change = [strip.sweep(&comm)?];
        }
        sweeps += SWEEPS;
        comm.allreduce_in_place(&mut change, Max)?;
    }

    if let Some(plate) = strip.collect(&comm)? {
        let middle = plate[plate.len() / 2];
        let ranks = comm.size();
        println!("{middle:.4} degrees in the middle, after {sweeps} sweeps; ranks: {ranks}");
        if let Some(path) = &options.picture {
            draw(path, options.points, &plate).with_context(|| {
                format!("drawing {}: is there room on the disk?", path.display())
            })?;
        }
    }
    Ok(())
}

/// A rank's rows, and one more above and below: the neighbours', or an edge of the plate.
struct Strip {
    width: usize,
    rows: usize,
    now: Vec<f64>,
    next: Vec<f64>,
}

impl Strip {
    fn new(comm: &Comm, width: usize) -> Self {
        let first_of = |rank| rank * (width - 2) / comm.size();
        let rows = first_of(comm.rank() + 1) - first_of(comm.rank());
        let mut now = vec![0.0; (rows + 2) * width];
        if comm.rank() == 0 {
            now[..width].fill(HOTTEST);
        }
        let next = now.clone();
        Self {
            width,
            rows,
            now,
            next,
        }
    }

    /// One step for all rows; returns the largest change.
    fn sweep(&mut self, comm: &Comm) -> Result<f64> {
        let (rank, last) = (comm.rank(), comm.size() - 1);
        // What is sent is copied and under way while the rows that need nothing from others are done.
        if rank > 0 {
            comm.send(rank - 1, UPWARDS, self.row(1))?;
        }
        if rank < last {
            comm.send(rank + 1, DOWNWARDS, self.row(self.rows))?;
        }
        let mut change = self.relax(2..self.rows);
        if rank > 0 {
            comm.recv(rank - 1, DOWNWARDS, self.row_mut(0))?;
        }
        if rank < last {
            comm.recv(rank + 1, UPWARDS, self.row_mut(self.rows + 1))?;
        }
        change = change.max(self.relax(1..2));
        change = change.max(self.relax(self.rows.max(2)..self.rows + 1));
        mem::swap(&mut self.now, &mut self.next);
        Ok(change)
    }

    /// Makes each point of these rows the mean of its neighbours; returns the largest change.
    fn relax(&mut self, rows: Range<usize>) -> f64 {
        let width = self.width;
        let mut change: f64 = 0.0;
        for start in rows.map(|row| row * width) {
            let above = &self.now[start - width..start];
            let row = &self.now[start..start + width];
            let below = &self.now[start + width..start + 2 * width];
            let next = &mut self.next[start..start + width];
            for x in 1..width - 1 {
                next[x] = ((above[x] + below[x]) + (row[x - 1] + row[x + 1])) / 4.0;
                change = change.max((next[x] - row[x]).abs());
            }
        }
        change
    }

    fn row(&self, row: usize) -> &[f64] {
        &self.now[row * self.width..][..self.width]
    }

    fn row_mut(&mut self, row: usize) -> &mut [f64] {
        &mut self.now[row * self.width..][..self.width]
    }

    /// All rows of the plate, at rank 0.
    fn collect(&self, comm: &Comm) -> Result<Option<Vec<f64>>> {
        let width = self.width;
        if comm.rank() > 0 {
            comm.send(0, RESULT, &self.now[width..(self.rows + 1) * width])?;
            return Ok(None);
        }
        let mut plate = self.now[..(self.rows + 1) * width].to_vec();
        for rank in 1..comm.size() {
            plate.extend(comm.recv_vec::<f64>(rank, RESULT)?);
        }
        plate.resize(width * width, 0.0);
        Ok(Some(plate))
    }
}

/// Draws temperatures: black, red, yellow, white.
fn draw(path: &Path, points: usize, plate: &[f64]) -> Result<()> {
    let shade = |part: f64| (255.0 * part.clamp(0.0, 1.0)).round() as u8;
    let colour = |&degrees: &f64| {
        let heat = 3.0 * degrees / HOTTEST;
        [shade(heat), shade(heat - 1.0), shade(heat - 2.0)]
    };
    let file = BufWriter::new(File::create(path)?);
    let mut encoder = png::Encoder::new(file, points as u32, points as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let pixels: Vec<u8> = plate.iter().flat_map(colour).collect();
    encoder.write_header()?.write_image_data(&pixels)?;
    Ok(())
}
