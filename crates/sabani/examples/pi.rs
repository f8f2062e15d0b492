//! Computes pi with as many ranks as were started: `sabani run -n 4 -- target/debug/examples/pi`.

mod usage;
use sabani::Comm;
use sabani::comm::{Error, Sum};

const STEPS: usize = 10_000_000;

fn main() -> Result<(), Error> {
    usage::heed(include_str!("pi.rs"), "");
    let comm = Comm::init()?;
    let (rank, size) = (comm.rank(), comm.size());

    let height = |step: usize| 4.0 / (1.0 + ((step as f64 + 0.5) / STEPS as f64).powi(2));
    let own: f64 = (rank..STEPS).step_by(size).map(height).sum();
    let mut all = [0.0];
    comm.reduce(0, &[own], &mut all, Sum)?;

    if rank == 0 {
        println!("pi is {:.9}; ranks: {size}", all[0] / STEPS as f64);
    }
    Ok(())
}
