//! What the user may ask `sabani bench schedules` for.

use clap::Args;
use sabani::Schedule;

use crate::{
    bench::args::{TurnArgs, VariantArgs, parse_message_size},
    layers::parse_schedule,
    report::OutputArgs,
};

/// A node's own layers, on one core and on more.
///
/// Two nodes in this process, one of which sends to the other: the transport, looped back. Where this process may use six
/// cores or more, each node is called by a thread on a core of its own, and each thread that it has of its own is on
/// another: `inline` takes two cores for both ends, `per-layer` six. With fewer, one thread calls both nodes, on the first
/// core; all threads that they have of their own share the second: so under `inline` one core does all the work of both
/// ends, and under other schedules two share it. Told is what arrives. Turns of all schedules follow each other, round after round; ratios are formed turn by
/// turn and their median is told.
#[derive(Args, Debug)]
pub struct SchedulesArgs {
    /// Schedules: inline, background, per-core, per-layer, or groups as in `[messages+channel][seal+datagrams]` or
    /// `[messages+channel+opening+receiving][sealing+sending]`.
    #[arg(
        long,
        value_delimiter = ',',
        value_parser = parse_schedule,
        default_value = "inline,background,[messages+channel+seal][datagrams],[messages+channel][seal+datagrams],[messages+channel+opening+receiving][sealing+sending],per-layer"
    )]
    pub layers: Vec<Schedule>,
    /// Message sizes, as in `1k,64k` (powers of 1,024), each between 4 B and 64 MiB.
    #[arg(long, value_delimiter = ',', value_parser = parse_message_size, default_value = "1k,64k")]
    pub sizes: Vec<usize>,
    #[command(flatten)]
    pub variants: VariantArgs,
    #[command(flatten)]
    pub turns: TurnArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}
