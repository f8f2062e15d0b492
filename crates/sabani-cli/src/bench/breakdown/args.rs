//! What the user may ask `sabani bench breakdown` for.

use clap::Args;

use crate::{
    bench::args::{TurnArgs, parse_message_size},
    report::OutputArgs,
};

/// Where the time of a message goes, layer by layer, on its way out and in.
///
/// Two nodes in this process, on a core each where there are two, throw a message to and fro. One of them times what its
/// thread is at: all of the time between its sending a message and having the answer is some part's. Sealed and plain nodes
/// take turns.
///
/// messages: what the calls that send and receive do before and after packets. channel: packets built and taken in,
/// acknowledgements, timers, messages put in order and matched. seal: what these take more in a sealed node than in a plain
/// one. copy: the program's bytes into packets and out of them, as long as copying as many in pieces of a packet takes by
/// itself. system call: sending and receiving. waiting: nothing is there: the other node, the kernel between the two, and
/// looking in vain.
#[derive(Args, Debug)]
pub struct BreakdownArgs {
    /// Message sizes, as in `4,1k,64k` (powers of 1,024), each between 4 B and 64 MiB.
    #[arg(long, value_delimiter = ',', value_parser = parse_message_size, default_value = "4,1k,16k,64k")]
    pub sizes: Vec<usize>,
    #[command(flatten)]
    pub turns: TurnArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}
