//! Sorts a file of numbers, of which each rank holds a share only:
//! `sabani run -n 4 -- target/release/examples/sample_sort numbers sorted`.

mod ending;

use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use bytemuck::{cast_slice, cast_slice_mut};
use clap::Parser;
use sabani::Comm;
use sabani::comm::{Max, Sum};

/// Bytes of a number in the files.
const NUMBER: u64 = size_of::<u64>() as u64;
/// Samples that a rank gives for each rank: shares of the result differ by about the inverse of it.
const OVERSAMPLING: usize = 32;
const TAG: u32 = 0;

/// Sorts a file of 64-bit unsigned numbers (in this machine's byte order) on all ranks.
///
/// Each rank sorts a share of the file. Samples of all shares tell where to cut, so that each rank
/// gets about as many numbers, also if most of them are equal. The ranks exchange what lies between
/// the cuts, and write it to its place in the result, which gets its name when it has been read again
/// and found right. All ranks must see the same files; each needs memory for three shares.
///
/// To try it: `head -c 800000000 /dev/urandom > numbers`, and as above.
#[derive(Parser)]
struct Options {
    /// File to sort
    numbers: PathBuf,
    /// File for the result; may be the same
    sorted: PathBuf,
}

fn main() -> ExitCode {
    ending::of(sort(&Options::parse()))
}

fn sort(options: &Options) -> Result<()> {
    let comm = Comm::init()?;
    let begun = Instant::now();

    let (input, total) = open(&options.numbers)?;
    let partial = partial_of(&options.sorted);
    if comm.rank() == 0 {
        File::create(&partial).with_context(|| {
            format!(
                "cannot write {}: is its folder there, and may you write to it?",
                partial.display()
            )
        })?;
    }
    let share = share_of(&comm, total);
    let mut numbers = read(&input, share.clone())
        .context("reading the numbers: does something else write that file?")?;
    numbers.sort_unstable();
    let before = fingerprint(&comm, &numbers)?;
    let cuts = cuts(&comm, &numbers, share.start)?;
    let part = exchange(&comm, numbers, &cuts)?;

    write(&comm, &partial, &part)?;
    let after = check(&comm, &partial, share)?;
    ensure!(
        before == after,
        "other numbers came out than went in: does something else write the files, or another sort with the same names?"
    );
    if comm.rank() == 0 {
        fs::rename(&partial, &options.sorted).with_context(|| {
            format!(
                "giving the result the name {}: what stands there must be no folder",
                options.sorted.display()
            )
        })?;
    }

    let mut largest = [part.len() as u64];
    comm.allreduce_in_place(&mut largest, Max)?;
    if comm.rank() == 0 {
        let (ranks, seconds) = (comm.size(), begun.elapsed().as_secs_f64());
        println!(
            "{total} numbers sorted in {seconds:.2} s; ranks: {ranks}, at most {} numbers for one",
            largest[0]
        );
    }
    Ok(())
}

/// Opens the file of numbers, and counts them.
fn open(path: &Path) -> Result<(File, u64)> {
    let file = File::open(path).with_context(|| {
        format!(
            "cannot read {}: is the path right, and may you read it?",
            path.display()
        )
    })?;
    let bytes = file.metadata()?.len();
    ensure!(
        bytes.is_multiple_of(NUMBER),
        "{} has {bytes} bytes, which is no multiple of {NUMBER}: is it a file of 64-bit numbers?",
        path.display()
    );
    Ok((file, bytes / NUMBER))
}

/// Which numbers of a file are this rank's.
fn share_of(comm: &Comm, total: u64) -> Range<u64> {
    let until = |rank: usize| (u128::from(total) * rank as u128 / comm.size() as u128) as u64;
    until(comm.rank())..until(comm.rank() + 1)
}

fn read(file: &File, numbers: Range<u64>) -> Result<Vec<u64>> {
    let mut read = vec![0; (numbers.end - numbers.start) as usize];
    file.read_exact_at(cast_slice_mut(&mut read), numbers.start * NUMBER)?;
    Ok(read)
}

