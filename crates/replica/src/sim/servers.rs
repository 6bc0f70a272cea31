//! Servers, each in a directory: started, killed with the disk as it was, and begun again.

use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use pipeann_db::catalog::UnixMs;
use pipeann_db::database::DatabaseOptions;
use pipeann_members::ServerInfo;
use pipeann_members::memory::SharedMemory;
use pipeann_store::ClusterStore;
use pipeann_store::sim::{FickleStore, Moods};
use uuid::Uuid;

use super::of_server::{ClockOf, OfServer};
use super::world::{Life, ServerWorld, doze};
use crate::planted::ServerFault;
use crate::tests::server_info;
use crate::time::ServerTime;
use crate::{ClusterMembership, Election, Replica, ReplicaFile, ReplicaOptions, ServerDirectory};

/// How long leases are.
pub(super) const LEASE: Duration = Duration::from_secs(2);
/// So many bytes of the log make a generation, so that a run has some.
const GENERATION_BYTES: u64 = 1500;
/// So few that a call with a request is an object, and what waits becomes several.
const OBJECT_CHANGES: usize = 2;
/// Between looks of whoever waits.
pub(super) const LOOK: Duration = Duration::from_millis(20);

/// A server that runs.
pub(super) struct RunningServer {
    pub(super) replica: Replica,
    pub(super) life: Arc<Life>,
    pub(super) id: Uuid,
    members: Arc<ClusterMembership>,
    cut_off: Mutex<Receiver<()>>,
}

impl RunningServer {
    fn is_cut_off(&self) -> bool {
        self.cut_off.lock().unwrap().try_recv().is_ok()
    }
}

/// Where a server runs again and again.
pub(super) struct ServerSite {
    pub(super) number: usize,
    state: Mutex<SiteState>,
}

struct SiteState {
    dir: PathBuf,
    lives: usize,
    life: Option<Arc<Life>>,
    running: Option<Arc<RunningServer>>,
    down_until: Duration,
    /// Why the last start failed.
    trouble: Option<String>,
}

/// What all sites have in common.
pub(super) struct Cluster {
    pub(super) world: Arc<ServerWorld>,
    pub(super) store: FickleStore,
    pub(super) etcd: Arc<SharedMemory>,
    pub(super) planted: Option<ServerFault>,
    pub(super) sites: Vec<ServerSite>,
    id: Uuid,
    /// Whether the store is asked as a directory is, by name, or as a bucket, by listings.
    local: bool,
    root: PathBuf,
    over: Mutex<bool>,
}

impl Cluster {
    /// Sites over a store, which is claimed. In a turn of the world.
    pub(super) fn new(
        world: &Arc<ServerWorld>,
        root: &Path,
        sites: usize,
        planted: Option<ServerFault>,
    ) -> Arc<Self> {
        let surroundings = Arc::new(OfServer { world: Arc::clone(world), life: Life::new() });
        let moods = Moods::drawn(&*surroundings);
        let store = FickleStore::new(Arc::clone(&surroundings) as _, Moods::KIND);
        let bucket = store.handle_of(Arc::clone(&surroundings) as _, Arc::default());
        let local = world.happens(700);
        let claimed = ClusterStore::simulated(bucket, "sim", surroundings, local);
        let id = claimed.expect("nothing goes wrong yet").cluster_id();
        store.change_moods(moods);
        let etcd = SharedMemory::new(id, LEASE, Arc::new(ClockOf(Arc::clone(world))));
        let sites = (0..sites).map(|number| ServerSite::new(number, root));
        let over = Mutex::new(false);
        Arc::new(Self {
            world: Arc::clone(world),
            store,
            etcd,
            planted,
            sites: sites.collect(),
            id,
            local,
            root: root.to_owned(),
            over,
        })
    }

    /// Starts whatever is to run at a site, until the run is over.
    pub(super) fn keep(self: &Arc<Self>, number: usize) {
        let (cluster, site) = (Arc::clone(self), format!("site {number}"));
        let keep = move || {
            let site = &cluster.sites[number];
            while !cluster.is_over() {
                if site.is_down(cluster.world.now()) {
                    cluster.world.wait(LOOK);
                    continue;
                }
                let life = Life::new();
                site.state().life = Some(Arc::clone(&life));
                let ended = life.within(|| cluster.live(site, &life));
                if let Err(why) = ended
                    && !life.is_killed()
                {
                    site.state().trouble = Some(why);
                    cluster.world.pause(Duration::from_secs(1));
                }
            }
        };
        self.world.spawn(&site, None, keep).expect("threads can be made");
    }

