//! Who started this process, read from its environment.

use std::fmt;
use std::net::Ipv6Addr;

use crate::{Environment, Error};

/// The port at which rank 0 waits for the others, where nothing else is said.
const RENDEZVOUS_PORT: u16 = 7177;

/// What started the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launcher {
    /// Nothing: a world of one.
    Alone,
    /// `sabani run`.
    Run,
    /// Whoever set `SABANI_RENDEZVOUS`, `SABANI_RANK` and `SABANI_SIZE`.
    Rendezvous,
    /// A launcher that speaks PMIx: Open MPI, PRRTE, Slurm.
    Pmix,
    /// A launcher that speaks PMI-1: MPICH's Hydra, Slurm.
    Pmi,
    /// Slurm without PMI.
    Slurm,
    /// Kubernetes, as an indexed Job.
    Kubernetes,
}

impl fmt::Display for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Launcher::Alone => "no launcher",
            Launcher::Run => "sabani run",
            Launcher::Rendezvous => "the rendezvous",
            Launcher::Pmix => "PMIx",
            Launcher::Pmi => "PMI",
            Launcher::Slurm => "Slurm",
            Launcher::Kubernetes => "Kubernetes",
        })
    }
}

/// How a process gets to know its rank and the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    Alone,
    Run { fd: i32, rank: u32, size: u32 },
    Pmix,
    PmiDescriptor { fd: i32, rank: u32, size: u32 },
    PmiPort { address: String, id: u32 },
    Rendezvous(Meeting),
}

/// A rendezvous over TCP: rank 0 waits, the others come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meeting {
    pub launcher: Launcher,
    pub rank: u32,
    pub size: u32,
    /// Where rank 0 waits, as `host:port`.
    pub address: String,
}

impl Meeting {
    /// Something that it needs can't be done.
    pub fn failed(&self, doing: &str, problem: String) -> Error {
        Error::Launcher {
            launcher: self.launcher,
            doing: doing.into(),
            problem,
        }
    }
}

impl Start {
    /// Reads it from the environment. The socket of `sabani run` goes first: a `SABANI_RENDEZVOUS`
    /// beside it was meant for others. Then comes what the program's user has set, before what a
    /// launcher has, and a launcher with a store before one without.
    ///
    /// # Errors
    /// If variables contradict each other, or one of several that belong together is missing.
    pub fn of(environment: &Environment) -> Result<Self, Error> {
        let start = if let Some(fd) = environment.number("SABANI_RUN_FD")? {
            let cure = "`sabani run` sets it";
            Start::Run {
                fd,
                rank: environment.need("SABANI_RANK", cure)?,
                size: environment.need("SABANI_SIZE", cure)?,
            }
        } else if let Some(meeting) = by_rendezvous(environment)? {
            Start::Rendezvous(meeting)
        } else if environment.get("PMIX_NAMESPACE")?.is_some() {
            Start::Pmix
        } else if let Some(fd) = environment.number("PMI_FD")? {
            let cure = "a launcher that sets PMI_FD sets it as well";
            Start::PmiDescriptor {
                fd,
                rank: environment.need("PMI_RANK", cure)?,
                size: environment.need("PMI_SIZE", cure)?,
            }
        } else if let Some(address) = environment.get("PMI_PORT")? {
            let cure = "a launcher that sets PMI_PORT sets it as well";
            Start::PmiPort {
                address: address.to_owned(),
                id: environment.need("PMI_ID", cure)?,
            }
        } else if let Some(meeting) = by_slurm(environment)? {
            Start::Rendezvous(meeting)
        } else {
            needs_no_rendezvous(environment)?;
            alone(environment)?
        };
        start.check()
    }

    /// What has started the job.
    pub fn launcher(&self) -> Launcher {
        match self {
            Start::Alone => Launcher::Alone,
            Start::Run { .. } => Launcher::Run,
            Start::Pmix => Launcher::Pmix,
            Start::PmiDescriptor { .. } | Start::PmiPort { .. } => Launcher::Pmi,
            Start::Rendezvous(meeting) => meeting.launcher,
        }
    }

