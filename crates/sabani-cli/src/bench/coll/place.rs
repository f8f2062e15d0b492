//! Where the ranks of a job run.

use std::{
    env,
    process::{self, Command, Output, Stdio},
    thread,
};

use anyhow::{Context, Result, bail, ensure};

use crate::{
    exit::{Interrupted, Usage},
    interrupt,
    key::LentKey,
    lab::{Host, Job, LinkArgs, MAX_HOSTS, OwnedLab, Plan},
    layers::LayersOption,
    tell::expect_reader,
    threads::Started,
};

/// All on this machine, or each on a host of its own.
pub enum Place {
    /// As `sabani run` starts them.
    Here,
    /// Through a rendezvous, under a key that they are lent.
    Lab { lab: OwnedLab, key: LentKey },
}

impl Place {
    /// Makes a lab with so many hosts and these links, if there are any.
    ///
    /// # Errors
    /// Without root or the tools, or if a lab has not that many hosts.
    pub fn open(hosts: u32, link: Option<LinkArgs>) -> Result<Self> {
        let Some(link) = link else {
            return Ok(Self::Here);
        };
        let hosts = u16::try_from(hosts)
            .ok()
            .filter(|&hosts| hosts <= MAX_HOSTS);
        let hosts = hosts.ok_or_else(|| Usage(format!("a lab has up to {MAX_HOSTS} hosts")))?;
        let key = LentKey::make()?;
        let plan = Plan {
            lab: format!("coll-{}", process::id()).parse()?,
            hosts,
            link,
            trunks: None,
        };
        Ok(Self::Lab {
            lab: OwnedLab::make(&plan)?,
            key,
        })
    }

    /// Has so many ranks run this program with these arguments; what rank 0 writes.
    ///
    /// # Errors
    /// If they can't be started, one fails, or the user interrupts.
    pub fn run(&self, ranks: u32, arguments: &[String], layers: &LayersOption) -> Result<String> {
        let own = env::current_exe().context("cannot find this program's own file")?;
        let mut commands = match self {
            Self::Here => {
                let mut command = Command::new(&own);
                let ranks = ranks.to_string();
                command.args(["run", "--with-parent", "--no-prefix", "-n", &ranks, "--"]);
                command.arg(&own);
                vec![command]
            }
            Self::Lab { lab, key } => {
                let job = Job {
                    own: &own,
                    lab: &lab.lab,
                    ranks: ranks as usize,
                    key: &key.path(),
                };
                let on_host = |rank: usize| job.rank(rank, Host(rank as u16 + 1), &own);
                (0..job.ranks).map(on_host).collect()
            }
        };
        for command in &mut commands {
            command.args(arguments).stdin(Stdio::null());
            layers.pass(command);
        }
        expect_reader()?;
        let outputs = all(&mut commands)?;
        if interrupt::requested() {
            bail!(Interrupted("interrupted: all ranks have been ended".into()));
        }
        for output in &outputs {
            let said = String::from_utf8_lossy(&output.stderr);
            ensure!(
                output.status.success(),
                "{ranks} ranks failed: {}",
                said.trim()
            );
        }
        Ok(String::from_utf8_lossy(&outputs[0].stdout).into_owned())
    }
}

/// Runs all at the same time.
fn all(commands: &mut [Command]) -> Result<Vec<Output>> {
    thread::scope(|scope| {
        let run = |command| scope.spawn(|| Command::output(command));
        let running: Vec<_> = commands.iter_mut().map(run).collect();
        let ended = running
            .into_iter()
            .map(|one| one.join().expect("it only waits"));
        ended.map(|one| one.started("ranks")).collect()
    })
}
