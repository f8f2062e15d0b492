//! A process's place in its job.

use std::fmt;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::start::{Meeting, Start};
use crate::store::Store;
use crate::sys::inherited;
use crate::{Departure, Environment, Error, Launcher, network, pmi, pmix, rendezvous};

/// How long a process waits for the others at the start.
const START_TIMEOUT: Duration = Duration::from_secs(60);
const START_TIMEOUT_VARIABLE: &str = "SABANI_START_TIMEOUT";
const KEY_FILE: &str = "SABANI_JOB_KEY_FILE";
/// Under these rank 0 puts a job key of its making, and each rank where it is.
const KEY: &str = "key";
const CARD: &str = "card";
/// In place of a key: every rank is to use its file.
const USE_FILES: &str = "file";
/// Tells hosts of the same name apart.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Where the job's key comes from.
#[derive(Clone, PartialEq, Eq)]
pub enum JobKey {
    /// 64 hexadecimal digits, from the launcher's store.
    Shared(String),
    /// A file that the user has named in `SABANI_JOB_KEY_FILE`.
    File(PathBuf),
    /// A world of one needs none.
    None,
}

impl fmt::Debug for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JobKey::Shared(_) => f.write_str("Shared"),
            JobKey::File(path) => write!(f, "File({})", path.display()),
            JobKey::None => f.write_str("None"),
        }
    }
}

/// What the ranks tell each other when they meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its host's name.
    pub host: String,
    /// Which start of which machine that host is.
    boot: String,
    /// Where its socket is.
    pub address: SocketAddr,
}

impl Member {
    /// This process, with its socket there.
    fn here(address: SocketAddr) -> Self {
        let boot = fs::read_to_string(BOOT_ID).unwrap_or_default();
        Self {
            host: host_name(),
            boot: boot.trim().into(),
            address,
        }
    }

    /// Whether both are on the same host.
    pub fn is_beside(&self, other: &Member) -> bool {
        (&self.host, &self.boot) == (&other.host, &other.boot)
    }

    fn parse(card: &str) -> Option<Self> {
        let mut parts = card.split('|');
        let (host, boot, address) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Self {
            host: host.into(),
            boot: boot.into(),
            address: address.parse().ok()?,
        })
    }
}

/// As it goes through the launcher's store, which may not take spaces.
impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}|{}|{}", self.host, self.boot, self.address)
    }
}

fn host_name() -> String {
    let name = nix::unistd::gethostname().unwrap_or_default();
    let name = name.to_string_lossy();
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || "-._".contains(*c);
    name.chars().filter(is_plain).collect()
}

/// A process's place in its job, and its connection to the launcher. When it is dropped, the
/// launcher is told that this rank is done.
pub struct World {
    rank: u32,
    size: u32,
    launcher: Launcher,
    store: Option<Box<dyn Store>>,
    job_key: JobKey,
    local_size: Option<u32>,
    address: IpAddr,
    ports: RangeInclusive<u16>,
    members: Vec<Member>,
    place: Option<Place>,
}

/// A process is one rank: two that spoke for it at a time would take each other's answers from the launcher.
struct Place;

impl Place {
    /// Takes this process's place in its job.
    fn take(launcher: Launcher) -> Result<Self, Error> {
        match TAKEN.swap(true, Ordering::AcqRel) {
            false => Ok(Self),
            true => Err(Error::Launcher {
                launcher,
                doing: "joining the job".into(),
                problem:
                    "this process has joined it already, and a process is one rank: clone its \
                          communicator, or split it"
                        .into(),
            }),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        TAKEN.store(false, Ordering::Release);
    }
}

/// Whether this process has joined the job that it was started in.
static TAKEN: AtomicBool = AtomicBool::new(false);

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World")
            .field("rank", &self.rank)
            .field("size", &self.size)
            .field("launcher", &self.launcher)
            .finish_non_exhaustive()
    }
}