    fn check(self) -> Result<Self, Error> {
        let (name, rank, size) = match &self {
            Start::Run { rank, size, .. } => ("SABANI_SIZE", *rank, *size),
            Start::PmiDescriptor { rank, size, .. } => ("PMI_SIZE", *rank, *size),
            Start::Rendezvous(meeting) => ("SABANI_SIZE", meeting.rank, meeting.size),
            // These tell it later.
            Start::Alone | Start::Pmix | Start::PmiPort { .. } => return Ok(self),
        };
        match rank < size {
            true => Ok(self),
            false => Err(Error::Variable {
                name,
                problem: format!("a job of size {size} has no rank {rank}: ranks begin at 0"),
            }),
        }
    }
}

/// A rendezvous whose address somebody has set; Kubernetes and Slurm still tell the rank.
fn by_rendezvous(environment: &Environment) -> Result<Option<Meeting>, Error> {
    let Some(address) = environment.get("SABANI_RENDEZVOUS")? else {
        return Ok(None);
    };
    let index = environment.number("JOB_COMPLETION_INDEX")?;
    let in_step = environment.number("SLURM_PROCID")?;
    let (launcher, rank) = match (environment.number("SABANI_RANK")?, index, in_step) {
        (Some(rank), ..) => (Launcher::Rendezvous, rank),
        (None, Some(index), _) => (Launcher::Kubernetes, index),
        (None, None, Some(rank)) => (Launcher::Slurm, rank),
        (None, None, None) => {
            let cure = "it is this process's rank, from 0 to SABANI_SIZE - 1";
            (Launcher::Rendezvous, environment.need("SABANI_RANK", cure)?)
        }
    };
    let of_step = match launcher {
        Launcher::Slurm => environment.number("SLURM_STEP_NUM_TASKS")?,
        _ => None,
    };
    let size = match of_step {
        Some(size) => size,
        None => environment.need("SABANI_SIZE", "it is the number of ranks")?,
    };
    Ok(Some(Meeting {
        launcher,
        rank,
        size,
        address: with_port(address),
    }))
}

/// A Slurm step without PMI. In a batch script, which is no step of several tasks, the variables of
/// the step are not set.
fn by_slurm(environment: &Environment) -> Result<Option<Meeting>, Error> {
    let Some(size) = environment.number("SLURM_STEP_NUM_TASKS")? else {
        return Ok(None);
    };
    let cure = "srun sets it";
    let nodes = environment.get("SLURM_STEP_NODELIST")?;
    let first = nodes.map(first_host).ok_or_else(|| Error::Variable {
        name: "SLURM_STEP_NODELIST",
        problem: format!("is not set: {cure}"),
    })?;
    // Steps of several jobs may share a node.
    let job: u32 = environment.need("SLURM_JOB_ID", cure)?;
    let step: u32 = environment.number("SLURM_STEP_ID")?.unwrap_or(0);
    let port = 20_000 + (job.wrapping_mul(31).wrapping_add(step) % 10_000);
    Ok(Some(Meeting {
        launcher: Launcher::Slurm,
        rank: environment.need("SLURM_PROCID", cure)?,
        size,
        address: format!("{first}:{port}"),
    }))
}

/// An indexed Job of several pods does: nothing else there says how to find the others.
fn needs_no_rendezvous(environment: &Environment) -> Result<(), Error> {
    let index: Option<u32> = environment.number("JOB_COMPLETION_INDEX")?;
    let size: Option<u32> = environment.number("SABANI_SIZE")?;
    let is_alone = (index, size) == (Some(0), Some(1));
    if index.is_none() || is_alone || environment.get("SABANI_RANK")?.is_some() {
        return Ok(());
    }
    Err(Error::Variable {
        name: "SABANI_RENDEZVOUS",
        problem: "is not set: in an indexed Job it names the pod of index 0, as in \
                  `myjob-0.myservice:7177`, where myservice is the Job's headless service"
            .into(),
    })
}