/// Tells one multitude of numbers, over all ranks, from another: how many, and the sum of their hashes.
fn fingerprint(comm: &Comm, numbers: &[u64]) -> Result<[u64; 2]> {
    let hash = |number: u64| {
        let mixed = (number ^ (number >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    };
    let hashes = numbers.iter().map(|&number| hash(number));
    let mut all = [numbers.len() as u64, hashes.fold(0, u64::wrapping_add)];
    comm.allreduce_in_place(&mut all, Sum)?;
    Ok(all)
}

/// Where to cut this rank's sorted numbers, the first of which has the place `first` among all: one
/// part for each rank.
///
/// A sample is a number and its place. So no two are equal, and equal numbers can be cut apart.
fn cuts(comm: &Comm, numbers: &[u64], first: u64) -> Result<Vec<usize>> {
    let samples = OVERSAMPLING * comm.size();
    let sample = |index: usize| {
        let at = (2 * index + 1) * numbers.len() / (2 * samples);
        numbers.get(at).map(|&number| [number, first + at as u64])
    };
    // A rank without numbers has no say: what it gives lies behind everything.
    let own: Vec<_> = (0..samples)
        .map(|index| sample(index).unwrap_or([u64::MAX; 2]))
        .collect();
    let mut all = vec![[0; 2]; samples * comm.size()];
    comm.allgather(&own, &mut all)?;
    all.sort_unstable();

    let inner = all.iter().skip(samples).step_by(samples);
    let inner = inner.map(|&[number, place]| {
        let smaller = numbers.partition_point(|&other| other < number);
        let not_greater = numbers.partition_point(|&other| other <= number);
        (place.saturating_sub(first) as usize).clamp(smaller, not_greater)
    });
    Ok([0]
        .into_iter()
        .chain(inner)
        .chain([numbers.len()])
        .collect())
}

/// Gives each rank its part, and returns this rank's: sorted.
fn exchange(comm: &Comm, numbers: Vec<u64>, cuts: &[usize]) -> Result<Vec<u64>> {
    let (rank, size) = (comm.rank(), comm.size());
    let leaving: Vec<_> = cuts
        .windows(2)
        .map(|cut| (cut[1] - cut[0]) as u64)
        .collect();
    let mut coming = vec![0; size];
    comm.alltoall(&leaving, &mut coming)?;
    let places: Vec<usize> = [0]
        .into_iter()
        .chain(coming.iter().scan(0, |sum, &count| {
            *sum += count as usize;
            Some(*sum)
        }))
        .collect();

    let mut part = vec![0; places[size]];
    for step in 0..size {
        let (to, from) = ((rank + step) % size, (rank + size - step) % size);
        let sent = &numbers[cuts[to]..cuts[to + 1]];
        let room = &mut part[places[from]..places[from + 1]];
        comm.sendrecv(to, sent, from, room, TAG)?;
    }
    drop(numbers);
    // This kind of sort finds the runs that came, and merges them.
    part.sort();
    Ok(part)
}

/// The result's name until it is found right.
fn partial_of(sorted: &Path) -> PathBuf {
    let mut name = sorted.as_os_str().to_owned();
    name.push(".partial");
    name.into()
}

/// Writes this rank's part behind those of lower ranks.
fn write(comm: &Comm, path: &Path, part: &[u64]) -> Result<()> {
    let writing = || {
        let path = path.display();
        format!("writing {path}: do all ranks see the same folder, with room for it?")
    };
    let mut until = [0];
    comm.scan(&[part.len() as u64], &mut until, Sum)?; // nobody gets it before rank 0 has made the file
    let first = until[0] - part.len() as u64;
    let file = File::options()
        .write(true)
        .open(path)
        .with_context(writing)?;
    file.write_all_at(cast_slice(part), first * NUMBER)
        .with_context(writing)?;
    Ok(comm.barrier()?)
}

/// Reads a share of the result, with the number before it, sees whether it is sorted, and returns the
/// fingerprint of all.
fn check(comm: &Comm, path: &Path, share: Range<u64>) -> Result<[u64; 2]> {
    let reading = || {
        let path = path.display();
        format!("reading {path} again: does something else write that file?")
    };
    let before = share.start.saturating_sub(1);
    let file = File::open(path).with_context(reading)?;
    let numbers = read(&file, before..share.end).with_context(reading)?;
    ensure!(
        numbers.is_sorted(),
        "the result is not sorted: does something else write it, or another sort with the same names?"
    );
    fingerprint(comm, &numbers[(share.start - before) as usize..])
}