impl World {
    /// Joins the job that this process was started in.
    ///
    /// # Errors
    /// All of [`Error`]'s but [`Error::Left`] and [`Error::Missing`], each with its cure.
    pub fn join() -> Result<Self, Error> {
        let environment = Environment::current();
        let place = match Start::of(&environment)?.launcher() {
            Launcher::Alone => None,
            launcher => Some(Place::take(launcher)?),
        };
        let mut world = Self::join_by(&environment)?;
        world.place = place;
        Ok(world)
    }

    /// Joins the job that an environment describes.
    ///
    /// # Errors
    /// As [`World::join`].
    pub fn join_by(environment: &Environment) -> Result<Self, Error> {
        let joined = Joined::by(environment)?;
        let Joined { rank, size, .. } = joined;
        // Some launchers say it themselves, and all that follows relies on it.
        if rank >= size {
            return Err(Error::Launcher {
                launcher: joined.launcher,
                doing: "learning which rank this is".into(),
                problem: format!(
                    "it says rank {rank} of a job of {size}, whose ranks would begin at 0: is it whole?"
                ),
            });
        }
        let wanted: Option<u32> = environment.number("SABANI_SIZE")?;
        if let Some(wanted) = wanted.filter(|&wanted| wanted != size) {
            return Err(Error::Variable {
                name: "SABANI_SIZE",
                problem: format!("is {wanted}, but {} has started {size}", joined.launcher),
            });
        }
        let address = network::address(
            environment,
            joined.local_size == Some(size),
            joined.on_the_way,
        )?;
        let mut world = Self {
            rank,
            size,
            launcher: joined.launcher,
            store: joined.store,
            job_key: JobKey::None,
            local_size: joined.local_size,
            address,
            ports: network::ports(environment)?,
            members: Vec::new(),
            place: None,
        };
        world.job_key = world.find_key(environment, joined.job_key)?;
        Ok(world)
    }

    /// This process's rank, from 0.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// How many ranks there are.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// What has started the job.
    pub fn launcher(&self) -> Launcher {
        self.launcher
    }

    /// How many ranks are on this host, if the launcher says so.
    pub fn local_size(&self) -> Option<u32> {
        self.local_size
    }

    /// The address of this host that the others are to use: choose a port from [`World::ports`].
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// The ports that may be used (`SABANI_PORTS`); 0 to 0 means any.
    pub fn ports(&self) -> RangeInclusive<u16> {
        self.ports.clone()
    }

    /// What to tell a user whose [`World::ports`] are all taken.
    pub fn no_free_port(&self) -> Error {
        network::no_free_port(&self.ports)
    }

    /// Where the job's key comes from.
    pub fn job_key(&self) -> &JobKey {
        &self.job_key
    }

    /// Tells all ranks this one's address, and learns everybody's: [`World::members`].
    ///
    /// # Errors
    /// [`Error::Missing`] if some have not come in time, [`Error::Left`] if one has ended,
    /// [`Error::Launcher`].
    pub fn meet(&mut self, address: SocketAddr) -> Result<(), Error> {
        let own = Member::here(address);
        self.put(CARD, &own.to_string())?;
        self.fence()?;
        let (this, size) = (self.rank, self.size);
        let members = (0..size).map(|rank| match rank == this {
            true => Ok(own.clone()),
            false => self.member(rank),
        });
        self.members = members.collect::<Result<_, _>>()?;
        Ok(())
    }

    fn member(&mut self, rank: u32) -> Result<Member, Error> {
        let card = self.get(rank, CARD)?;
        Member::parse(&card).ok_or_else(|| Error::Launcher {
            launcher: self.launcher,
            doing: "meeting the others".into(),
            problem: format!("rank {rank} says `{card}`: is it of the same version?"),
        })
    }

    /// All ranks, once they have met.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// How many ranks before this one are on the same host, once they have met.
    pub fn local_rank(&self) -> u32 {
        let before = self.members.iter().take(self.rank as usize);
        let own = self.members.get(self.rank as usize);
        before
            .filter(|member| own.is_some_and(|own| own.is_beside(member)))
            .count() as u32
    }