fn alone(environment: &Environment) -> Result<Start, Error> {
    match environment.number("SABANI_SIZE")? {
        None | Some(1) => Ok(Start::Alone),
        Some(size) => Err(Error::Variable {
            name: "SABANI_SIZE",
            problem: format!(
                "is {size}, but nothing here says how to find the others: start the program with \
                 `sabani run -n {size}`, mpirun or srun, or set SABANI_RENDEZVOUS (host:port of \
                 rank 0) and SABANI_RANK"
            ),
        }),
    }
}

fn with_port(address: &str) -> String {
    if address.parse::<Ipv6Addr>().is_ok() {
        return format!("[{address}]:{RENDEZVOUS_PORT}");
    }
    let port = address.rsplit_once(':').map(|(_, port)| port);
    match port.map(str::parse::<u16>) {
        Some(Ok(_)) => address.to_owned(),
        _ => format!("{address}:{RENDEZVOUS_PORT}"),
    }
}

/// The first host of Slurm's compressed list: `n[03-05,9],login` begins with `n03`.
fn first_host(list: &str) -> String {
    let end = list.find([',', '[']).unwrap_or(list.len());
    let (prefix, rest) = list.split_at(end);
    let Some(numbers) = rest.strip_prefix('[') else {
        return prefix.to_owned();
    };
    let first = numbers.split(['-', ',', ']']).next().unwrap_or_default();
    let suffix = numbers.split_once(']').map_or("", |(_, rest)| rest);
    let suffix = suffix.split([',', '[']).next().unwrap_or_default();
    format!("{prefix}{first}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(variables: &[(&str, &str)]) -> Result<Start, String> {
        let environment = variables.iter().copied().collect();
        Start::of(&environment).map_err(|error| error.to_string())
    }

    fn meeting(launcher: Launcher, rank: u32, size: u32, address: &str) -> Result<Start, String> {
        Ok(Start::Rendezvous(Meeting {
            launcher,
            rank,
            size,
            address: address.into(),
        }))
    }

    #[test]
    fn each_launcher_is_known_by_its_variables() {
        assert_eq!(start(&[]), Ok(Start::Alone));
        let run = [
            ("SABANI_RUN_FD", "5"),
            ("SABANI_RANK", "1"),
            ("SABANI_SIZE", "3"),
        ];
        let expected = Start::Run {
            fd: 5,
            rank: 1,
            size: 3,
        };
        assert_eq!(start(&run), Ok(expected));
        assert_eq!(start(&[("PMIX_NAMESPACE", "job")]), Ok(Start::Pmix));
        let hydra = [("PMI_FD", "6"), ("PMI_RANK", "0"), ("PMI_SIZE", "2")];
        let expected = Start::PmiDescriptor {
            fd: 6,
            rank: 0,
            size: 2,
        };
        assert_eq!(start(&hydra), Ok(expected));
    }

    #[test]
    fn a_slurm_step_without_pmi_meets_on_its_first_host() {
        let step = [
            ("SLURM_JOB_ID", "12"),
            ("SLURM_STEP_ID", "1"),
            ("SLURM_STEP_NODELIST", "n[03-05,9],login"),
            ("SLURM_STEP_NUM_TASKS", "8"),
            ("SLURM_PROCID", "7"),
        ];
        assert_eq!(start(&step), meeting(Launcher::Slurm, 7, 8, "n03:20373"));
        // A batch script is told of its job, but is no step of it.
        let batch = [
            ("SLURM_JOB_ID", "12"),
            ("SLURM_NTASKS", "8"),
            ("SLURM_PROCID", "0"),
        ];
        assert_eq!(start(&batch), Ok(Start::Alone));
    }

    #[test]
    fn an_indexed_job_needs_a_size_and_an_address() {
        let mut job = vec![("JOB_COMPLETION_INDEX", "2")];
        let error = start(&job).unwrap_err();
        assert!(error.contains("SABANI_RENDEZVOUS: is not set"), "{error}");
        job.push(("SABANI_RENDEZVOUS", "myjob-0.myservice"));
        let error = start(&job).unwrap_err();
        assert!(error.contains("SABANI_SIZE: is not set"), "{error}");
        job.push(("SABANI_SIZE", "4"));
        let expected = meeting(Launcher::Kubernetes, 2, 4, "myjob-0.myservice:7177");
        assert_eq!(start(&job), expected);
    }

    #[test]
    fn a_launcher_with_a_store_serves_in_an_indexed_job_as_well() {
        let inside = |variables: &[(&str, &str)]| {
            start(&[&[("JOB_COMPLETION_INDEX", "0")], variables].concat())
        };
        assert_eq!(inside(&[("PMIX_NAMESPACE", "job")]), Ok(Start::Pmix));
        let hydra = [("PMI_FD", "6"), ("PMI_RANK", "0"), ("PMI_SIZE", "2")];
        assert!(matches!(inside(&hydra), Ok(Start::PmiDescriptor { .. })));
        // One pod has nobody to meet.
        assert_eq!(inside(&[("SABANI_SIZE", "1")]), Ok(Start::Alone));
        assert!(inside(&[("SABANI_SIZE", "2")]).is_err());
    }

    #[test]
    fn who_is_closest_goes_first() {
        let mut all = vec![
            ("PMIX_NAMESPACE", "job"),
            ("SABANI_RENDEZVOUS", "h:1"),
            ("SABANI_RANK", "1"),
            ("SABANI_SIZE", "3"),
        ];
        assert_eq!(start(&all), meeting(Launcher::Rendezvous, 1, 3, "h:1"));
        all.push(("SABANI_RUN_FD", "5"));
        assert!(matches!(start(&all), Ok(Start::Run { fd: 5, .. })));
    }

    #[test]
    fn a_slurm_step_may_meet_elsewhere_and_keeps_its_size() {
        let mut step = vec![("SABANI_RENDEZVOUS", "h:1")];
        let error = start(&step).unwrap_err();
        assert!(error.contains("SABANI_RANK: is not set"), "{error}");
        step.push(("SLURM_PROCID", "2"));
        let error = start(&step).unwrap_err();
        assert!(error.contains("SABANI_SIZE: is not set"), "{error}");
        step.push(("SLURM_STEP_NUM_TASKS", "4"));
        assert_eq!(start(&step), meeting(Launcher::Slurm, 2, 4, "h:1"));
        // That the user says otherwise is found out by whoever joins.
        step.push(("SABANI_SIZE", "8"));
        assert_eq!(start(&step), meeting(Launcher::Slurm, 2, 4, "h:1"));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_cure() {
        let error = start(&[("SABANI_SIZE", "8")]).unwrap_err();
        assert!(error.contains("`sabani run -n 8`"), "{error}");
        let error = start(&[("PMI_FD", "x")]).unwrap_err();
        assert!(error.contains("PMI_FD: `x` is not a number"), "{error}");
        let error = start(&[
            ("SABANI_RENDEZVOUS", "[::1]:80"),
            ("SABANI_RANK", "4"),
            ("SABANI_SIZE", "4"),
        ]);
        assert!(error.unwrap_err().contains("has no rank 4"));
        let hydra = [("PMI_FD", "6"), ("PMI_RANK", "2"), ("PMI_SIZE", "2")];
        let error = start(&hydra).unwrap_err();
        assert!(error.contains("PMI_SIZE: a job of size 2"), "{error}");
    }

    #[test]
    fn hosts_and_ports_are_read() {
        for (list, first) in [
            ("alone", "alone"),
            ("a,b", "a"),
            ("n[1-4]", "n1"),
            ("rack[2,4-6]-x,n7", "rack2-x"),
        ] {
            assert_eq!(first_host(list), first);
        }
        assert_eq!(with_port("h:1"), "h:1");
        assert_eq!(with_port("fd00::1"), "[fd00::1]:7177");
        assert_eq!(with_port("[fd00::1]:9"), "[fd00::1]:9");
    }
}