    /// A server from its start until it is killed, has to begin anew, or the run is over.
    fn live(&self, site: &ServerSite, life: &Arc<Life>) -> Result<(), String> {
        let server = Arc::new(self.start(site, life)?);
        site.state().running = Some(Arc::clone(&server));
        while !life.is_killed() && !self.is_over() && !server.is_cut_off() {
            self.world.wait(LOOK);
        }
        site.state().running = None;
        if !life.is_killed() {
            let _ = server.members.leave();
        }
        // Those who are inside it go first.
        while Arc::strong_count(&server) > 1 {
            self.world.wait(LOOK);
        }
        drop(server);
        Ok(())
    }

    fn start(&self, site: &ServerSite, life: &Arc<Life>) -> Result<RunningServer, String> {
        fn told(error: impl std::fmt::Display) -> String {
            error.to_string()
        }
        let surroundings =
            Arc::new(OfServer { world: Arc::clone(&self.world), life: Arc::clone(life) });
        let bucket = self.store.handle_of(Arc::clone(&surroundings) as _, Arc::clone(&life.killed));
        let of_store = Arc::clone(&surroundings) as _;
        let store = ClusterStore::simulated(bucket, "sim", of_store, self.local).map_err(told)?;
        let dir = site.state().dir.clone();
        std::fs::create_dir_all(&dir).map_err(told)?;
        let new_id = Uuid::from_u64_pair(self.world.below(u64::MAX), self.world.below(u64::MAX));
        let file = ReplicaFile::open(&dir, self.id, new_id).map_err(told)?;
        let end = self.etcd.connect(self.id).map_err(told)?;
        let members =
            Arc::new(ClusterMembership::join(end, site.info(file.server())).map_err(told)?);
        let skew = self.world.below(400);
        let world = Arc::clone(&self.world);
        let now = move || UnixMs(1_700_000_000_000 + skew + world.now().as_millis() as u64);
        let directory = ServerDirectory::new(&dir, &store, file);
        if directory.wants_generation().map_err(told)? {
            directory.take_generation("a server", now()).map_err(told)?;
        }
        let (cut_off, is_cut_off) = sync_channel(1);
        let election = Arc::clone(&members) as Arc<dyn Election>;
        let options = ReplicaOptions {
            generation_bytes: GENERATION_BYTES,
            object_changes: OBJECT_CHANGES,
            note: self.between_notes(),
            cut_off: Some(cut_off),
            time: ServerTime::Simulated(surroundings),
            planted: self.planted,
            ..ReplicaOptions::new(store, format!("site {}", site.number), election)
        };
        let mut database = DatabaseOptions::new(now);
        database.row_cache_bytes = 1 << 16;
        let id = file.server();
        let replica = Replica::open(&dir, database, options, id).map_err(told)?;
        site.state().trouble = None;
        Ok(RunningServer {
            replica,
            life: Arc::clone(life),
            id,
            members,
            cut_off: Mutex::new(is_cut_off),
        })
    }

    /// How often a server notes how far it is. What it forgets with a restart comes from the log again but
    /// for what it has noted: so whoever is to forget notes all at once.
    fn between_notes(&self) -> Duration {
        if self.forgets_requests() { Duration::ZERO } else { Duration::from_millis(500) }
    }

    /// Whether servers have the fault that a restart forgets requests.
    fn forgets_requests(&self) -> bool {
        self.planted == Some(ServerFault::RequestsNotNoted)
    }

    /// With that fault, has all but one server begin anew before that one sends a change again: who leads
    /// next and has not, knows the request.
    pub(super) fn restart_who_forgets(&self, but: &Arc<RunningServer>) {
        if !self.forgets_requests() {
            return;
        }
        // Meanwhile others apply what was answered, and note it.
        self.world.pause(Duration::from_millis(200));
        let others = |site: &&ServerSite| site.server().is_some_and(|it| !Arc::ptr_eq(&it, but));
        let others: Vec<usize> = self.sites.iter().filter(others).map(|it| it.number).collect();
        others.into_iter().for_each(|it| self.kill(it, true, Duration::from_millis(500)));
    }

