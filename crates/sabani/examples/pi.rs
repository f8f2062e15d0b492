//! Computes pi with as many ranks as were started: `sabani run -n 4 -- target/debug/examples/pi`.

use sabani::Comm;

const STEPS: usize = 10_000_000;

fn main() -> Result<(), sabani::comm::Error> {
    let comm = Comm::init()?;
    let (rank, size) = (comm.rank(), comm.size());

    let height = |step: usize| 4.0 / (1.0 + ((step as f64 + 0.5) / STEPS as f64).powi(2));
    let own: f64 = (rank..STEPS).step_by(size).map(height).sum();

    if rank > 0 {
        return comm.send(0, 0, &[own]);
    }
    let mut sum = own;
    for from in 1..size {
        sum += comm.recv_vec::<f64>(from, 0)?[0];
    }
    println!("pi is {:.9}, say {size} ranks", sum / STEPS as f64);
    Ok(())
}