    /// Says a value under a key of this rank's; the others can get it after the next fence. Keys have
    /// at most 40 bytes and values 1,000, without spaces, which every launcher's store takes.
    ///
    /// # Errors
    /// [`Error::Launcher`].
    pub fn put(&mut self, key: &str, value: &str) -> Result<(), Error> {
        self.store
            .as_mut()
            .map_or(Ok(()), |store| store.put(key, value))
    }

    /// Waits until every rank has come here.
    ///
    /// # Errors
    /// As [`World::meet`].
    pub fn fence(&mut self) -> Result<(), Error> {
        self.store.as_mut().map_or(Ok(()), |store| store.fence())
    }

    /// What another rank has put under a key before the last fence.
    ///
    /// # Errors
    /// [`Error::Launcher`].
    pub fn get(&mut self, rank: u32, key: &str) -> Result<String, Error> {
        match &mut self.store {
            Some(store) => store.get(rank, key),
            None => Err(Error::Launcher {
                launcher: self.launcher,
                doing: "getting a value".into(),
                problem: format!("there is no rank {rank} besides this one"),
            }),
        }
    }

    /// Ranks that have ended since this was last called. Known at once under `sabani run` and at a
    /// rendezvous while its rank 0 lives; PMI and PMIx tell nothing.
    pub fn departures(&mut self) -> Vec<Departure> {
        self.store
            .as_mut()
            .map_or_else(Vec::new, |store| store.departures())
    }

    /// Tells the others why this rank can't go on, where the launcher can carry that: under `sabani
    /// run`, which ends the job, and at a rendezvous.
    pub fn fail(&mut self, why: &str) {
        if let Some(store) = &mut self.store {
            store.fail(why);
        }
    }

    /// Asks the launcher to end the whole job with this exit status.
    pub fn abort(&mut self, status: i32, why: &str) {
        if let Some(store) = &mut self.store {
            store.abort(status, why);
        }
    }

    /// The user's file goes first, then what the launcher gives. Where it only has a store, rank 0
    /// makes a key and puts it there, or says that all use their files.
    fn find_key(
        &mut self,
        environment: &Environment,
        given: Option<String>,
    ) -> Result<JobKey, Error> {
        let file = environment
            .path(KEY_FILE)
            .map(|path| JobKey::File(path.into()));
        let has_store_only = matches!(self.launcher, Launcher::Pmi | Launcher::Pmix);
        if !has_store_only {
            return Ok(file.or(given.map(JobKey::Shared)).unwrap_or(JobKey::None));
        }
        if self.rank == 0 {
            let shared = match &file {
                Some(_) => USE_FILES.to_owned(),
                None => random_key()?,
            };
            self.put(KEY, &shared)?;
            self.fence()?;
            return Ok(file.unwrap_or(JobKey::Shared(shared)));
        }
        self.fence()?;
        let shared = self.get(0, KEY)?;
        match (shared == USE_FILES, file) {
            (true, Some(file)) => Ok(file),
            (false, None) => Ok(JobKey::Shared(shared)),
            _ => Err(Error::Variable {
                name: KEY_FILE,
                problem: "is set for some ranks only: let the launcher pass it on to all, as in \
                          `mpirun -x SABANI_JOB_KEY_FILE`"
                    .into(),
            }),
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(store) = &mut self.store {
            store.finish();
        }
        self.place = None;
    }
}

/// The key by which ranks know each other where they meet, as all of them write it.
fn key_of_meeting(path: &Path) -> Result<String, Error> {
    let refused = |problem: String| Error::Variable {
        name: KEY_FILE,
        problem: format!("{}: {problem}", path.display()),
    };
    let kind = fs::metadata(path).map_err(|error| refused(error.to_string()))?;
    // It is read once more for the connections.
    if !kind.is_file() {
        return Err(refused(
            "is no file, and a pipe can be read but once".into(),
        ));
    }
    let key = fs::read_to_string(path).map_err(|error| refused(error.to_string()))?;
    // Some editors put a mark in front.
    Ok(key.trim_start_matches('\u{feff}').to_ascii_lowercase())
}

/// Makes a job key: 64 hexadecimal digits.
///
/// # Errors
/// If the system has no randomness.
pub fn random_key() -> Result<String, Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| Error::Launcher {
        launcher: Launcher::Alone,
        doing: "asking the system for randomness".into(),
        problem: error.to_string(),
    })?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// What is known after the first words with the launcher.
