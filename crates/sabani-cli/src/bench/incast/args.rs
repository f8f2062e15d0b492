//! What the user may ask `sabani bench incast` and `sabani bench mix` for.

use anyhow::Result;
use clap::Args;

use crate::{
    bench::{
        args::{Against, VariantArgs, parse_message_size},
        tcp_baselines,
        transport::Transport,
    },
    lab::LinkArgs,
    layers::LayersOption,
    report::OutputArgs,
};

/// Rounds of many to one.
///
/// In each round the receiver asks all senders for one message, at the same time; the round's
/// completion time ends when the last byte of the last message is there. It is compared with the
/// ideal one: all bytes at the rate at which the receiver's link could carry them in UDP packets, and
/// one round trip. Transports take turns of 20 rounds, and the first round of each turn does not
/// count.
///
/// All programs here share the machine's cores. So the nodes of Sabani do not spin while they wait (default 50 µs),
/// but are used as any program would in all else; a TCP connection to each sender is kept open,
/// with TCP_NODELAY. A result that was measured while the machine's processors were busy for more
/// than 60 % of the time is marked as invalid.
#[derive(Args, Debug)]
pub struct IncastArgs {
    /// Number of senders.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub senders: u16,
    /// Size of each sender's message, as in `64KiB`, up to 64 MiB.
    #[arg(long, default_value = "64KiB", value_parser = parse_message_size, value_name = "SIZE")]
    pub bytes: usize,
    #[command(flatten)]
    pub common: FanInArgs,
}

/// One short message among long flows.
///
/// The last sender answers a request with a message of 1 KiB, every 10 to 20 ms, while all others
/// send messages of 1 MiB without a pause. Its completion time, request included, is compared
/// with that of the same request, every 2 ms, while the others are silent. Otherwise as `sabani bench incast`.
#[derive(Args, Debug)]
pub struct MixArgs {
    /// Number of senders, the one of the short message included.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(2..=64))]
    pub senders: u16,
    #[command(flatten)]
    pub common: FanInArgs,
}

/// What both have in common.
#[derive(Args, Debug)]
pub struct FanInArgs {
    /// Measure in a lab made for it: network namespaces around a switch (needs root). In the simulator
    /// it is `sabani sim`.
    #[arg(long, required = true)]
    pub lab: bool,
    #[command(flatten)]
    pub link: LinkArgs,
    /// What to compare with, as in `tcp-cubic,tcp-bbr`; `tcp` is both, `none` is none.
    ///
    /// By default all that this system offers.
    #[arg(long, value_delimiter = ',')]
    pub against: Vec<Against>,
    #[command(flatten)]
    pub variants: VariantArgs,
    /// Rounds for each transport.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub rounds: u32,
    #[command(flatten)]
    pub layers: LayersOption,
    #[command(flatten)]
    pub output: OutputArgs,
}

impl FanInArgs {
    /// Sabani's variants and what they are compared with.
    ///
    /// # Errors
    /// If that does not resend what the switch drops, or this system does not offer it.
    pub fn transports(&self) -> Result<Vec<Transport>> {
        let against = match self.against.is_empty() {
            true => Transport::BASELINES
                .into_iter()
                .filter(|transport| transport.is_tcp() && transport.is_available())
                .collect(),
            false => tcp_baselines(&self.against, "does not resend what the switch drops")?,
        };
        Ok([self.variants.transports(), against].concat())
    }
}
