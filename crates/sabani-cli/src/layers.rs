//! The option `--layers`: which layers of a node share a thread.

use std::process::Command;

use clap::Args;
use sabani::{Builder, LAYERS_VARIABLE, Schedule};

/// Which layers of a node share a thread.
#[derive(Args, Clone, Debug, Default)]
pub struct LayersOption {
    /// Which layers of a node share a thread: inline, background, per-core, per-layer, or groups as in
    /// `[messages+channel+seal][datagrams]`.
    ///
    /// inline does everything on the threads that wait for it; background has one thread for all. Default: what
    /// SABANI_LAYERS says, else inline.
    #[arg(long, value_name = "SCHEDULE")]
    layers: Option<Schedule>,
}

impl LayersOption {
    /// Has the node run its layers so.
    pub fn apply(&self, builder: Builder) -> Builder {
        match &self.layers {
            Some(schedule) => builder.layers(schedule.clone()),
            None => builder,
        }
    }

    /// Has the nodes of a process that is started run their layers so.
    pub fn pass(&self, command: &mut Command) {
        if let Some(schedule) = &self.layers {
            command.env(LAYERS_VARIABLE, schedule.to_string());
        }
    }

    /// Whether a node may have more than one thread at work.
    pub fn needs_cores(&self) -> bool {
        !matches!(self.layers, None | Some(Schedule::Inline))
    }
}
