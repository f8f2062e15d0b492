//! Runs fuzz targets on a stable compiler: `sabani-fuzz TARGET|all [--seconds N] [--seed S] [FILE…]`.

use std::panic;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sabani_fuzz::rng::Rng;
use sabani_fuzz::{TARGETS, Target};

const USAGE: &str =
    "usage: sabani-fuzz packet|sequence|hostile|all [--seconds N] [--seed S] [FILE…]
Runs the target on inputs made from the seed for N seconds (default 10), or on the files.";
/// Inputs kept to be mutated.
const CORPUS: usize = 256;
/// An input that takes longer than this is a hang. Of the processor's time: a machine that is busy
/// with something else makes no input slow.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often that is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// Of `/proc` clock ticks, those in a second: the same on all of Linux.
const TICKS_PER_SECOND: u64 = 100;

struct Options {
    targets: Vec<Target>,
    time: Duration,
    seed: u64,
    files: Vec<PathBuf>,
}

fn main() -> ExitCode {
    let Some(options) = parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    thread::spawn(watch);
    for target in &options.targets {
        let passed = if options.files.is_empty() {
            campaign(target, options.time, options.seed)
        } else {
            options.files.iter().all(|file| replay(target, file))
        };
        if !passed {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn parse(mut words: impl Iterator<Item = String>) -> Option<Options> {
    let name = words.next()?;
    let mut options = Options {
        targets: TARGETS
            .into_iter()
            .filter(|target| name == "all" || name == target.name)
            .collect(),
        time: Duration::from_secs(10),
        seed: 1,
        files: Vec::new(),
    };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seconds" => options.time = Duration::from_secs(words.next()?.parse().ok()?),
            "--seed" => options.seed = words.next()?.parse().ok()?,
            _ => options.files.push(word.into()),
        }
    }
    (!options.targets.is_empty()).then_some(options)
}

/// The input that is being run, for the watch.
static CURRENT: Mutex<(&str, Vec<u8>)> = Mutex::new(("", Vec::new()));
static RUNS: AtomicU64 = AtomicU64::new(0);

fn watch() {
    let (mut runs, mut since) = (0, Duration::ZERO);
    loop {
        thread::sleep(LOOK);
        let now = processor_time().expect("Linux tells a process its times");
        if RUNS.load(Ordering::Relaxed) != runs {
            (runs, since) = (RUNS.load(Ordering::Relaxed), now);
        } else if now - since > PATIENCE {
            let (name, input) = &*CURRENT.lock().expect("nobody panics with it");
            eprintln!("{name}: an input has not ended after {PATIENCE:?} of computing");
            keep(name, input);
            std::process::exit(1);
        }
    }
}

/// What this process has computed so far, itself and in the kernel.
fn processor_time() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name before may hold spaces; then come the fields from the third on.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11);
    let (user, kernel): (u64, u64) = (times.next()?.parse().ok()?, times.next()?.parse().ok()?);
    Some(Duration::from_millis(
        (user + kernel) * 1000 / TICKS_PER_SECOND,
    ))
}

fn campaign(target: &Target, time: Duration, seed: u64) -> bool {
    let mut rng = Rng(seed);
    let mut corpus: Vec<Vec<u8>> = Vec::new();
    let (start, before) = (Instant::now(), RUNS.load(Ordering::Relaxed));
    while start.elapsed() < time {
        let mut input = if corpus.len() < CORPUS || rng.below(4) == 0 {
            (target.begin)(&mut rng)
        } else {
            corpus[rng.below(CORPUS)].clone()
        };
        if rng.below(4) > 0 {
            rng.mutate(&mut input);
        }
        if !passes(target, &input) {
            return false;
        }
        if corpus.len() < CORPUS {
            corpus.push(input);
        } else if rng.below(8) == 0 {
            corpus[rng.below(CORPUS)] = input;
        }
    }
    let runs = RUNS.load(Ordering::Relaxed) - before;
    println!("{}: {runs} inputs in {time:?}, seed {seed}", target.name);
    true
}

fn passes(target: &Target, input: &[u8]) -> bool {
    *CURRENT.lock().expect("nobody panics with it") = (target.name, input.to_vec());
    let passed = panic::catch_unwind(|| (target.run)(input)).is_ok();
    RUNS.fetch_add(1, Ordering::Relaxed);
    if !passed {
        keep(target.name, input);
    }
    passed
}

fn replay(target: &Target, file: &Path) -> bool {
    match std::fs::read(file) {
        Ok(input) => passes(target, &input),
        Err(error) => {
            eprintln!("{}: {error}", file.display());
            false
        }
    }
}

/// Writes an input that failed to where cargo-fuzz would.
fn keep(name: &str, input: &[u8]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("artifacts")
        .join(name);
    let hash = input
        .iter()
        .fold(0_u64, |hash, &byte| Rng(hash ^ u64::from(byte)).draw());
    let file = folder.join(format!("crash-{hash:016x}"));
    let written = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&file, input));
    match written {
        Ok(()) => eprintln!("replay: cargo run --release -- {name} {}", file.display()),
        Err(error) => eprintln!("the input can't be written to {}: {error}", file.display()),
    }
}
