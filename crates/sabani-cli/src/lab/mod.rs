//! `sabani lab`: a small cluster on one machine, of network namespaces around a switch.
//!
//! [`names`] says what everything is called: that is all the state there is, so that [`down`] finds
//! what any [`up`] has left. [`trunks`] has what is to be known of two levels of switches. [`ports`] reads
//! the switch's counters, [`owned`] is a lab that ends with
//! the program that made it.

mod args;
mod down;
mod exec;
mod loss;
mod names;
mod owned;
mod ports;
mod run;
mod status;
mod trunks;
mod turn;
mod up;

use anyhow::Result;

use args::LabCommand;
pub use args::{LabArgs, LinkArgs, Rate};
pub use exec::command as exec_command;
pub use names::{Host, MAX_HOSTS};
pub use owned::OwnedLab;
pub use ports::Port;
pub use run::Job;
pub use up::Plan;

/// MTU of all links.
const MTU_BYTES: u64 = 1500;
/// What the queue counts beside a packet's MTU: the Ethernet header.
const ETHERNET_BYTES: u64 = 14;
/// Headers of IPv4 and UDP.
const UDP_HEADER_BYTES: u64 = 28;

/// Does what the command line says.
///
/// # Errors
/// Without root, without the tools, or if there is no such lab.
pub fn run(args: LabArgs) -> Result<()> {
    match args.command {
        LabCommand::Up(args) => up::run(&args),
        LabCommand::Exec(args) => exec::run(&args),
        LabCommand::Run(args) => run::run(&args),
        LabCommand::Loss(args) => loss::run(&args),
        LabCommand::Status(args) => status::run(&args),
        LabCommand::Down(args) => down::run(&args),
        LabCommand::Guard(args) => owned::guard(&args),
    }
}