struct Joined {
    launcher: Launcher,
    rank: u32,
    size: u32,
    store: Option<Box<dyn Store>>,
    job_key: Option<String>,
    /// Ranks on this host, if the launcher says so.
    local_size: Option<u32>,
    /// This host's address on the way to rank 0.
    on_the_way: Option<IpAddr>,
}

impl Joined {
    fn by(environment: &Environment) -> Result<Self, Error> {
        let seconds = environment.number(START_TIMEOUT_VARIABLE)?;
        let patience = seconds.map_or(START_TIMEOUT, |s: u32| Duration::from_secs(s.max(1).into()));
        match Start::of(environment)? {
            Start::Alone => Ok(Self::alone()),
            Start::Run { fd, rank, size } => {
                let fd = descriptor("SABANI_RUN_FD", fd)?;
                let (client, job_key) = rendezvous::Client::inherited(fd, rank, size, patience)?;
                let job = Self::new(Launcher::Run, (rank, size), client);
                Ok(Self {
                    job_key,
                    local_size: Some(size),
                    ..job
                })
            }
            Start::Pmix => {
                let client = pmix::Client::connect(environment)?;
                let local_size = client.local_size();
                let job = Self::new(Launcher::Pmix, (client.rank(), client.size()), client);
                Ok(Self { local_size, ..job })
            }
            Start::PmiDescriptor { fd, rank, size } => {
                let fd = descriptor("PMI_FD", fd)?;
                Self::by_pmi(environment, pmi::Client::inherited(fd, rank, size)?)
            }
            Start::PmiPort { address, id } => {
                Self::by_pmi(environment, pmi::Client::call(&address, id)?)
            }
            // It has nobody to meet, so it needs no key either.
            Start::Rendezvous(Meeting {
                launcher, size: 1, ..
            }) => Ok(Self {
                launcher,
                ..Self::alone()
            }),
            Start::Rendezvous(meeting) => {
                let path = environment
                    .path(KEY_FILE)
                    .ok_or(Error::NoJobKey(meeting.launcher))?;
                let key = key_of_meeting(path)?;
                let client = rendezvous::Client::meet(&meeting, &key, patience)?;
                let on_the_way = client.local_address();
                let job = Self::new(meeting.launcher, (meeting.rank, meeting.size), client);
                Ok(Self { on_the_way, ..job })
            }
        }
    }

    fn alone() -> Self {
        Self {
            launcher: Launcher::Alone,
            rank: 0,
            size: 1,
            store: None,
            job_key: None,
            local_size: Some(1),
            on_the_way: None,
        }
    }

    fn new(launcher: Launcher, (rank, size): (u32, u32), store: impl Store + 'static) -> Self {
        Self {
            launcher,
            rank,
            size,
            store: Some(Box::new(store)),
            job_key: None,
            local_size: None,
            on_the_way: None,
        }
    }

    /// Hydra says how many ranks are on this host, Slurm on how many hosts they are.
    fn by_pmi(environment: &Environment, client: pmi::Client) -> Result<Self, Error> {
        let local: Option<u32> = environment.number("MPI_LOCALNRANKS")?;
        let nodes: Option<u32> = environment.number("SLURM_STEP_NUM_NODES")?;
        let all_here = (nodes == Some(1)).then_some(client.size());
        let local_size = local.or(all_here);
        let job = Self::new(Launcher::Pmi, (client.rank(), client.size()), client);
        Ok(Self { local_size, ..job })
    }
}

fn descriptor(name: &'static str, fd: i32) -> Result<std::os::fd::OwnedFd, Error> {
    inherited::duplicate(fd).map_err(|error| Error::Variable {
        name,
        problem: format!("descriptor {fd}: {error}; whatever runs the program must leave it open"),
    })
}
