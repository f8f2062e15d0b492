//! The option `--layers`: which layers of a node share a thread.

use std::process::Command;

use anyhow::Result;
use clap::Args;
use sabani::{Builder, Error, LAYERS_VARIABLE, Node, PeerId, Schedule};

use crate::exit::Usage;

/// Which layers of a node share a thread.
#[derive(Args, Clone, Debug, Default)]
pub struct LayersOption {
    /// Which layers of a node share a thread: inline, background, per-core, per-layer, or groups as in
    /// `[messages+channel][seal+datagrams]`, or by the two ways, as in `[messages+channel+opening+receiving][sealing+sending]`.
    ///
    /// inline does everything on the threads that wait for it; background has one thread for all. Default: what
    /// SABANI_LAYERS says, else inline.
    #[arg(long, value_name = "SCHEDULE", value_parser = parse_schedule)]
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

    /// The schedule that nodes have, be it by this option, by the environment or by default.
    ///
    /// # Errors
    /// [`Usage`], if what the environment says is none.
    pub fn schedule(&self) -> Result<Schedule> {
        let schedule = self.apply(some_node()).schedule();
        Ok(schedule.map_err(Usage::of)?)
    }

    /// Whether a node may have more than one thread at work.
    pub fn needs_cores(&self) -> bool {
        !matches!(self.layers, None | Some(Schedule::Inline))
    }
}

/// Reads a schedule that a node can have; for the command line.
///
/// # Errors
/// If it is none.
pub fn parse_schedule(text: &str) -> Result<Schedule> {
    match some_node().layers(text.parse()?).schedule() {
        // clap has said which.
        Err(Error::Layers { why, .. }) => Err(why.into()),
        outcome => Ok(outcome?),
    }
}

/// Whatever node, for what holds of all.
fn some_node() -> Builder {
    Node::builder(PeerId(0))
}
