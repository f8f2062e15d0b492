//! The option `--layers`: which layers of a node share a thread.

use std::{env, process::Command};

use anyhow::{Context, Result};
use clap::Args;
use sabani::{Builder, LAYERS_VARIABLE, Schedule};

use crate::exit::Usage;

/// Which layers of a node share a thread.
#[derive(Args, Clone, Debug, Default)]
pub struct LayersOption {
    /// Which layers of a node share a thread: inline, background, per-core, per-layer, or groups as in
    /// `[messages+channel][seal+datagrams]`.
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

    /// The schedule that nodes have, be it by this option, by the environment or by default.
    ///
    /// # Errors
    /// [`Usage`], if what the environment says is no schedule.
    pub fn schedule(&self) -> Result<Schedule> {
        match (&self.layers, env::var(LAYERS_VARIABLE)) {
            (Some(schedule), _) => Ok(schedule.clone()),
            (None, Ok(text)) => {
                let named = || format!("{LAYERS_VARIABLE}={text}");
                Ok(text.parse().with_context(named).map_err(Usage::of)?)
            }
            (None, Err(_)) => Ok(Schedule::default()),
        }
    }

    /// Whether a node may have more than one thread at work.
    pub fn needs_cores(&self) -> bool {
        !matches!(self.layers, None | Some(Schedule::Inline))
    }
}
