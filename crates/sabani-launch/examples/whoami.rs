//! Says who this process is in its job, and where the others are.

use std::net::UdpSocket;

use sabani_launch::World;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut world = World::join()?;
    let socket = UdpSocket::bind((world.address(), 0))?;
    world.meet(socket.local_addr()?)?;
    let mut ports: Vec<_> = world
        .members()
        .iter()
        .map(|member| member.address.port())
        .collect();
    ports.sort_unstable();
    ports.dedup();
    println!(
        "rank {} of {}, local rank {}, by {}, key {:?}, {} addresses",
        world.rank(),
        world.size(),
        world.local_rank(),
        world.launcher(),
        world.job_key(),
        ports.len(),
    );
    Ok(())
}