    /// Kills what runs at a site, with the disk as it is now or with none, for so long. In etcd it lives until
    /// its lease ends.
    pub(super) fn kill(&self, number: usize, keeps_disk: bool, down: Duration) {
        let site = &self.sites[number];
        let mut state = site.state();
        let Some(life) = state.life.clone().filter(|it| !it.is_killed()) else { return };
        state.lives += 1;
        let dir = self.root.join(format!("site-{number}-{}", state.lives));
        if keeps_disk {
            copy_at_rest(&state.dir, &dir).expect("there is room");
        }
        state.dir = dir;
        state.down_until = self.world.now() + down;
        life.killed.store(true, std::sync::atomic::Ordering::SeqCst);
        if let Some(server) = &state.running {
            self.etcd.cut_off(server.id, true);
        }
        drop(state);
        self.world.hurry(&life);
    }

    /// Stops what runs at a site and lets it go on later.
    pub(super) fn pause(&self, number: usize, time: Duration) {
        let Some(server) = self.sites[number].server() else { return };
        server.life.pause_until(self.world.now() + time);
        self.cut_off(number, time);
    }

    /// Cuts what runs at a site off etcd for so long.
    pub(super) fn cut_off(&self, number: usize, time: Duration) {
        let Some(server) = self.sites[number].server() else { return };
        let (id, life, etcd) = (server.id, Arc::clone(&server.life), Arc::clone(&self.etcd));
        drop(server);
        etcd.cut_off(id, true);
        let world = Arc::clone(&self.world);
        let joined = move || {
            world.wait(time);
            if !life.is_killed() {
                etcd.cut_off(id, false);
            }
        };
        self.world.spawn("cut", None, joined).expect("threads can be made");
    }

    pub(super) fn end(&self) {
        *self.over.lock().unwrap() = true;
    }

    fn is_over(&self) -> bool {
        *self.over.lock().unwrap()
    }

    /// The server that others reach at this address.
    pub(super) fn at(&self, address: &str) -> Option<Arc<RunningServer>> {
        self.sites.iter().find(|site| site.address() == address)?.server()
    }
}

impl ServerSite {
    fn new(number: usize, root: &Path) -> Self {
        let state = SiteState {
            dir: root.join(format!("site-{number}-0")),
            lives: 0,
            life: None,
            running: None,
            down_until: Duration::ZERO,
            trouble: None,
        };
        Self { number, state: Mutex::new(state) }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, SiteState> {
        self.state.lock().unwrap()
    }

    fn is_down(&self, now: Duration) -> bool {
        self.state().down_until > now
    }

    /// Why its last start failed.
    pub(super) fn trouble(&self) -> Option<String> {
        self.state().trouble.clone()
    }

    /// What runs here, where anything does.
    pub(super) fn server(&self) -> Option<Arc<RunningServer>> {
        self.state().running.clone().filter(|server| !server.life.is_killed())
    }

    fn address(&self) -> String {
        self.info(Uuid::nil()).address
    }

    fn info(&self, id: Uuid) -> ServerInfo {
        ServerInfo { id, ..server_info(self.number as u128, 0) }
    }
}

/// What a disk has when its server is killed. Threads of its database may work meanwhile, which take no turns:
/// then it is not the disk of one moment, and is copied anew.
fn copy_at_rest(from: &Path, to: &Path) -> io::Result<()> {
    const TRIES: usize = 1000;
    for _ in 0..TRIES {
        let before = states_below(from);
        let copied = copy(from, to);
        match (&before, states_below(from), &copied) {
            (Ok(before), Ok(after), Ok(())) if *before == after => return Ok(()),
            (Err(error), ..) | (_, _, Err(error)) if error.kind() != ErrorKind::NotFound => {
                return copied.and(before.map(drop));
            }
            _ => {}
        }
        // It may not have come so far.
        let _ = std::fs::remove_dir_all(to);
        doze(Duration::from_millis(1));
    }
    Err(io::Error::other("its files do not come to rest"))
}

/// What a file is, and when it was changed.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct FileState {
    path: PathBuf,
    inode: u64,
    bytes: u64,
    changed: Option<SystemTime>,
}

fn states_below(dir: &Path) -> io::Result<Vec<FileState>> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        let entries = match std::fs::read_dir(&dir) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let state = entry.metadata()?;
            if state.is_dir() {
                dirs.push(entry.path());
            }
            let (inode, bytes, changed) = (state.ino(), state.len(), state.modified().ok());
            found.push(FileState { path: entry.path(), inode, bytes, changed });
        }
    }
    found.sort_unstable();
    Ok(found)
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::create_dir_all(to)?;
    let entries = match std::fs::read_dir(from) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
